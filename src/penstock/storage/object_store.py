"""Files of an object store, by obstore (extras `s3`, `azure`, `gs`), which is imported only when needed."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from penstock.errors import ConcurrentRunError, StorageError
from penstock.faults import fault_point
from penstock.model.progress import RawFile
from penstock.storage.addresses import to_spark_uri, to_store_uri


class ObjectFiles:
    """Files of an object store, by obstore."""

    def __init__(self, uri: str, options: Mapping[str, Any], reader_options: dict[str, str]) -> None:
        try:
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError as error:
            raise StorageError(
                f"{urlsplit(uri).scheme}:// requires the package obstore", hint="pip install 'penstock[s3]'"
            ) from error
        self.uri = uri.rstrip("/")
        self.reader_options: dict[str, str] | None = reader_options
        # obstore's own errors are not OSErrors, except those that the standard library has a class for
        self._errors: tuple[type[Exception], ...] = (OSError, BaseError)
        try:
            self._store: Any = from_url(to_store_uri(self.uri), **cast("Any", options))
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

    def exists(self, path: str) -> bool:
        return self.stamp(path) is not None

    def stamp(self, path: str) -> str | None:
        import obstore

        try:
            found = obstore.head(self._store, path)
        except FileNotFoundError:
            return None
        except self._errors as error:
            raise self._failed(error) from error
        return _stamp(found)

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

    @contextmanager
    def open_new(self, path: str, like: str | None = None) -> Iterator[BinaryIO]:
        import obstore

        with tempfile.TemporaryFile() as stream:  # it has no name: a killed process leaves nothing behind
            yield cast("BinaryIO", stream)
            stream.seek(0)
            try:
                attributes = self._attributes(like) if like is not None else None
                obstore.put(self._store, path, cast("Any", stream), attributes=attributes)
            except self._errors as error:
                raise self._failed(error) from error

    def replace(self, aside: str, path: str, stamp: str) -> None:
        import obstore

        content = self.read(aside)
        attributes = self._attributes(aside)
        try:
            found = obstore.head(self._store, path)
            if _stamp(found) != stamp:
                raise _changed(path)
            self._put_over(path, content, attributes, found)
            fault_point("rewrite.before_tidy")
            obstore.delete(self._store, aside)
        except FileNotFoundError as error:
            raise _changed(path) from error
        except self._errors as error:
            raise self._failed(error) from error

    def _put_over(self, path: str, content: bytes, attributes: Any, found: Any) -> None:
        """Put it if the object is still this one, where the store can check that at the same time."""
        import obstore
        from obstore.exceptions import NotSupportedError, PreconditionError

        known = {name: found[name] for name in ("e_tag", "version") if found[name] is not None}
        try:
            obstore.put(self._store, path, content, attributes=attributes, mode=cast("Any", known or "overwrite"))
        except PreconditionError as error:
            raise _changed(path) from error
        except (NotSupportedError, NotImplementedError):
            obstore.put(self._store, path, content, attributes=attributes)

    def _attributes(self, path: str) -> Any:
        """What else the store keeps of an object, such as its content type."""
        import obstore

        try:
            return obstore.get(self._store, path).attributes
        except self._errors as error:
            raise self._failed(error) from error

    def remove(self, path: str) -> None:
        import obstore

        try:
            obstore.delete(self._store, path)
        except FileNotFoundError:
            raise
        except self._errors as error:
            raise self._failed(error) from error

    def remove_empty_folders(self, prefix: str) -> None:
        del prefix

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
            hint="check the name, the endpoint and the credentials (environment variables or spark.hadoop.fs.* settings)",
        )


def _stamp(found: Any) -> str:
    return f"{found['e_tag']}-{found['last_modified'].isoformat()}-{found['size']}"


def _changed(path: str) -> ConcurrentRunError:
    return ConcurrentRunError(f"{path} was changed meanwhile", hint="run again")


class _RemoteFile(io.RawIOBase):
    """An object-store reader as a file object of the standard library."""

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
