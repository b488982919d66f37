"""Looking at tables without a JVM: details, history, rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from builders import NAME, clean_log, consumed, load, make_spec, to_name, write_table
from penstock.errors import StorageError, UsageError
from penstock.inspect.datasets import DatasetInfo, HistoryEntry, describe_dataset, read_history
from penstock.inspect.inspector import Inspector
from penstock.inspect.readers import find_reader_notes
from penstock.inspect.rows import read_rows_without_spark
from penstock.kinds.catalog import Catalog
from penstock.kinds.protocol import Workspace
from penstock.kinds.registry import KINDS
from penstock.lake.schemas import read_schema
from penstock.model.dataset import Dataset
from penstock.model.names import DatasetName
from penstock.model.project import Project
from penstock.model.schema import Column, Schema
from penstock.model.spec import DatasetKind, Expectation, OnViolation
from penstock.storage.local import LocalFiles

ORDERS = Dataset(NAME, DatasetKind.STAGING)


def catalog(storage: LocalFiles, dataset: Dataset = ORDERS) -> Catalog:
    project = Project(storage.root, storage.root / "penstock.yml", "shop", str(storage.root))
    return Catalog(Workspace(project, (), storage), KINDS, {dataset.name: dataset})


def describe(storage: LocalFiles, dataset: Dataset = ORDERS) -> DatasetInfo:
    return describe_dataset(catalog(storage, dataset), dataset)


def test_a_dataset_without_a_table_is_shown_as_not_built(storage: LocalFiles) -> None:
    info = describe(storage)
    assert info.to_json() == {
        "dataset": "staging.orders",
        "kind": "staging",
        "version": None,
        "updated_at": None,
        "files_loaded": 0,
        "damage": None,
        "tags": [],
        "location": None,
    }
    assert Inspector(catalog(storage)).show("orders").to_json()["columns"] == []


def test_a_table_is_shown_with_what_it_holds(storage: LocalFiles) -> None:
    load(storage, files=(consumed("orders/1.parquet", size=12, rows=3),))
    write_table(storage.root / NAME.quarantine.path)
    details = Inspector(catalog(storage)).show("orders").to_json()
    assert (details["version"], details["files_loaded"], details["damage"]) == (0, 1, None)
    assert details["updated_at"] > 10**18
    assert details["columns"] == [{"name": "id", "type": "bigint", "nullable": True}]
    assert details["files"] == [{"path": "orders/1.parquet", "bytes": 12, "rows": 3}]
    assert details["quarantine"] == "staging.orders__quarantine"
    assert details["path"] == f"file://{storage.root}/staging/orders"


def test_a_definition_is_shown_with_what_it_expects(storage: LocalFiles) -> None:
    spec = make_spec(
        "totals", "orders", tags=("nightly",), expectations=(Expectation("paid", "a > 0", OnViolation.DROP),)
    )
    details = Inspector(catalog(storage, Dataset(spec.name, spec.kind, spec=spec))).show("totals").to_json()
    assert (details["tags"], details["location"], details["inputs"]) == (
        ["nightly"],
        "transformations/totals.sql:1",
        ["main.orders"],
    )
    assert details["expectations"] == [{"name": "paid", "condition": "a > 0", "on_violation": "drop"}]


def test_a_temporary_view_has_no_table_to_look_for(storage: LocalFiles) -> None:
    write_table(storage.root / "main/clean")
    info = describe(storage, Dataset(to_name("clean"), DatasetKind.TEMPORARY_VIEW, is_stored=False))
    assert (info.state.exists, info.last) == (False, None)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (write_table, "foreign_write"),
        (lambda table: (table / "_delta_log" / f"{0:020d}.json").write_text("{"), "log_damaged"),
    ],
)
def test_a_damaged_table_is_still_shown(damage, code: str, storage: LocalFiles) -> None:
    load(storage)
    damage(storage.root / NAME.path)
    assert describe(storage).to_json()["damage"] == code


def test_a_table_that_another_reader_misreads_is_noted(storage: LocalFiles) -> None:
    load(storage)
    assert find_reader_notes(storage, NAME) == ()
    log = storage.root / NAME.path / "_delta_log" / f"{0:020d}.json"
    versions = '"minReaderVersion":1,"minWriterVersion":2'
    assert versions in log.read_text()
    log.write_text(log.read_text().replace(versions, '"minReaderVersion":2,"minWriterVersion":5'))
    assert "renamed columns as NULL" in find_reader_notes(storage, NAME)[0]
    log.write_text("{")
    assert find_reader_notes(storage, NAME) == ("delta-rs cannot open this table; use Spark",)


@pytest.mark.parametrize("text", ["orders", "ORDERS", "sales.orders"])
def test_a_dataset_is_found_by_its_short_name_in_any_database(text: str, storage: LocalFiles) -> None:
    """As `--select` finds it."""
    other = Dataset(DatasetName("sales", "orders"), DatasetKind.MATERIALIZED_VIEW)
    known = catalog(storage, other)
    assert known.find(text) is other
    both = replace(known, datasets={NAME: ORDERS, other.name: other})
    assert both.find("sales.orders") is other
    with pytest.raises(UsageError, match=r"orders can be sales\.orders or staging\.orders"):
        both.find("orders")


def test_history_is_newest_first_and_names_the_run(storage: LocalFiles) -> None:
    for build in "abc":
        load(storage, build_request_id=build)
    write_table(storage.root / NAME.path)
    entries = read_history(storage, NAME, 3)
    assert [(e.commit.version, e.commit.number, e.build_request_id) for e in entries] == [
        (3, None, None),
        (2, 3, "c"),
        (1, 2, "b"),
    ]
    assert all(isinstance(entry, HistoryEntry) and entry.to_json()["operation"] == "WRITE" for entry in entries)
    assert read_history(storage, to_name("nothing"), 3) == []


def test_the_columns_come_from_the_log_or_from_a_checkpoint(storage: LocalFiles) -> None:
    nested = pa.struct([("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.float64()))])
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("small", pa.int16()),
            pa.field("tiny", pa.int8()),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("nested", nested),
        ]
    )
    folder = storage.root / NAME.path
    folder.mkdir(parents=True)
    write_deltalake(folder, pa.table({name: [] for name in schema.names}, schema=schema))
    expected = Schema(
        (
            Column("id", "bigint", False),
            Column("small", "smallint"),
            Column("tiny", "tinyint"),
            Column("price", "decimal(10,2)"),
            Column("at", "timestamp"),
            Column("nested", "struct<a:array<int>,m:map<string,double>>"),
        )
    )
    assert read_schema(storage, NAME) == expected
    clean_log(folder, keep_from=99)
    assert read_schema(storage, NAME) == expected


@pytest.mark.parametrize("name", ["plain", "my data", "ünï"])
def test_a_few_rows_are_read_wherever_the_project_is(name: str, tmp_path: Path) -> None:
    storage = LocalFiles(tmp_path / name)
    load(storage, rows=(1, 2, 3))
    rows = read_rows_without_spark(storage, NAME, 2)
    assert (rows.columns, rows.rows) == (("id",), ((1,), (2,)))
    assert len(read_rows_without_spark(storage, NAME, 1).rows) == 1


def test_a_table_that_cannot_be_read_without_spark_says_so(storage: LocalFiles) -> None:
    with pytest.raises(StorageError, match=r"staging\.orders cannot be shown without Spark") as caught:
        read_rows_without_spark(storage, NAME, 5)
    assert "Spark session" in str(caught.value.hint)
