"""Datasets as their kinds find them in a project, what a kind shows of them, and the places where their rows are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from penstock.model.changes import FeedFiles
from penstock.model.names import DatasetName
from penstock.model.plan import Item
from penstock.model.spec import DatasetSpec

NO_TABLE = "is a temporary view, which has no table of its own"


@dataclass(frozen=True, slots=True)
class Dataset:
    """One dataset of a project."""

    name: DatasetName
    kind: str
    inputs: tuple[DatasetName, ...] = ()
    """The tables that it reads, directly or through temporary views."""
    spec: DatasetSpec | None = None
    """Its definition, if it has one."""
    subject: Any = None
    """A value that only its kind understands."""
    keys: tuple[str, ...] = ()
    """The columns that identify its rows, where its kind knows them and no others can be used to erase rows."""
    is_stored: bool = True
    """False for a temporary view, which has no table."""
    is_continuous: bool = False
    """Whether it can be kept up to date while waiting for changes."""
    readers: tuple[DatasetSpec, ...] = ()
    """The definitions that read it."""

    @property
    def tags(self) -> frozenset[str]:
        return frozenset(self.spec.tags) if self.spec else frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """What a kind finds in a project."""

    datasets: tuple[Dataset, ...] = ()
    unusable: tuple[Item, ...] = ()
    """What looks like a dataset but cannot be used, as items with a problem."""
    warnings: tuple[str, ...] = ()


class Form(StrEnum):
    """How rows are stored at a place."""

    DELTA = "delta"
    PARQUET = "parquet"
    FILES = "files"
    """Files of the user, in any format that Spark reads."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place where rows of a dataset are stored, or where they come from; and where the table's columns are there."""

    uri: str
    """Relative to the storage, or an absolute address."""
    form: Form
    is_ours: bool = True
    """Written by Penstock; sources are not."""
    members: tuple[str, ...] | None = None
    """The files below it that belong to the dataset; None when all do, except hidden ones."""
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The names that a column of the table has here, all in lower case; its own name where it is not listed."""
    structs: tuple[str, ...] = ()
    """The columns that are structs with a row, or a part of it; empty when the columns of the table are columns here."""
    json_column: str | None = None
    """The column that has each row as JSON text."""
    feed: FeedFiles | None = None
    """How files of the user are read: format, envelope, options and schema."""
    message_key: str | None = None
    """The column of which the key of a Kafka message is a value, where it is no struct."""
    is_listed: bool = False
    """The progress lists its files by name, so that only the kind can rewrite them (`Kind.erase_auxiliary`)."""
    problem: str | None = None
    """Why it is not known which files belong to the dataset, so that it cannot be searched."""

    def below(self, storage: str) -> str:
        """The absolute address."""
        is_whole = "://" in self.uri or PurePosixPath(self.uri).is_absolute()
        return self.uri if is_whole else f"{storage.rstrip('/')}/{self.uri}"

    def names_of(self, column: str) -> frozenset[str]:
        """The names, in lower case, that a column of the table has here."""
        return self.names.get(column.lower(), frozenset({column.lower()}))


def table_places(name: DatasetName, quarantine: Place | None = None) -> tuple[Place, ...]:
    """The table of a dataset and its quarantine, which has the columns of the table unless something else is said."""
    return Place(name.path, Form.DELTA), quarantine or Place(name.quarantine.path, Form.DELTA)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a kind shows of a dataset and its table in `ls`, `show` and `schema`, beyond what every table has."""

    facts: tuple[tuple[str, str], ...] = ()
    """Lines of `show`: a label and a text."""
    reads: tuple[str, ...] = ()
    """Sources that are not datasets."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the JSON that only this kind fills."""
    source_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The types that source files gave each column, by its name in lower case."""
