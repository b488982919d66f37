"""The secrets of a project's tombstones. Old ones are kept for good: a hash cannot be made again with a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.errors import ConfigError

_LEAST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secrets by their id; the first makes new hashes."""

    _values: Mapping[str, bytes] = field(default_factory=dict, repr=False)

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

    def check(self, ids: Iterable[str]) -> None:
        """Raise an error when one of the secrets is missing: without it, an erased person could come back unseen."""
        missing = sorted(set(ids) - set(self._values))
        if missing:
            raise ConfigError(
                f"the secret {', '.join(missing)} of tombstones is missing, so suppressed keys cannot be recognised",
                hint="put it back under `erasure: secrets:` in penstock.yml; nothing was loaded",
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


def derive_key(secret: bytes, purpose: str, salt: bytes = b"") -> bytes:
    """A key of 32 bytes for one purpose (HKDF-SHA256): who learns it learns neither the secret nor a key for another purpose."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length=32, salt=salt, info=f"penstock {purpose}".encode()).derive(secret)
