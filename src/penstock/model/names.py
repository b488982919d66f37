"""Names of datasets: `database.name`, the same in definitions, on disk and in a Spark session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.model.nearest import nearest_names

STAGING_DATABASE = "staging"
QUARANTINE_SUFFIX = "__quarantine"
LONGEST = 120
"""The most characters of a name: with a suffix it must still be the name of a folder everywhere."""

_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def is_name_part(text: str) -> bool:
    """Whether the text is a valid database or table name on every storage and in SQL, without quotes."""
    return bool(_PART.match(text)) and len(text) <= LONGEST


@dataclass(frozen=True, slots=True, order=True)
class DatasetName:
    """The name of a dataset; compares and prints as `database.name`, always in lower case as Spark keeps it."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def path(self) -> str:
        """The folder of the table below the storage."""
        return f"{self.database}/{self.name}"

    @property
    def quarantine(self) -> DatasetName:
        """Where rows go that an `expect_or_drop` expectation dropped."""
        return DatasetName(self.database, self.name + QUARANTINE_SUFFIX)


def to_dataset_name(text: str, default_database: str) -> DatasetName:
    """Read `name` or `database.name`, with optional backticks; raises ValueError saying what is wrong with it."""
    parts = [part.strip().strip("`").lower() for part in text.split(".")]
    if len(parts) == 3 and parts[0] == "spark_catalog":
        parts = parts[1:]
    if len(parts) == 1:
        parts = [default_database.lower(), *parts]
    if too_long := [part for part in parts if len(part) > LONGEST]:
        raise ValueError(
            f"{too_long[0][:20]}... is too long for a name: {len(too_long[0])} characters, {LONGEST} are allowed"
        )
    if len(parts) != 2 or not all(is_name_part(part) for part in parts):
        raise ValueError(
            f"{text!r} is not a dataset name: use letters, digits and underscores, as name or database.name"
        )
    return DatasetName(parts[0], parts[1])


def match_names(text: str, known: Iterable[DatasetName], database: str) -> tuple[DatasetName, ...]:
    """The datasets that a text can mean: the one of that name; for a name without a database, else all that are called that.

    Raises ValueError when the text is not a name.
    """
    name = to_dataset_name(text, database)
    names = frozenset(known)
    if name in names:
        return (name,)
    return () if "." in text else tuple(sorted(each for each in names if each.name == name.name))


def nearest_dataset(name: DatasetName, known: Iterable[DatasetName]) -> DatasetName | None:
    """The dataset that was meant: the one of this name in another database, else one of a similar name."""
    by_name = {other.name: other for other in sorted(known, reverse=True)}
    near = nearest_names(name.name, by_name, limit=1)
    return by_name[near[0]] if near else None
