"""What is kept aside until an erasure is physical: rows for an undo, and clear values. Encrypted, outside Delta, no JVM.

Each batch of tombstones has a folder below `_penstock/aside` of the storage, with a random salt and sealed files. Nothing can be
decrypted without both the salt and the project's secret, so destroying a batch removes its salt first. Names of batches and files
are not encrypted: they must not hold a value.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, unquote

from penstock.errors import ConfigError, StorageError, VerificationError
from penstock.faults import fault_point
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles
from penstock.tombstones.sealing import Binding, Header, RandomBytes, damaged, read_header, seal, unseal
from penstock.tombstones.secrets import Secrets

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "_penstock/aside"
_SALT_FILE = "salt"
_SALT_BYTES = 32
_SEALED, _NEW = ".sealed", ".new"
_UNFINISHED = ".new-"
"""How `Files.create` begins the names of files that it has not finished."""
_BATCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MOST_CHARACTERS = 200


class Vault:
    """Encrypted content by batch and name."""

    def __init__(self, files: Files, secrets: Secrets, random_bytes: RandomBytes = os.urandom) -> None:
        self._files = files
        self._secrets = secrets
        self._random_bytes = random_bytes

    def batches(self) -> list[str]:
        """Batches that have something kept aside, or whose destruction was interrupted."""
        found = filter(_BATCH.fullmatch, self._files.folders(FOLDER))
        return [batch for batch in found if any(map(_is_ours, self._names(batch)))]

    def names(self, batch: str) -> list[str]:
        """What is kept aside for a batch; nothing once its destruction has begun."""
        found = self._files.walk(_folder(batch))
        sizes = {file.path.rsplit("/", 1)[-1]: file.size for file in found}
        if _SALT_FILE not in sizes:
            return []
        return sorted(_from_file_name(name) for name, size in sizes.items() if name.endswith(_SEALED) and size)

    def put(self, batch: str, name: str, content: bytes | BinaryIO) -> None:
        """Keep content aside, encrypted with the current secret; it replaces what the name had. Atomic, and read back."""
        path, secret_id = _path(batch, name), self._secrets.current
        binding = Binding(batch, name, self._salt(batch, create=True))
        source = _Digested(io.BytesIO(content) if isinstance(content, bytes) else content)
        parts = seal(source, self._secrets.get(secret_id), secret_id, binding, self._random_bytes)
        self._write(path, parts, is_large=not isinstance(content, bytes))
        digest = hashlib.blake2b()
        for part in self.read(batch, name):
            digest.update(part)
        if digest.digest() != source.digest.digest():
            raise damaged(binding)

    def get(self, batch: str, name: str) -> bytes:
        """The content, decrypted."""
        return b"".join(self.read(batch, name))

    def read(self, batch: str, name: str) -> Iterator[bytes]:
        """The content in parts. It is known to be complete only after the last part: use nothing of it before."""
        path, binding = _path(batch, name), Binding(batch, name, self._salt(batch))
        try:
            stream = self._files.open(path)
        except FileNotFoundError:
            raise _nothing(binding) from None
        with stream:
            if not stream.read(1):  # the name was reserved for a stream that never came
                raise _nothing(binding)
            stream.seek(0)
            header = read_header(stream, binding)
            yield from unseal(stream, header, self._secret(header, binding), binding)

    def put_table(self, batch: str, name: str, rows: pa.Table) -> None:
        """Keep rows aside, as encrypted Parquet."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()  # in memory: a file would hold the rows in clear
        pq.write_table(rows, sink, compression="zstd", use_compliant_nested_type=False)  # keeps the names inside lists
        self.put(batch, name, sink.getvalue().to_pybytes())

    def get_table(self, batch: str, name: str) -> pa.Table:
        """Rows that `put_table` kept aside."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pq.read_table(pa.BufferReader(self.get(batch, name)))

    def remove(self, batch: str, name: str) -> None:
        """Remove one thing that is kept aside; repeating it does nothing."""
        with suppress(FileNotFoundError):
            self._files.remove(_path(batch, name))

    def destroy(self, batch: str) -> None:
        """Remove everything of a batch, for good. What Penstock did not put there stays; repeating it does nothing."""
        ours = sorted(filter(_is_ours, self._names(batch)), key=lambda name: name != _SALT_FILE)
        for name in ours:  # the salt first: without it, the rest can no longer be read
            with suppress(FileNotFoundError):
                self._files.remove(f"{_folder(batch)}/{name}")
            fault_point("aside.during_destroy")
        if isinstance(self._files, LocalFiles):
            with suppress(OSError):  # it does not exist, or something of somebody else is in it
                (self._files.root / _folder(batch)).rmdir()

    def _secret(self, header: Header, binding: Binding) -> bytes:
        try:
            return self._secrets.get(header.secret_id)
        except ConfigError:  # it speaks of suppressed keys, which is not the matter here
            raise ConfigError(
                f"the secret {header.secret_id} is missing, so what was kept aside as {binding} cannot be decrypted",
                hint="put it back under `erasure: secrets:` in penstock.yml",
            ) from None

    def _names(self, batch: str) -> list[str]:
        return self._files.names(_folder(batch))

    def _salt(self, batch: str, *, create: bool = False) -> bytes:
        path = f"{_folder(batch)}/{_SALT_FILE}"
        if create and not self._files.exists(path):
            salt = self._random_bytes(_SALT_BYTES)
            with suppress(FileExistsError):  # another process was faster: its salt counts
                self._files.create(path, salt + _digest(salt))
        try:
            content = self._files.read(path)
        except FileNotFoundError:
            raise StorageError(f"nothing is kept aside for batch {batch}", hint="was it erased already?") from None
        salt, digest = content[:_SALT_BYTES], content[_SALT_BYTES:]
        if digest != _digest(salt):
            raise VerificationError(
                f"the file {path} of the storage is damaged, so nothing of the batch can be decrypted",
                hint="restore it from a backup; nothing was changed",
            )
        return salt

    def _write(self, path: str, parts: Iterator[bytes], *, is_large: bool) -> None:
        """Create the file or replace it, so that a reader sees all of it or what was there before."""
        content = b"" if is_large else b"".join(parts)
        with suppress(FileExistsError):
            self._files.create(path, content)
            if not is_large:
                return
            fault_point("aside.after_reserve")
        stamp, aside = self._files.stamp(path) or "", path + _NEW
        with self._files.open_new(aside, path) as stream:
            for part in parts if is_large else (content,):
                stream.write(part)
        fault_point("aside.before_replace")
        self._files.replace(aside, path, stamp)


class _Digested:
    """A stream that remembers the digest of what was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.digest = hashlib.blake2b()

    def read(self, size: int) -> bytes:
        part = self._stream.read(size)
        self.digest.update(part)
        return part


def _nothing(binding: Binding) -> StorageError:
    return StorageError(f"nothing is kept aside as {binding}", hint="was the batch erased already?")


def _folder(batch: str) -> str:
    if not _BATCH.fullmatch(batch):
        raise ValueError(f"{batch!r} is not the id of a batch: use letters, digits, - and _")
    return f"{FOLDER}/{batch}"


def _path(batch: str, name: str) -> str:
    file = quote(name, safe="").replace("%", "=")  # object stores treat % in a name in different ways
    if not name or len(file) > _MOST_CHARACTERS:
        raise ValueError(f"a name of what is kept aside has 1 to {_MOST_CHARACTERS} characters")
    return f"{_folder(batch)}/{file}{_SEALED}"


def _from_file_name(file: str) -> str:
    return unquote(file.removesuffix(_SEALED).replace("=", "%"))


def _is_ours(file: str) -> bool:
    return file == _SALT_FILE or file.endswith((_SEALED, _SEALED + _NEW)) or file.startswith(_UNFINISHED)


def _digest(salt: bytes) -> bytes:
    return hashlib.sha256(salt).digest()
