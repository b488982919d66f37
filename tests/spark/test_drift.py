"""Every row of the drift table, on Spark and Delta: the action, its reasons, and the rows and types that come of it.

All cases are tables of one project, so that two runs check them all; once with files by pyarrow, once by Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from penstock.engine import open_engine
from penstock.lake.tables import Lake
from penstock.model.names import DatasetName
from penstock.model.plan import Action
from penstock.model.results import ItemResult, LoadResult
from penstock.storage.local import LocalFiles
from penstock.transforms.conform import convert
from tests.projects import ProjectFolder
from tests.spark.drift_of_columns import OF_COLUMNS
from tests.spark.drift_of_types import OF_TYPES
from tests.spark.drift_under_contracts import UNDER_CONTRACTS
from tests.spark.tables import files_of, forget_tables, read_table, rows_of, sort, types_of

pytestmark = pytest.mark.spark

CASES = {**OF_COLUMNS, **OF_TYPES, **UNDER_CONTRACTS}
BY_SPARK = (
    *("column_added", "renamed", "int_to_double", "bigint_to_double_beyond", "quarantine", "nested_as_json"),
    *("nested_as_struct", "added_and_widened"),
)
VARIATIONS = (
    *("column_added_late", "renamed_without_new_files", "added_and_missing_but_no_rename", "float_to_double"),
    *("bigint_to_decimal", "decimals_that_no_decimal_holds", "double_then_bigint_beyond", "string_to_int"),
    *("string_to_binary", "lossless_under_fail", "quarantine_decimals", "quarantine_of_wide_decimals"),
    *("array_and_map_as_json", "nested_struct_incompatible", "json_to_struct", "removed_and_incompatible"),
    *(
        "changed_and_added",
        "narrower_and_missing",
        "renamed_and_incompatible",
        "quarantine_of_numbers_just_beyond",
        "empty_file",
    ),
    *("maps_with_other_keys", "required_later", "quarantine_taken_back", "changed_under_fail", "nanoseconds_as_text"),
    *("declared_before_it_comes", "only_untyped_columns", "required_and_not_there", "removed_and_added"),
    *("quarantine_of_days", "quarantine_of_moments", "struct_fields_in_any_order", "quarantine_declared_later"),
)


WRITERS = {
    "arrow": tuple(name for name in CASES if name not in VARIATIONS),
    "spark": BY_SPARK,
    "all": tuple(CASES),
}
"""Each kind of drift by pyarrow; in `make test-deep` some by Spark, which writes other footers, and every variation."""


def by(*writers: str) -> list[Any]:
    """These writers as parameters of the project."""
    return [pytest.param(writer, marks=marks_of(writer)) for writer in writers]


def marks_of(writer: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.deep] if writer in {"all", "spark"} else []


DRIFTS = [
    pytest.param(writer, (writer, name), id=f"{writer}-{name}", marks=marks_of(writer))
    for writer, names in WRITERS.items()
    for name in names
]
"""A project and one of its cases. The writer is in both, or pytest would take cases of two projects for one and mix them."""


class Project:
    """All cases as tables of one project, written by one writer."""

    def __init__(self, root: Path, spark: Any, writer: str) -> None:
        self.folder = ProjectFolder(root).configure()
        self.spark = spark
        self.writer = writer
        self.cases = {name: CASES[name] for name in WRITERS[writer]}
        self.results: dict[str, ItemResult] = {}

    def write(self, table: str, batch: int, rows: pa.Table) -> None:
        file = self.folder.raw(table, f"{batch:04}", rows)
        if self.writer == "spark":
            parts = file.with_suffix(".parts")
            self.spark.read.parquet(str(file)).coalesce(1).write.mode("overwrite").parquet(str(parts))
            next(parts.glob("part-*.parquet")).replace(file)

    def configure(self, which: str) -> None:
        contracts = {name: getattr(case, which) for name, case in self.cases.items() if getattr(case, which)}
        self.folder.configure(json.dumps({"name": "drift", "staging": contracts}))

    def run(self) -> None:
        for name, case in self.cases.items():
            for number, batch in enumerate(case.before):
                self.write(name, number, batch)
        self.configure("contract_before")
        first = open_engine(self.folder.root, environment={}).run()
        assert not first.has_failed, [d.problem for d in first.items if d.problem]
        before = {name: files_of(self.path(name)) for name in self.cases}
        for name, case in self.cases.items():
            for number in case.remove:
                (self.folder.root / f"raw/{name}/{number:04}.parquet").unlink()
            for number, batch in {**case.change, **{100 + n: batch for n, batch in enumerate(case.after)}}.items():
                self.write(name, number, batch)
        self.configure("contract")
        second = open_engine(self.folder.root, environment={}).run()
        self.results = {dataset.dataset.name: dataset for dataset in second.items}
        self.old_files_kept = {name: before[name] <= files_of(self.path(name)) for name in self.cases}

    def path(self, table: str) -> Path:
        return self.folder.root / f"storage/staging/{table}"

    def content(self, table: str) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
        """The types and the rows of a table."""
        path = self.path(table)
        return types_of(path), sort(rows_of(read_table(self.spark, path)))


@pytest.fixture(scope="module", params=by(*WRITERS))
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp(request.param) / "drift", spark, request.param)
    made.run()
    yield made
    forget_tables(spark)


@pytest.mark.parametrize(("project", "drift"), DRIFTS, indirect=["project"], scope="module")
def test_drift_has_its_action_its_reasons_and_every_value(drift: tuple[str, str], project: Project) -> None:
    _, name = drift
    case, result = project.cases[name], project.results[name]
    assert (result.problem.code if result.problem else None) == case.problem, result.problem
    assert result.action.value == case.action
    assert " ".join(reason.code for reason in result.reasons) == case.codes
    types, rows = project.content(name)
    assert types == dict(case.types)
    assert rows == sort(case.rows)
    if case.action in {"append", "evolve", "none"}:
        assert project.old_files_kept[name], "rows that were loaded before must not be written again"
    if result.load is not None:
        assert result.load.quarantined == case.set_aside


def test_what_does_not_fit_is_set_aside_with_its_place(project: Project) -> None:
    rows = read_table(project.spark, project.path("quarantine__quarantine")).to_pylist()
    assert {(row["raw_file"], row["broken_columns"]) for row in rows} == {
        ("quarantine/0100.parquet", "amount"),
        ("quarantine/0101.parquet", "amount"),
    }
    assert {json.loads(row["raw_row"])["id"] for row in rows} == {3, 4, 7, 8}


@pytest.mark.parametrize("project", by("arrow", "all"), indirect=True)
def test_a_file_is_named_even_if_it_has_a_column_called_metadata(project: Project) -> None:
    """Spark tells the file of a row by a hidden column of that name; a raw file may have one that is not hidden."""
    path = project.path("quarantine_with_a_column_called_metadata__quarantine")
    (row,) = read_table(project.spark, path).to_pylist()
    assert row["raw_file"] == "quarantine_with_a_column_called_metadata/0100.parquet"
    assert json.loads(row["raw_row"]) == {"id": 3, "_metadata": "x"}


@pytest.mark.parametrize("name", ["renamed", "int_to_double"])
def test_rows_are_shown_as_they_are_by_whatever_reader_can(name: str, project: Project) -> None:
    """Renamed columns without a JVM; widened ones by Spark, because the other reader does not know them."""
    shown = open_engine(project.folder.root, environment={}).inspector.rows(name, 10)
    order = sorted(range(len(shown.columns)), key=lambda place: shown.columns[place].lower())
    assert sort([tuple(row[place] for place in order) for row in shown.rows]) == sort(CASES[name].rows)


def test_a_further_run_has_nothing_to_do(project: Project) -> None:
    stuck = {name for name, case in project.cases.items() if case.problem}
    plan = open_engine(project.folder.root, environment={}).plan()
    assert {d.dataset.name for d in plan.items if d.action.is_work} <= {"nanoseconds"}
    assert {d.dataset.name for d in plan.items if d.problem} == stuck - {"nanoseconds"}


@pytest.mark.parametrize("project", by("spark", "all"), indirect=True)
def test_a_rebuild_from_scratch_gives_the_same(project: Project) -> None:
    """The invariant: what was done in small steps equals what is done at once.

    For files by pyarrow test_staging_invariant does that, with more than these cases.
    """
    tables = [
        name
        for name, case in project.cases.items()
        if case.action in {"append", "evolve"} and case.problem is None and not case.remove
    ]
    before = {name: project.content(name) for name in tables}
    engine = open_engine(project.folder.root, environment={})
    names = [f"staging.{name}" for name in tables]
    result = engine.run(engine.request(select=names, full_refresh=",".join(names)))
    assert not result.has_failed, [d.problem for d in result.items if d.problem]
    for name in tables:
        assert project.content(name) == before[name], name


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_moments_as_text_are_in_utc_whatever_the_session_says(zone: str, spark: Any) -> None:
    """Nanoseconds with a time zone end in Z, those without one do not."""
    wanted = {"timestamp_ns": "1969-12-31 23:59:59.999999999Z", "timestamp_ntz_ns": "1969-12-31 23:59:59.999999999"}
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        texts = [convert(F.col("id") - 1, type_, "string") for type_ in wanted]
        (row,) = spark.range(1).select(*texts).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert list(row) == list(wanted.values())


def test_a_dropped_table_leaves_the_catalog_and_may_come_back(empty_project: ProjectFolder, spark: Any) -> None:
    name = DatasetName("staging", "orders")
    lake = Lake(spark, LocalFiles(empty_project.root / "storage"))
    empty_project.raw("orders", "0001", {"id": [1, 2]})
    open_engine(empty_project.root, environment={}).run()
    lake.register(name)
    raw, aside = empty_project.root / "raw/orders", empty_project.root / "aside"
    raw.rename(aside)
    engine = open_engine(empty_project.root, environment={})
    (dropped,) = engine.run(engine.request(drop_retired=True)).items
    assert (dropped.action, dropped.problem) == (Action.DROP, None)
    assert dropped.load == LoadResult(None, 0)
    assert not spark.catalog.tableExists("staging.orders")
    aside.rename(raw)
    open_engine(empty_project.root, environment={}).run()
    Lake(spark, lake.files).register(name)
    assert spark.table("staging.orders").count() == 2
