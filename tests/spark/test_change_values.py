"""Change events with unusual values: columns that are never NULL, the ends of types, zeros with a sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import penstock
from penstock.errors import BadChangesError

pytestmark = pytest.mark.spark


def apply(spark: Any, target: Path, events: list[str], scd_type: int = 2, batch_id: str | None = "x") -> Any:
    """Change events from SQL: their columns are NOT NULL, as literals are."""
    frame = spark.sql(" UNION ALL ".join(f"SELECT {event}" for event in events))
    return penstock.apply_changes(
        spark,
        frame,
        str(target),
        keys=[name for name in frame.columns if name.startswith("k")],
        sequence_by="q",
        apply_as_deletes="op = 'd'",
        apply_as_truncates="op = 't'",
        except_column_list=["op", "q"],
        stored_as_scd_type=scd_type,
        batch_id=batch_id,
    )


def texts(spark: Any, target: Path) -> list[tuple[Any, ...]]:
    """All rows, as texts: Python has no such values."""
    rows = spark.read.format("delta").load(str(target)).drop("__penstock")
    hexed = {name: F.hex(name) if type_ == "string" else F.col(name).cast("string") for name, type_ in rows.dtypes}
    return sorted((tuple(row) for row in rows.select(*hexed.values()).collect()), key=repr)


@pytest.mark.usefixtures("each_way")
def test_a_delete_has_no_data_even_where_the_source_says_not_null(spark: Any, tmp_path: Path) -> None:
    plain = tmp_path / "db" / "plain"
    apply(spark, plain, ["1 AS k, 'x' AS v, 1 AS q, 'u' AS op", "2, 'y', 1, 'd'"], scd_type=1)
    assert texts(spark, plain) == [("1", "78")]
    nested = tmp_path / "db" / "nested"
    value = "named_struct('a', array(named_struct('b', 1)), 'm', map('c', 1))"
    apply(
        spark,
        nested,
        [f"1 AS k, {value} AS v, named_struct('a', 1) AS q, 'u' AS op", f"2, {value}, named_struct('a', 1), 'd'"],
    )
    apply(spark, nested, [f"1 AS k, {value} AS v, named_struct('a', 2) AS q, 't' AS op"])
    assert texts(spark, nested) == [("1", "{[{1}], {c -> 1}}", "{1}", "{2}")]


@pytest.mark.usefixtures("each_way")
def test_keys_and_values_at_the_ends_of_their_types_and_zeros_of_both_signs(spark: Any, tmp_path: Path) -> None:
    def event(zero: str, shown: str, sequence: str) -> str:
        text, day, time = "CAST(X'FF' AS STRING)", "date_from_unix_date(2147483647)", f"timestamp_micros({2**63 - 1})"
        key = f"{text} AS k1, {day} AS k2, {time} AS k3, {zero} AS k4"
        return f"{key}, {text} AS v1, {day} AS v2, {time} AS v3, {shown} AS v4, {sequence} AS q, 'u' AS op"

    found = []
    for name, first in (("one", 0), ("other", 1)):
        target = tmp_path / "db" / name
        tie = [event("-0.0D", "0.0D", "-0.0D"), event("0.0D", "-0.0D", "0.0D")]
        apply(spark, target, [tie[first]])
        apply(spark, target, [tie[1 - first]])
        found.append(texts(spark, target))
    assert found[0] == found[1]
    [row] = found[0]
    assert (row[0], row[3], row[7]) == ("FF", "0.0", "0.0")
    endless = [event("0.0D", "0.0D", f"timestamp_micros({2**63 - 1})"), event("0.0D", "0.0D", "timestamp_micros(0)")]
    with pytest.raises(BadChangesError, match=r"1 of 2 rows .* 1 with an infinite sequence") as raised:
        apply(spark, tmp_path / "db" / "endless", endless)
    assert raised.value.samples[0]["k2"] == "+5881580-07-11"


MAPS = {
    "a map": "map({})",
    "maps in an array": "array(map({}), NULL)",
    "a map in a struct": "named_struct('m', map({}), 'a', 1)",
}


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("shape", MAPS)
def test_the_order_of_the_entries_of_a_map_says_nothing_and_the_signs_of_its_zeros_do(
    spark: Any, tmp_path: Path, shape: str
) -> None:
    target = tmp_path / "db" / "target"

    def give(entries: str, sequence: int = 1) -> Any:
        value = MAPS[shape].format(entries)
        return apply(spark, target, [f"1 AS k, {value} AS v, {sequence} AS q, 'u' AS op"], batch_id=None)

    give("'x', 0.0D, 'y', 2.0D")
    assert give("'y', 2.0D, 'x', 0.0D").version is None, "the same event again"
    give("'y', 2.0D, 'x', 0.0D", 2)
    assert len(texts(spark, target)) == 1, "equal rows are one"
    assert give("'y', 2.0D, 'x', -0.0D").rows_added == 0, "0.0 wins a tie, whichever came first"
