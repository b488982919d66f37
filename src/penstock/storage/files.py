"""Files below one folder or bucket prefix: list, read, create exclusively. Never reaches Spark.

A local folder is served by the standard library; object stores by obstore (extras `s3`, `azure`), imported only when needed.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast
from urllib.parse import urlsplit

from penstock.errors import StorageError
from penstock.model.progress import RawFile


class Files(Protocol):
    """One place with files; paths are relative, with forward slashes."""

    uri: str
    reader_options: dict[str, str] | None
    """What the JVM-free Delta reader needs to be told to reach this place."""

    def walk(self, prefix: str) -> list[RawFile]:
        """All files below the prefix, at any depth; empty when there is no such folder."""

    def names(self, prefix: str) -> list[str]:
        """Names of the files directly in a folder; empty when there is no such folder."""

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders directly in a folder; empty when there is no such folder."""

    def read(self, path: str) -> bytes:
        """The whole content; FileNotFoundError when there is none."""

    def open(self, path: str) -> BinaryIO:
        """A seekable reader."""

    def create(self, path: str, content: bytes) -> None:
        """Create the file with this content in one step; FileExistsError when it exists already."""

    def remove(self, path: str) -> None:
        """Remove a file that is ours."""

    def spark_path(self, path: str) -> str:
        """The path as Spark understands it."""


def is_remote(uri: str) -> bool:
    """Whether the URI is an object store rather than a local folder."""
    return "://" in uri and not uri.startswith("file://")


def open_files(uri: str, configuration: Mapping[str, str] | None = None) -> Files:
    """Open a folder or an object-store prefix; credentials come from the environment or the Spark configuration."""
    if is_remote(uri):
        return ObjectFiles(uri, configuration or {})
    return LocalFiles(Path(uri.removeprefix("file://")))


def to_spark_uri(uri: str) -> str:
    """An address as Spark's file systems know it: they call S3 `s3a`."""
    return uri.replace("s3://", "s3a://", 1) if uri.startswith("s3://") else uri


def without_scheme(path: str) -> str:
    """`file:/a/b`, `file:///a/b` and `/a/b` are one file, and so are s3:// and s3a:// of one bucket."""
    return path.split(":", 1)[1].lstrip("/") if "://" in path or path.startswith("file:") else path.lstrip("/")


def to_glob_literal(path: str) -> str:
    """The path so that Spark's readers take it by the letter: they would read `a?b` as a pattern for other files too."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


class LocalFiles:
    """Files of a local folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.uri = str(root)
        self.reader_options: dict[str, str] | None = None

    def walk(self, prefix: str) -> list[RawFile]:
        start = self.root / prefix if prefix else self.root
        found = [RawFile(entry_path, status.st_size, status.st_mtime_ns) for entry_path, status in _walk(start, prefix)]
        return sorted(found, key=lambda file: file.path)

    def names(self, prefix: str) -> list[str]:
        return sorted(entry.name for entry in _scan(self.root / prefix) if entry.is_file())

    def folders(self, prefix: str) -> list[str]:
        return sorted(entry.name for entry in _scan(self.root / prefix) if entry.is_dir())

    def read(self, path: str) -> bytes:
        try:
            return (self.root / path).read_bytes()
        except PermissionError as error:
            raise _denied(self.root / path) from error

    def open(self, path: str) -> BinaryIO:
        try:
            return (self.root / path).open("rb")
        except PermissionError as error:
            raise _denied(self.root / path) from error

    def create(self, path: str, content: bytes) -> None:
        target = self.root / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".new-")
        except PermissionError as error:
            raise _denied(target.parent) from error
        except OSError as error:
            raise StorageError(
                f"{target.parent} cannot be written: {error.strerror or error}",
                hint="check the path and the space left",
            ) from error
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(temporary, target)  # fails if the name is taken; a reader never sees half a file
        finally:
            Path(temporary).unlink()

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def spark_path(self, path: str) -> str:
        # Spark takes a path by the letter: Path.as_uri() would make it write to a folder called "my%20data"
        root = self.root.absolute()
        return f"file://{root / path if path else root}"


def _denied(path: Path) -> StorageError:
    return StorageError(f"no permission for {path}", hint="check the owner and mode of the folder")


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise _denied(folder) from error


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    for entry in _scan(folder):
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_dir():
            yield from _walk(Path(entry.path), path)
        elif entry.is_file():
            try:
                status = entry.stat()
            except FileNotFoundError:  # moved away since the folder was read
                continue
            yield path, status


class ObjectFiles:
    """Files of an object store, by obstore."""

    def __init__(self, uri: str, configuration: Mapping[str, str]) -> None:
        try:
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError as error:
            raise StorageError(
                f"{urlsplit(uri).scheme}:// needs the package obstore", hint="pip install 'penstock[s3]'"
            ) from error
        self.uri = uri.rstrip("/")
        options = to_store_options(configuration)
        self.reader_options: dict[str, str] | None = to_reader_options(configuration)
        # obstore's own errors are no OSErrors, except for those that the standard library has a name for
        self._errors: tuple[type[Exception], ...] = (OSError, BaseError)
        try:
            self._store: Any = from_url(self.uri.replace("s3a://", "s3://", 1), **cast("Any", options))
        except self._errors as error:
            raise self._failed(error) from error

    def walk(self, prefix: str) -> list[RawFile]:
        import obstore

        try:
            batches = list(obstore.list(self._store, prefix=prefix or None))
        except self._errors as error:
            raise self._failed(error) from error
        found = [
            RawFile(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1e9), meta["e_tag"])
            for batch in batches
            for meta in batch
        ]
        return sorted(found, key=lambda file: file.path)

    def names(self, prefix: str) -> list[str]:
        return sorted(meta["path"].rsplit("/", 1)[-1] for meta in self._level(prefix)["objects"])

    def folders(self, prefix: str) -> list[str]:
        return sorted(str(path).rstrip("/").rsplit("/", 1)[-1] for path in self._level(prefix)["common_prefixes"])

    def read(self, path: str) -> bytes:
        import obstore

        try:
            return bytes(obstore.get(self._store, path).bytes())
        except FileNotFoundError:
            raise
        except self._errors as error:
            raise self._failed(error) from error

    def open(self, path: str) -> BinaryIO:
        import obstore

        try:
            return io.BufferedReader(_RemoteFile(obstore.open_reader(self._store, path)))
        except FileNotFoundError:
            raise
        except self._errors as error:
            raise self._failed(error) from error

    def create(self, path: str, content: bytes) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self._store, path, content, mode="create")
        except AlreadyExistsError as error:
            raise FileExistsError(path) from error
        except self._errors as error:
            raise self._failed(error) from error

    def remove(self, path: str) -> None:
        import obstore

        try:
            obstore.delete(self._store, path)
        except self._errors as error:
            raise self._failed(error) from error

    def spark_path(self, path: str) -> str:
        base = to_spark_uri(self.uri)
        return f"{base}/{path}" if path else base

    def _level(self, prefix: str) -> Any:
        import obstore

        try:
            return obstore.list_with_delimiter(self._store, prefix=prefix or None)
        except self._errors as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StorageError:
        return StorageError(
            f"cannot reach {self.uri}: {type(error).__name__}",
            hint="check the name, the endpoint and the credentials (environment, or spark.hadoop.fs.* settings)",
        )


class _RemoteFile(io.RawIOBase):
    """An object-store reader as a file of the standard library, which closes and can be used in a `with` block."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = bytes(self._reader.read(len(buffer)))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())


_S3A = "spark.hadoop.fs.s3a."


def to_store_options(configuration: Mapping[str, str]) -> dict[str, Any]:
    """Translate Hadoop's S3A settings, so that Spark and the JVM-free readers are told once where the store is."""
    names = {
        "endpoint": "endpoint",
        "access.key": "access_key_id",
        "secret.key": "secret_access_key",
        "session.token": "session_token",
    }
    options: dict[str, Any] = {
        ours: configuration[_S3A + theirs] for theirs, ours in names.items() if _S3A + theirs in configuration
    }
    if _S3A + "endpoint.region" in configuration:
        options["region"] = configuration[_S3A + "endpoint.region"]
    if str(options.get("endpoint", "")).startswith("http://"):
        options["client_options"] = {"allow_http": True}
    for key, value in configuration.items():
        if key.startswith("spark.hadoop.fs.azure.account.key."):
            options["account_key"] = value
    if configuration.get(_S3A + "path.style.access", "").lower() == "true":
        options["virtual_hosted_style_request"] = False
    return options


def to_reader_options(configuration: Mapping[str, str]) -> dict[str, str]:
    """The same settings in the words of the JVM-free Delta reader."""
    names = {"endpoint": "AWS_ENDPOINT_URL", "access_key_id": "AWS_ACCESS_KEY_ID", "region": "AWS_REGION"}
    names |= {"secret_access_key": "AWS_SECRET_ACCESS_KEY", "session_token": "AWS_SESSION_TOKEN"}
    options = to_store_options(configuration)
    result = {theirs: str(options[ours]) for ours, theirs in names.items() if ours in options}
    if "account_key" in options:
        result["AZURE_STORAGE_ACCOUNT_KEY"] = str(options["account_key"])
    if "client_options" in options:
        result["AWS_ALLOW_HTTP"] = "true"
    return result
