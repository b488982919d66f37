"""Raw files of every kind, one table each: the table equals what another reader finds, or is refused with file and column.

Never `internal`, and never a value that is not in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import open_engine
from penstock.model.results import ItemResult
from tests.projects import ProjectFolder, query_delta
from tests.spark.hostile_files import WRITERS, plain, write_by_spark
from tests.spark.tables import forget_tables

pytestmark = pytest.mark.spark

END = 2**63 - 1


def moments(*numbers: int, unit: str = "us", zone: str | None = None) -> pa.Array:
    return pa.array(numbers, pa.int64()).view(pa.timestamp(unit, zone))


def days(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int32()).view(pa.date32())


def texts(*values: bytes) -> pa.Array:
    """Text that need not be UTF-8."""
    return pa.array(values).view(pa.string())


FAR = {
    "not_utf8": ([pa.array([b"\xff", b"a"]), texts(b"\xff\xfe", b"\xc3")], [b"\xff", b"a", b"\xff\xfe", b"\xc3"]),
    "far_date": (
        [days(2**31 - 1, -(2**31)), moments(0, zone="UTC")],
        [b"+5881580-07-11", b"-5877641-06-23", b"1970-01-01 00:00:00Z"],
    ),
    "infinite": (
        [moments(END, -END - 1, zone="UTC"), texts(b"x")],
        [b"+294247-01-10 04:00:54.775807Z", b"-290308-12-21 19:59:05.224192Z", b"x"],
    ),
    "infinite_ntz": ([moments(END), texts(b"x")], [b"+294247-01-10 04:00:54.775807", b"x"]),
    "nanoseconds": (
        [moments(END, -END - 1, -1, unit="ns"), texts(b"x")],
        [b"2262-04-11 23:47:16.854775807", b"1677-09-21 00:12:43.145224192", b"1969-12-31 23:59:59.999999999", b"x"],
    ),
}
"""Values at the ends of their types, in files whose types have only text or bytes in common."""

EQUAL_KEYS = pa.array([[(1, "a")], [(2, "b"), (2, "c")]], pa.map_(pa.int32(), pa.string()))
REFUSED = {
    "equal_keys": (pa.table({"id": [1, 2], "bad": EQUAL_KEYS}), "column 'bad' has a map with the same key twice"),
    "equal_texts": (
        pa.table({"bad": pa.array([[("a", 1)], [("b", 2), ("b", 3)]], pa.map_(pa.string(), pa.int32()))}),
        "column 'bad' has a map with the same key twice",
    ),
    "nested_text": (
        pa.table({"bad": pa.StructArray.from_arrays([texts(b"ok", b"\xff")], ["s"])}),
        "column 'bad' has text inside a nested column that is not UTF-8",
    ),
    "nanoseconds_alone": (pa.table({"bad": moments(1, unit="ns")}), "column 'bad' has timestamps with nanoseconds"),
    "far_milliseconds": (pa.table({"bad": moments(END, unit="ms")}), "cannot read raw file"),
    "damaged": (pa.table({"bad": [f"{n:050}" for n in range(5000)]}), "raw file"),
}
"""What Spark only finds while it reads; each is the only file of its table."""


def read_file(file: Path) -> pa.Table:
    """The rows by pyarrow, or by DuckDB where pyarrow cannot."""
    try:
        return pq.read_table(file, partitioning=None)
    except (OSError, pa.ArrowException):
        with duckdb.connect() as connection:
            return connection.execute(f"SELECT * FROM read_parquet('{file}')").to_arrow_table()


def read_table(spark: Any, path: Path) -> pa.Table:
    """The rows by delta-rs, or by Spark: delta-rs refuses text that is not UTF-8."""
    try:
        return query_delta(path)
    except Exception:  # noqa: BLE001 - delta-rs raises it as such
        return spark.read.format("delta").load(str(path)).toArrow()


def values_of(table: pa.Table) -> dict[str, list[Any]]:
    """Each column as plain values; columns of which no file gives a type are not in a table."""
    found = {name: plain(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    return {name: sorted(map(repr, values)) for name, values in found.items()}


def run_all(project: ProjectFolder) -> dict[str, ItemResult]:
    return {item.dataset.name: item for item in open_engine(project.root, environment={}).run().items}


def check(spark: Any, project: ProjectFolder, result: ItemResult) -> bool:
    """Whether the table was loaded: then it equals its file. Otherwise the problem names file and column."""
    name = result.dataset.name
    file = project.root / f"raw/{name}/1.parquet"
    if result.problem is None:
        found = values_of(read_table(spark, project.root / f"storage/staging/{name}"))
        wanted = {column: values for column, values in values_of(read_file(file)).items() if column in found}
        assert found == wanted, name
        return True
    said = result.problem.message
    assert result.problem.code == "raw_file", (name, said)
    assert f"{name}/1.parquet" in said, said
    assert result.problem.hint, said
    return False


def load(spark: Any, root: Path, seeds: Mapping[str, range]) -> tuple[int, int]:
    """Write and load one table for each seed; how many were loaded, and how many refused."""
    project = ProjectFolder(root)
    writers = {**WRITERS, "spark": partial(write_by_spark, spark)}
    names = [(writer, f"{writer}_{seed}", seed) for writer, numbers in seeds.items() for seed in numbers]
    contracts = {name: {"nested": "struct"} for _, name, _ in names}
    project.configure(json.dumps({"name": "hostile", "staging": contracts}))
    for writer, name, seed in names:
        writers[writer](root / f"raw/{name}/1.parquet", seed)
    results = run_all(project)
    assert len(results) == len(names)
    loaded = sum(check(spark, project, result) for result in results.values())
    forget_tables(spark)
    return loaded, len(names) - loaded


def test_files_of_every_kind_are_loaded_exactly_or_refused(tmp_path: Path, spark: Any) -> None:
    loaded, refused = load(spark, tmp_path / "few", {"arrow": range(14), "duckdb": range(5), "spark": range(2)})
    assert loaded > 10
    assert refused > 2


@pytest.mark.deep
@pytest.mark.parametrize("part", range(8))
def test_hundreds_of_files_are_loaded_exactly_or_refused(part: int, tmp_path: Path, spark: Any) -> None:
    seeds = range(1000 + part * 60, 1060 + part * 60)
    loaded, refused = load(
        spark, tmp_path / "many", {"arrow": seeds, "duckdb": seeds, "spark": range(seeds[0], seeds[8])}
    )
    assert loaded > refused > 0


@pytest.fixture(scope="module")
def extreme(
    tmp_path_factory: pytest.TempPathFactory, spark: Any
) -> Iterator[tuple[ProjectFolder, dict[str, ItemResult]]]:
    """Every case of this file as a table of one project, loaded once."""
    project = ProjectFolder(tmp_path_factory.mktemp("extreme") / "p").configure()
    for name, (columns, _) in FAR.items():
        for number, column in enumerate(columns):
            project.raw(name, str(number), pa.table({"c": column}))
    for name, (rows, _) in REFUSED.items():
        project.raw(name, "1", rows)
    file = project.root / "raw/damaged/1.parquet"
    content = bytearray(file.read_bytes())
    content[200:260] = b"\xff" * 60
    file.write_bytes(bytes(content))
    project.raw("checked", "1", {"amount": [1, 2]})
    project.raw("only_appends", "1", {"amount": [1, 2]})
    yield project, run_all(project)
    forget_tables(spark)


def test_extreme_values_keep_their_meaning(extreme: tuple[ProjectFolder, dict[str, ItemResult]], spark: Any) -> None:
    project, results = extreme
    problems = {name: str(results[name].problem) for name in FAR if results[name].problem}
    assert problems == {}
    for name, (_, wanted) in FAR.items():
        rows = read_table(spark, project.root / f"storage/staging/{name}")
        assert sorted(plain(rows.column("c"))) == sorted(wanted), name


def test_what_spark_cannot_read_is_named(extreme: tuple[ProjectFolder, dict[str, ItemResult]]) -> None:
    _, results = extreme
    for name, (_, message) in REFUSED.items():
        problem = results[name].problem
        assert problem is not None, name
        assert problem.code == "raw_file", (name, str(problem))
        assert message in problem.message, (name, str(problem))
        assert f"{name}/1.parquet" in problem.message, (name, str(problem))


def test_what_a_user_declared_about_a_table_is_told(
    extreme: tuple[ProjectFolder, dict[str, ItemResult]], spark: Any
) -> None:
    project, _ = extreme
    tables = {name: f"delta.`{project.root}/storage/staging/{name}`" for name in ("checked", "only_appends")}
    spark.sql(f"ALTER TABLE {tables['checked']} ADD CONSTRAINT positive CHECK (amount > 0)")
    spark.sql(f"ALTER TABLE {tables['only_appends']} SET TBLPROPERTIES (delta.appendOnly = true)")
    project.raw("checked", "2", {"amount": [-77]})
    project.raw("only_appends", "1", {"amount": [3]})
    engine = open_engine(project.root, environment={})
    found = {
        item.dataset.name: item.problem for item in engine.run(engine.request(select=["checked", "only_appends"])).items
    }
    assert found["checked"] is not None
    assert found["only_appends"] is not None
    assert found["checked"].code == found["only_appends"].code == "storage"
    assert "CHECK constraint positive" in found["checked"].message
    assert "77" not in f"{found['checked'].message} {found['checked'].hint}"
    assert "delta.appendOnly" in found["only_appends"].message
