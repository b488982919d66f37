"""The schema of a table as values: columns with Spark's simple type names, and a fingerprint of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `type` is Spark's simple string, such as `bigint` or `struct<a:int>`."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order."""

    columns: tuple[Column, ...]

    @property
    def fingerprint(self) -> str:
        """A short hash of names (without case) and types, independent of order and nullability."""
        parts = sorted((column.name.lower(), column.type) for column in self.columns)
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()

    def to_json(self) -> list[dict[str, object]]:
        return [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in self.columns]

    @staticmethod
    def from_json(value: list[dict[str, object]]) -> Schema:
        return Schema(tuple(Column(str(c["name"]), str(c["type"]), bool(c["nullable"])) for c in value))
