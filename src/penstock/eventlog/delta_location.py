"""Where a Delta log is: from its URI to the table's address, its files and the local projection.

Credentials come from the environment (AWS_*, AZURE_*, GOOGLE_*), never from the URI.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.errors import StorageError
from penstock.eventlog.contract import StorageTroubleError
from penstock.eventlog.deadlines import DeadlinePassedError, in_time
from penstock.model.event_log_uris import EventLogUri
from penstock.storage.local import LocalFiles
from penstock.storage.options import Patience, to_patient_reader_options

if TYPE_CHECKING:
    from penstock.storage.files import Files

CACHE_VARIABLE = "PENSTOCK_CACHE_DIR"
_SCHEMES = {"delta+s3": "s3", "delta+azure": "abfs", "delta+gs": "gs"}

Result = TypeVar("Result")


class TableFiles(Protocol):
    """The files of the table, as far as they are used without delta-rs."""

    def names(self, prefix: str) -> list[str]:
        """Names of the files directly in a folder; empty when there is no such folder."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""

    def stamp(self, path: str) -> str | None:
        """A text that changes when the file is replaced; None when there is no such file."""

    def read(self, path: str) -> bytes:
        """The whole content; FileNotFoundError when there is none."""

    def remove(self, path: str) -> None:
        """Remove a file; FileNotFoundError when there is none, where the store says so."""


@dataclass(frozen=True, slots=True)
class Location:
    """A Delta log's address in every form that is needed."""

    source: EventLogUri
    uri: str
    """As shown to people."""
    table: str
    """As delta-rs takes it."""
    folder: Path | None
    """The table's folder when it is on this machine."""
    projection: Path
    """The local file that queries are answered from; it can be deleted at any time."""
    deadline_seconds: float
    settings: dict[str, str] = field(default_factory=dict, repr=False)
    """Settings of the store from the URI."""

    @property
    def options(self) -> dict[str, str]:
        """What delta-rs is told about the store, with limits on the time that it keeps trying."""
        if self.folder is not None:
            return {}
        return {**self.settings, **to_patient_reader_options(Patience(self.deadline_seconds))}

    def open_files(self) -> TableFiles:
        """Open the files of the table, to read its transaction log without delta-rs."""
        if self.folder is not None:
            return LocalFiles(self.folder)
        from penstock.storage.files import open_files

        try:
            files = open_files(self.table, settings=self.settings, patience=Patience(self.deadline_seconds))
        except StorageError as error:
            raise self.trouble("cannot be opened", error) from None
        return _StoreFiles(self, files)

    def in_time(self, work: Callable[[], Result]) -> Result:
        """Do something with the table, in a store only until the deadline of the operation."""
        return work() if self.folder is not None else in_time(work, often=True)

    def describe(self, error: BaseException) -> str:
        """An error of a library in one line, without what the URI keeps secret."""
        if isinstance(error, DeadlinePassedError):
            return f"the store did not answer within {self.deadline_seconds:g} s"
        return self.source.describe(error)

    def trouble(self, what: str, error: BaseException) -> StorageTroubleError:
        """The error of the log for one of a library; raise it `from None`, because the other one can quote what is secret."""
        return StorageTroubleError(
            f"{self.uri} {what}: {self.describe(error)}",
            hint="check that the store can be reached, the endpoint and the credentials; "
            "`deadline_seconds` in the URI is how long to wait"
            if self.folder is None
            else "check the permissions of the folder and the free space",
        )


class _StoreFiles:
    """The files of a table in a store; a call ends by the deadline of the operation, and errors are those of the log."""

    def __init__(self, location: Location, files: Files) -> None:
        self._location = location
        self._files = files

    def names(self, prefix: str) -> list[str]:
        return self._call("read", lambda: self._files.names(prefix))

    def exists(self, path: str) -> bool:
        return self._call("read", lambda: self._files.exists(path))

    def stamp(self, path: str) -> str | None:
        return self._call("read", lambda: self._files.stamp(path))

    def read(self, path: str) -> bytes:
        return self._call("read", lambda: self._files.read(path))

    def remove(self, path: str) -> None:
        self._call("changed", lambda: self._files.remove(path))

    def _call(self, done: str, work: Callable[[], Result]) -> Result:
        try:
            return in_time(work, often=True)
        except (StorageError, DeadlinePassedError) as error:
            raise self._location.trouble(f"cannot be {done}", error) from None


def to_location(uri: EventLogUri) -> Location:
    """The places of a Delta log; options of the URI are `deadline_seconds`, `cache` and settings of the store."""
    settings = {name: value for name, value in uri.options.items() if name not in {"deadline_seconds", "cache"}}
    folder: Path | None = None
    if uri.form.is_file:
        uri = uri.below(Path("/"))
        table = uri.path
        folder = Path(table)
    else:
        table = f"{_SCHEMES[uri.scheme]}://{uri.place}/{uri.path}"
    projection = _projection(table, settings, uri.options.get("cache"))
    return Location(uri, uri.shown, table, folder, projection, uri.deadline_seconds, settings)


def _projection(table: str, options: dict[str, str], cache: str | None) -> Path:
    folder = cache or os.environ.get(CACHE_VARIABLE)
    if folder is None:
        import platformdirs

        folder = platformdirs.user_cache_dir("penstock")
    endpoint = options.get("aws_endpoint_url", os.environ.get("AWS_ENDPOINT_URL", ""))
    account = options.get("azure_storage_account_name", os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""))
    name = hashlib.blake2b("\n".join((table, endpoint, account)).encode(), digest_size=12).hexdigest()
    return Path(folder) / "eventlog" / f"{name}.db"
