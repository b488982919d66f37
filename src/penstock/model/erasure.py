"""What a project declares about erasure: where the keys and personal columns of a subject are, and the secrets of tombstones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.errors import Location
from penstock.model.keys import KeyColumn, NormalForm
from penstock.model.names import DatasetName, to_dataset_name
from penstock.model.tombstones import Tombstone


class Hide(StrEnum):
    """How rows are hidden in tables that have no deletion vectors."""

    TABLE = "table"
    """The table keeps its protocol: files that hold the keys are rewritten."""
    VECTORS = "vectors"
    """The table is upgraded to deletion vectors."""


@dataclass(frozen=True, slots=True)
class ErasableTable:
    """Where a subject's key and personal columns are in one table."""

    subject: str
    table: DatasetName
    key: tuple[KeyColumn, ...]
    personal: tuple[str, ...] = ()
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class ErasureSettings:
    """The erasure settings of a project."""

    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Secrets of tombstones by their id; the first makes new hashes."""
    hide: Hide = Hide.TABLE
    tables: tuple[ErasableTable, ...] = ()

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.subject for each in self.tables))

    def tables_of(self, subject: str) -> tuple[ErasableTable, ...]:
        """The tables in which a subject's key is declared."""
        return tuple(each for each in self.tables if each.subject == subject)

    def find(self, tombstone: Tombstone) -> ErasableTable | None:
        """What is declared about a tombstone's table: for its subject, or with its key."""
        known = self.declared_for(tombstone.table)
        return next((each for each in known if each.subject == tombstone.subject or each.key == tombstone.key), None)

    def declared_for(self, table: DatasetName) -> tuple[ErasableTable, ...]:
        """What is declared about one table, for any subject."""
        return tuple(each for each in self.tables if each.table == table)


def find_mixed_forms(settings: ErasureSettings) -> tuple[str, ...]:
    """Warnings about subjects whose key is compared in different ways: one spelling is then hidden in some tables only."""
    found = []
    for subject in settings.subjects:
        forms: dict[tuple[str, ...], list[str]] = {}
        for each in settings.tables_of(subject):
            forms.setdefault(tuple(column.normal_form.value for column in each.key), []).append(str(each.table))
        if len(forms) > 1:
            texts = [f"{', '.join(form)} in {' and '.join(tables)}" for form, tables in forms.items()]
            found.append(
                f"erasure: the subject {subject} has keys in different normal forms ({'; '.join(texts)}): "
                "another spelling of a key is hidden in some of its tables only"
            )
    return tuple(found)


def to_erasable(
    subject: str, table: str, given: Mapping[str, Any], database: str, location: Location | None
) -> ErasableTable:
    """Check one declaration, from penstock.yml or `dp.erasable`; ValueError says what is wrong."""
    form = NormalForm(str(given.get("normal_form") or NormalForm.EXACT))
    key = tuple(_to_column(each, form) for each in _listed(given.get("key"), "key"))
    if not key:
        raise ValueError("key must name at least one column")
    names = [column.name.lower() for column in key]
    if len(set(names)) < len(names):
        raise ValueError("key has a column twice")
    personal = tuple(_text(each, "personal") for each in _listed(given.get("personal"), "personal"))
    return ErasableTable(subject, to_dataset_name(table, database), key, personal, location)


def _to_column(given: Any, form: NormalForm) -> KeyColumn:
    if isinstance(given, Mapping):
        return KeyColumn(_text(given.get("name"), "key"), NormalForm(str(given.get("normal_form") or form)))
    return KeyColumn(_text(given, "key"), form)


def _listed(given: Any, what: str) -> Sequence[Any]:
    if given is None:
        return ()
    if isinstance(given, str | Mapping):
        return (given,)
    if not isinstance(given, Sequence):
        raise ValueError(f"{what} must be the name of a column or a list of names")
    return given


def _text(given: Any, what: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"{what} must be the name of a column or a list of names")
    return given


def check_tables(tables: Sequence[ErasableTable]) -> None:
    """ValueError when one table is declared twice for the same subject."""
    known: dict[tuple[str, DatasetName], ErasableTable] = {}
    for each in tables:
        other = known.setdefault((each.subject, each.table), each)
        if other is not each:
            raise ValueError(f"{each.table} is declared twice for the subject {each.subject}, also at {other.location}")
