"""Encrypted content in frames, so that a large one is never in memory as a whole. No key and no content is ever shown.

A sealed file is a clear header and frames of AES-256-GCM. Each frame knows its number, whether it is the last one, and what the
file is bound to (its header, batch and name), so that a frame that was changed, moved, left out or cut off is noticed, as is a
file that was put in the place of another. This is the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.errors import ConfigError, VerificationError
from penstock.tombstones.secrets import derive_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FRAME = 1 << 20
"""Bytes of content in a frame; the last one may have fewer."""
_TAG = 16
_MAGIC = b"PENSTOCK"
_VERSION = 1
_SALT, _CHECK, _PREFIX = 16, 16, 7

RandomBytes = Callable[[int], bytes]


class Readable(Protocol):
    """A stream; it may give fewer bytes at a time than were asked for."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Header:
    """What can be read of a sealed file without the secret."""

    secret_id: str
    salt: bytes
    check: bytes
    """Tells a secret that is not the right one from a damaged file."""
    prefix: bytes
    """The random part of the nonces."""

    @property
    def content(self) -> bytes:
        """The header as it is written."""
        name = self.secret_id.encode()
        start = _MAGIC + bytes([_VERSION]) + len(name).to_bytes(2) + name
        return start + self.salt + self.check + self.prefix


@dataclass(frozen=True, slots=True)
class Binding:
    """What a sealed file belongs to: it can be opened with nothing else."""

    batch: str
    name: str
    batch_salt: bytes

    def to_bytes(self, header: Header) -> bytes:
        """The associated data of every frame."""
        parts = (header.content, self.batch.encode(), self.name.encode())
        return b"".join(len(part).to_bytes(4) + part for part in parts)

    def __str__(self) -> str:
        return f"{self.name} of batch {self.batch}"


def seal(
    content: Readable, secret: bytes, secret_id: str, binding: Binding, random_bytes: RandomBytes = os.urandom
) -> Iterator[bytes]:
    """The parts of a sealed file: its header, then its frames."""
    salt = random_bytes(_SALT)
    header = Header(secret_id, salt, _check(secret, salt), random_bytes(_PREFIX))
    cipher, bound_to = _cipher(secret, header, binding), binding.to_bytes(header)
    yield header.content
    for number, is_last, frame in _frames(content, FRAME):
        yield cipher.encrypt(_nonce(header, number, is_last), frame, bound_to)


def read_header(stream: Readable, binding: Binding) -> Header:
    """The header of a sealed file; VerificationError when it has none."""
    start = _exactly(stream, len(_MAGIC) + 3, binding)
    magic, version, length = start[: len(_MAGIC)], start[len(_MAGIC)], int.from_bytes(start[-2:])
    if magic != _MAGIC:
        raise damaged(binding)
    if version != _VERSION:
        raise VerificationError(
            f"{binding} has the format {version}, which this version does not know, or is damaged",
            hint="use the version of Penstock that wrote it",
        )
    try:
        secret_id = _exactly(stream, length, binding).decode()
    except UnicodeDecodeError:
        raise damaged(binding) from None
    return Header(secret_id, *(_exactly(stream, count, binding) for count in (_SALT, _CHECK, _PREFIX)))


def unseal(stream: Readable, header: Header, secret: bytes, binding: Binding) -> Iterator[bytes]:
    """The content of a sealed file after its header, in parts. Only when the last part has come is it known to be complete."""
    from cryptography.exceptions import InvalidTag

    if not hmac.compare_digest(_check(secret, header.salt), header.check):
        raise ConfigError(
            f"{binding} was encrypted with another secret {header.secret_id} than the project has now",
            hint="put the old value back under `erasure: secrets:` in penstock.yml; a new secret needs a new id",
        )
    cipher, bound_to = _cipher(secret, header, binding), binding.to_bytes(header)
    for number, is_last, frame in _frames(stream, FRAME + _TAG):
        try:
            part = cipher.decrypt(_nonce(header, number, is_last), frame, bound_to)
        except (InvalidTag, ValueError):  # ValueError: too short to have a tag
            raise damaged(binding) from None
        yield part


def damaged(binding: Binding) -> VerificationError:
    """What is said of a file that is not as it was written."""
    return VerificationError(
        f"what was kept aside as {binding} is damaged, cut off, or was put there for something else",
        hint="restore the folder _penstock/aside of the storage from a backup; nothing was changed",
    )


def _frames(stream: Readable, size: int) -> Iterator[tuple[int, bool, bytes]]:
    """Numbered frames, and whether each is the last one; an empty stream has one empty frame."""
    number, frame = 0, _at_most(stream, size)
    while True:
        after = _at_most(stream, size) if len(frame) == size else b""
        yield number, not after, frame
        if not after:
            return
        number, frame = number + 1, after


def _at_most(stream: Readable, count: int) -> bytes:
    """As many bytes as there are, up to a count."""
    parts = []
    while count and (part := stream.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _exactly(stream: Readable, count: int, binding: Binding) -> bytes:
    found = _at_most(stream, count)
    if len(found) < count:
        raise damaged(binding)
    return found


def _cipher(secret: bytes, header: Header, binding: Binding) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(derive_key(secret, "kept aside: content", binding.batch_salt + header.salt))


def _check(secret: bytes, salt: bytes) -> bytes:
    return derive_key(secret, "kept aside: check", salt)[:_CHECK]


def _nonce(header: Header, number: int, is_last: bool) -> bytes:
    return header.prefix + number.to_bytes(4) + bytes([is_last])
