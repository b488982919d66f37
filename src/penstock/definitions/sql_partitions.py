"""Partitions in SQL definitions:

    PARTITIONED BY DAY (date) START '2024-01-01' [END '2024-12-31'] [ZONE 'Europe/Paris'] [BATCH]
    PARTITIONED BY LIST (region) VALUES ('EU', 'US')
    PARTITIONED BY COLUMN (region)           its values are those of the input that is read BY COLUMN
    READS staging.sales BY COLUMN (day)      READS daily WINDOW 6      READS rates ALL      READS hours SAME

`HOUR` and `MONTH` are written as `DAY` is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.definitions.sql_facts import SqlPartitions
from penstock.errors import DefinitionError, Location
from penstock.model.names import DatasetName
from penstock.model.partitions import schemes
from penstock.model.partitions.declared import InputMapping, Partitioning, by_values
from penstock.model.partitions.mappings import SAME, AllPartitions, ByColumn, Window
from penstock.model.partitions.refs import PartitionError
from penstock.model.partitions.schemes import Countable, ListScheme

if TYPE_CHECKING:
    from penstock.definitions.sql_words import SqlWords

UNITS = ("DAY", "HOUR", "MONTH", "LIST", "COLUMN")
Mapped = tuple[str, str, str, int]


def read_partitions(words: SqlWords) -> SqlPartitions:
    """What follows PARTITIONED BY, from the unit on."""
    unit = words.advance().text.lower()
    words.need("(")
    key = words.identifier("a column")
    words.need(")")
    if unit == "list":
        return SqlPartitions(unit, key, values=_read_values(words), takes_many=words.take("BATCH"))
    if unit == "column":
        return SqlPartitions(unit, key, takes_many=words.take("BATCH"))
    words.need("START")
    start = words.text("the first partition")
    end = words.text("the last partition") if words.take("END") else None
    zone = words.text("a time zone") if unit != "hour" and words.take("ZONE") else None
    return SqlPartitions(unit, key, start, end, zone, (), words.take("BATCH"))


def read_mapping(words: SqlWords, name: str) -> Mapped:
    """How an input is mapped, after its name."""
    if words.take("BY"):
        words.need("COLUMN")
        words.need("(")
        column = words.identifier("a column")
        words.need(")")
        return name, "column", column, 0
    if words.take("WINDOW"):
        count = words.shown().strip("'")
        if not count.isdigit():
            raise words.error(f"expected how many partitions before it are read, not {words.shown()}")
        words.advance()
        return name, "window", "", int(count)
    for how in ("SAME", "ALL"):
        if words.take(how):
            return name, how.lower(), "", 0
    raise words.error(
        f"expected how {name} is read, not {words.shown()}", hint="write SAME, ALL, WINDOW 6 or BY COLUMN (day)"
    )


def to_partitioning(
    given: SqlPartitions, to_name: Callable[[str, Location], DatasetName], location: Location
) -> Partitioning:
    """The clauses as a value; DefinitionError if a time or a time zone is invalid."""
    mapped = {to_name(name, location): _to_mapping(how, column, before) for name, how, column, before in given.inputs}
    try:
        if given.unit == "column":
            return by_values(given.key, mapped, takes_many=given.takes_many)
        return Partitioning(_to_scheme(given), mapped, given.takes_many)
    except PartitionError as error:
        raise DefinitionError(error.message, hint=error.hint, location=location) from None


def _read_values(words: SqlWords) -> tuple[str, ...]:
    words.need("VALUES")
    words.need("(")
    values = [words.text("a value")]
    while words.take(","):
        values.append(words.text("a value"))
    words.need(")")
    return tuple(values)


def _to_scheme(given: SqlPartitions) -> Countable:
    if given.unit == "list":
        return ListScheme(given.key, given.values)
    if given.unit == "hour":
        return schemes.hourly(given.start, given.end, key=given.key)
    make = schemes.daily if given.unit == "day" else schemes.monthly
    return make(given.start, given.end, key=given.key, time_zone=given.zone or "UTC")


def _to_mapping(how: str, column: str, before: int) -> InputMapping:
    if how == "column":
        return ByColumn(column)
    if how == "window":
        return Window(before)
    return SAME if how == "same" else AllPartitions()
