"""Which records belong to a set of keys: one way of matching, for every place where rows lie.

A record has *images*: rows that it contains, such as `before` and `after` of a change event. It matches when one of them does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.common_type import common_type
from penstock.model.keys import KeyColumn
from penstock.model.schema import NANOSECONDS
from penstock.transforms.conform import convert, try_convert
from penstock.transforms.key_hashes import key_text
from penstock.transforms.suppress import TOMBSTONE, with_tombstones

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.model.tombstones import SuppressedKeys

FILE, ROW = "__penstock_file", "__penstock_row"
"""The address of a record's file without its scheme, and what distinguishes the record there."""
IS_BAD = "__penstock_bad"
TEXT = "__penstock_text"
"""The canonical text of a key."""
_HIT = "__penstock_hit"
_BAD = "bad"
"""Not a text of a key: those start with `n` or with `v` and a length."""
_PARSING = frozenset(
    {
        "allownonnumericnumbers",
        "allownumericleadingzeros",
        "dateformat",
        "enabledatetimeparsingfallback",
        "locale",
        "nanvalue",
        "negativeinf",
        "positiveinf",
        "preferdate",
        "timestampformat",
        "timestampntzformat",
        "timezone",
    }
)
"""Options of readers that decide how a text becomes a value."""
_NUMBER = "^[-+0-9.eE]+$"


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """Keys to look for. Their texts reach Spark as rows, never as literals: those would be in its plans and logs."""

    key: tuple[KeyColumn, ...]
    texts: DataFrame
    """One column, `text`."""

    def __repr__(self) -> str:
        return f"KeySet({self.key!r})"


def to_key_set(session: SparkSession, key: Sequence[KeyColumn], texts: Sequence[str]) -> KeySet:
    """The keys with these canonical texts (`transforms.key_hashes.key_text`)."""
    schema = T.StructType([T.StructField("text", T.StringType())])
    return KeySet(tuple(key), session.createDataFrame([(text,) for text in sorted(set(texts))], schema))


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A row in a record: the parts of its key, and the condition that the row is there at all."""

    parts: tuple[Column, ...]
    is_there: Column | None = None


def find_matches(rows: DataFrame, images: Sequence[Image], keys: KeySet, is_bad: Column | None = None) -> DataFrame:
    """FILE and ROW of each record with an image whose key is in the set, once; and those that are bad, with IS_BAD.

    Needs rows with FILE and ROW.
    """
    wanted = F.broadcast(keys.texts.select(F.col("text").alias(TEXT), F.lit(True).alias(_HIT)))
    each = _each_text(rows, images, keys.key, is_bad)
    hits = each.join(wanted, TEXT, "left").where(F.col(_HIT) | (F.col(TEXT) == _BAD))
    return hits.select(FILE, ROW, (F.col(TEXT) == _BAD).alias(IS_BAD)).distinct()


def find_suppressed(
    rows: DataFrame, images: Sequence[Image], keys: SuppressedKeys, is_bad: Column | None = None
) -> DataFrame:
    """FILE, TEXT and TOMBSTONE of each suppressed key in a record; and those of bad records, with IS_BAD.

    Here only hashes tell which keys are looked for. What is found repeats: to tell it apart, Spark would write clear texts to the
    disk between two stages. Needs rows with FILE and ROW.
    """
    each = _each_text(rows, images, keys.key, is_bad)
    found = with_tombstones(each, TEXT, keys).where(F.col(TOMBSTONE).isNotNull() | (F.col(TEXT) == _BAD))
    return found.select(FILE, TEXT, TOMBSTONE, (F.col(TEXT) == _BAD).alias(IS_BAD))


def read_key_values(rows: DataFrame, images: Sequence[Image], keys: KeySet) -> list[DataFrame]:
    """The keys of the set as the records have them, in their own types: TEXT and the parts of the key, for each image.

    They repeat, as those of `find_suppressed`.
    """
    given, texts = _with_texts(rows, images, keys.key)
    found = []
    for text, image in zip(texts, images, strict=True):
        wanted = F.broadcast(keys.texts.select(F.col("text").alias(text)))
        parts = [F.col(f"{text}_{place}") for place in range(len(image.parts))]
        found.append(given.join(wanted, text, "left_semi").select(F.col(text).alias(TEXT), *parts))
    return found


def _each_text(rows: DataFrame, images: Sequence[Image], key: Sequence[KeyColumn], is_bad: Column | None) -> DataFrame:
    """FILE, ROW and TEXT of each key in a record, once; for a bad record also a TEXT that is none."""
    given, texts = _with_texts(rows, images, key)
    bad = [F.when(is_bad, F.lit(_BAD))] if is_bad is not None else []
    every = F.array_distinct(F.array_compact(F.array(*(F.col(text) for text in texts), *bad)))
    return given.select(FILE, ROW, F.explode(every).alias(TEXT))


def leave_out(rows: DataFrame, images: Sequence[Image], keys: KeySet) -> DataFrame:
    """The rows that do not match."""
    given, texts = _with_texts(rows, images, keys.key)
    for text in texts:
        wanted = F.broadcast(keys.texts.select(F.col("text").alias(text)))
        given = given.join(wanted, text, "left_anti")
    return given.select(*rows.columns)


def _with_texts(rows: DataFrame, images: Sequence[Image], key: Sequence[KeyColumn]) -> tuple[DataFrame, list[str]]:
    """The rows with the text of each image's key, NULL where it is not there; and the names of these columns."""
    parts: dict[str, Column] = {}
    for number, image in enumerate(images):
        parts |= {f"{TEXT}_{number}_{place}": part for place, part in enumerate(image.parts)}
    given = rows.withColumns(parts) if parts else rows
    texts: dict[str, Column] = {}
    for number, image in enumerate(images):
        columns = [
            KeyColumn(f"{TEXT}_{number}_{place}", column.normal_form)
            for place, column in zip(range(len(image.parts)), key, strict=True)
        ]
        text = key_text(given, columns)
        texts[f"{TEXT}_{number}"] = F.when(image.is_there, text) if image.is_there is not None else text
    return (given.withColumns(texts) if texts else given), list(texts)


@dataclass(frozen=True, slots=True)
class RecordKey:
    """What is looked for in the records of a place."""

    names: tuple[frozenset[str], ...]
    """For each part of the key the names that it can have, in lower case."""
    types: tuple[str | None, ...]
    """The types of the table's columns, where they are known."""
    format: str
    options: Mapping[str, str]
    envelope: str | None = None
    message_key: str | None = None
    """The column, in lower case, of which a message key that is no object is a value."""
    is_source: bool = False
    """Change events: a key without any value is none, but for example a truncate."""


def typed_images(
    values: Sequence[tuple[Column, str]], wanted: Sequence[str | None], is_there: Column | None = None
) -> list[Image]:
    """The key of a row that has its own types, as it is and in the types that the table has for it.

    `values` are the parts with their types, `wanted` the types of the table, where they are known.
    """
    own = [_own(value, type_) for value, type_ in values]
    as_table = [
        _as_table(value, type_, table) if table is not None else _own(value, type_)
        for (value, type_), table in zip(values, wanted, strict=True)
    ]
    is_same = all(
        type_ == table or table is None for (_, type_), table in zip(values, wanted, strict=True)
    ) and not any(type_.endswith(NANOSECONDS) for _, type_ in values)
    images = [own] if is_same else [own, as_table]
    return [Image(tuple(parts), is_there) for parts in images]


def _own(value: Column, type_: str) -> Column:
    return convert(value, type_, "string") if type_.endswith(NANOSECONDS) else value


def _as_table(value: Column, type_: str, table: str) -> Column:
    """The value as the table has it; NULL when it cannot have it, so that the load put it in quarantine."""
    if type_ == table:
        return value
    if not type_.endswith(NANOSECONDS) and common_type({type_, table}) == table:
        return convert(value, type_, table)
    tried, fits = try_convert(value, type_, table)
    return F.when(fits, tried)


def text_images(
    raw: Sequence[Column],
    types: Sequence[str | None],
    format_: str,
    options: Mapping[str, str],
    is_there: Column | None = None,
) -> list[Image]:
    """The key of a row in a text file, from its texts: as it is written, and as the reader of the format takes it."""
    there = [is_there] if is_there is not None else []
    images = [Image(tuple(raw), is_there)]
    if any(type_ not in {None, "string"} for type_ in types):
        values = [_parse(part, type_, format_, options) for part, type_ in zip(raw, types, strict=True)]
        is_read = [value.isNotNull() | part.isNull() for value, part in zip(values, raw, strict=True)]
        images.append(Image(tuple(values), reduce(and_, [*there, *is_read])))
    return images


def _parse(raw: Column, type_: str | None, format_: str, options: Mapping[str, str]) -> Column:
    """A text as a value of this type, by the parser of the reader; NULL where it is none."""
    if type_ in {None, "string"}:
        return raw
    known = {name: value for name, value in options.items() if name.lower() in _PARSING}
    known["mode"] = "PERMISSIVE"  # Spark Connect cannot send an empty map
    schema = f"v {type_}"
    if format_ == "csv":
        quoted = F.concat(F.lit('"'), F.regexp_replace(raw, '(["\\\\])', "\\\\$1"), F.lit('"'))
        return F.from_csv(quoted, schema, known)["v"]
    as_text = F.from_json(F.to_json(F.struct(raw.alias("v"))), schema, known)["v"]
    is_bare = raw.rlike(_NUMBER) | raw.isin("true", "false")
    bare = F.from_json(F.when(is_bare, F.concat(F.lit('{"v":'), raw, F.lit("}"))), schema, known)["v"]
    return F.coalesce(as_text, bare)


def all_null(parts: Sequence[Column]) -> Column:
    """Whether no part of a key has a value."""
    return reduce(and_, (part.isNull() for part in parts))
