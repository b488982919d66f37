"""The secrets of a project's tombstones. Old ones are kept for good: a hash cannot be made again with a new one.

Another value under the same id would recognise nobody, and erased persons would come back. So a check value of each secret that
was used is kept beside the tombstones.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from penstock.errors import ConfigError
from penstock.storage.files import Files

CHECKS = "_penstock/secrets"
_LEAST_BYTES = 16
_PURPOSE = b"penstock: check of a secret"
"""Not a text of a key: those start with `n` or with `v` and a length."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secrets by their id; the first makes new hashes."""

    _values: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    _replaced: frozenset[str] = frozenset()
    """The ids of secrets that have another value than tombstones were made with."""

    @property
    def current(self) -> str:
        """The id of the secret for new tombstones."""
        if not self._values:
            raise ConfigError(
                "the project has no secret for tombstones",
                hint='set `erasure: {secrets: {"1": "${ERASURE_SECRET}"}}` in penstock.yml and the variable in the environment',
            )
        return next(iter(self._values))

    def get(self, secret_id: str) -> bytes:
        """A secret; an error names the id that is missing."""
        self.check([secret_id])
        return self._values[secret_id]

    def __contains__(self, secret_id: str) -> bool:
        """Whether the hashes of tombstones can be made with this secret."""
        return secret_id in self._values and secret_id not in self._replaced

    def check(self, ids: Iterable[str]) -> None:
        """Raise an error when one of the secrets is missing, or another one: then an erased person could come back unseen."""
        ids = set(ids)
        missing = sorted(ids - set(self._values))
        if missing:
            raise ConfigError(
                f"the secret {', '.join(missing)} of tombstones is missing, so suppressed keys cannot be recognised",
                hint="put it back under `erasure: secrets:` in penstock.yml; nothing was loaded",
            )
        if replaced := sorted(self._replaced.intersection(ids)):
            raise ConfigError(
                f"the secret {', '.join(replaced)} is not the one of the tombstones, so suppressed keys cannot be recognised",
                hint="put its old value back; a new secret needs an id of its own, in first place; nothing was loaded",
            )


def to_secrets(given: Mapping[str, str]) -> Secrets:
    """Check the secrets of a project."""
    for secret_id, value in given.items():
        if len(value.encode()) < _LEAST_BYTES:
            raise ConfigError(
                f"the secret {secret_id} of tombstones is shorter than {_LEAST_BYTES} bytes",
                hint="make one with: python -c 'import secrets; print(secrets.token_hex(32))'",
            )
    return Secrets({secret_id: value.encode() for secret_id, value in given.items()})


def open_secrets(files: Files, given: Mapping[str, str]) -> Secrets:
    """The secrets of a project, compared with those that its tombstones were made with."""
    known = to_secrets(given)
    if not (kept := set(files.names(CHECKS))):
        return known
    used = [secret_id for secret_id in given if _check_name(secret_id) in kept]
    replaced = {each for each in used if files.read(_check_path(each)) != _to_check(known.get(each))}
    return Secrets({each: known.get(each) for each in given}, frozenset(replaced))


def note_secret(files: Files, secrets: Secrets, secret_id: str) -> None:
    """Keep the check value of a secret that is used for the first time."""
    with suppress(FileExistsError):
        files.create(_check_path(secret_id), _to_check(secrets.get(secret_id)))


def _to_check(secret: bytes) -> bytes:
    return hmac.digest(secret, _PURPOSE, "sha256").hex().encode()


def _check_path(secret_id: str) -> str:
    return f"{CHECKS}/{_check_name(secret_id)}"


def _check_name(secret_id: str) -> str:
    return f"{quote(secret_id, safe='')}.check"


def derive_key(secret: bytes, purpose: str, salt: bytes = b"") -> bytes:
    """A key of 32 bytes for one purpose (HKDF-SHA256): who learns it learns neither the secret nor a key for another purpose."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length=32, salt=salt, info=f"penstock {purpose}".encode()).derive(secret)
