"""Files below one folder or bucket prefix: list, read, create exclusively. Never reaches Spark.

A local folder is served by `local`, an object store by `object_store`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from penstock.errors import StorageError
from penstock.model.progress import RawFile
from penstock.storage.addresses import is_remote
from penstock.storage.local import LocalFiles

if TYPE_CHECKING:
    from penstock.storage.options import Patience

OWN = "_penstock"
"""The folder of a storage that belongs to no table."""


class Files(Protocol):
    """One place with files; paths are relative, with forward slashes."""

    uri: str
    reader_options: dict[str, str] | None
    """What delta-rs needs to be told to reach this place."""

    def walk(self, prefix: str) -> list[RawFile]:
        """All files below the prefix, at any depth; empty when there is no such folder."""

    def names(self, prefix: str) -> list[str]:
        """Names of the files directly in a folder; empty when there is no such folder."""

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders directly in a folder; empty when there is no such folder."""

    def read(self, path: str) -> bytes:
        """The whole content; FileNotFoundError when there is none."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""

    def stamp(self, path: str) -> str | None:
        """A text that changes when the file is replaced; None when there is no such file."""

    def open(self, path: str) -> BinaryIO:
        """A seekable reader."""

    def create(self, path: str, content: bytes) -> None:
        """Create the file with this content atomically; FileExistsError when it already exists."""

    def open_new(self, path: str, like: str | None = None) -> AbstractContextManager[BinaryIO]:
        """A new file to write, and to read back while it is open; complete and durable once the block has ended.

        It may be read by whoever may read the file `like`, in the same folder; without one, as any new file. A file of that
        name is overwritten. After an error in the block there is no file.
        """

    def replace(self, aside: str, path: str, stamp: str) -> None:
        """Put the file `aside` in the place of `path`, atomically and durably, if that one still has this stamp.

        ConcurrentRunError when it has another one. Afterwards there is no file `aside`.
        """

    def remove(self, path: str) -> None:
        """Remove a file that Penstock created; FileNotFoundError when there is none, where the store says so."""

    def remove_empty_folders(self, prefix: str) -> None:
        """Remove the folders below this one that hold nothing, and itself; an object store has none."""

    def spark_path(self, path: str) -> str:
        """The path as Spark understands it."""


def open_files(
    uri: str,
    configuration: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    patience: Patience | None = None,
) -> Files:
    """Open a folder or an object-store prefix.

    How to reach a store comes from the Spark configuration, from settings such as `aws_region`, or the environment;
    `patience` limits how long a request is tried.
    """
    if not is_remote(uri):
        return LocalFiles(Path(uri.removeprefix("file://")))
    from penstock.storage.object_store import ObjectFiles
    from penstock.storage.options import to_reader_options, to_store_options

    given = configuration or {}
    return ObjectFiles(
        uri, to_store_options(given, settings, patience), {**to_reader_options(given), **(settings or {})}
    )


def open_storage(uri: str, configuration: Mapping[str, str] | None = None) -> Files:
    """Open the place of a project's tables; StorageError when it is a file, or a link in a circle."""
    files = open_files(uri, configuration)
    if isinstance(files, LocalFiles):
        _check_folders(files)
    return files


def _check_folders(files: LocalFiles) -> None:
    """Its own folder too: it says what was erased, so it must not look empty when it cannot be listed."""
    obstacle = files.find_obstacle(OWN)
    if obstacle is None:
        return
    what = "a file" if Path(obstacle).is_file() else "not a folder"
    if Path(obstacle) == files.root:
        hint = "move it away, or correct storage: in penstock.yml"
        raise StorageError(f"storage is {files.uri}, which is {what}", hint=hint)
    hint = "restore the folder from a backup; if nothing was ever hidden or erased, move it away"
    raise StorageError(f"{obstacle} is {what}", hint=hint)


def overwrite(files: Files, path: str, content: bytes) -> None:
    """Create a small file, or replace it: a reader sees all of it or what was there before."""
    with suppress(FileExistsError):
        files.create(path, content)
        return
    stamp = files.stamp(path) or ""
    with files.open_new(f"{path}.new", path) as stream:
        stream.write(content)
    files.replace(f"{path}.new", path, stamp)
