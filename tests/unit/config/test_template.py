"""The sample project: complete, the same everywhere, valid in itself, and never written over something."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlglot
import yaml
from jsonschema import Draft202012Validator
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from penstock.config.json_schema import project_schema
from penstock.config.project_file import find_project_file, load_project
from penstock.config.sample_erasure import SECRET, write_erasure_settings
from penstock.config.template import last_sample_batch, write_sample_batch, write_sample_project
from penstock.errors import UsageError

TABLES = ("customers", "order_items", "orders", "products")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "shop"
    write_sample_project(folder, "shop")
    write_sample_batch(folder, 2)
    return folder


def contents(folder: Path) -> dict[str, str]:
    found = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}


def test_every_file_is_written_and_named(tmp_path: Path) -> None:
    written = write_sample_project(tmp_path / "shop", "shop")
    assert {str(file.relative_to(tmp_path / "shop")) for file in written} == set(contents(tmp_path / "shop"))
    assert {file.name for file in written} >= {"penstock.yml", "README.md", ".gitignore", "0001.parquet"}
    assert not any("{{name}}" in file.read_text() for file in written if file.suffix != ".parquet")


def test_the_project_loads(shop: Path) -> None:
    project = load_project(find_project_file(shop / "transformations"), environment={})
    assert (project.name, project.database, project.libraries) == ("shop", "main", ("transformations/**",))
    needed = {"LAKE_BUCKET": "lake", "EVENT_LOG_PASSWORD": "pw"}
    assert load_project(shop / "penstock.yml", target="prod", environment=needed).storage == "s3a://lake/shop"


def test_the_json_schema_accepts_it(shop: Path) -> None:
    sample = yaml.safe_load((shop / "penstock.yml").read_text())
    assert Draft202012Validator(project_schema()).is_valid(sample)
    assert not Draft202012Validator(project_schema()).is_valid({**sample, "storag": "x"})


def test_the_same_bytes_every_time(shop: Path, tmp_path: Path) -> None:
    write_sample_project(tmp_path / "again", "shop")
    write_sample_batch(tmp_path / "again", 2)
    assert contents(tmp_path / "again") == contents(shop)


def test_batches_fit_together(shop: Path) -> None:
    schemas = {table: {str(pq.read_schema(file)) for file in (shop / "raw" / table).iterdir()} for table in TABLES}
    assert all(len(each) == 1 for each in schemas.values())
    types = " ".join(next(iter(each)) for each in schemas.values())
    for wanted in ("int64", "string", "timestamp[us, tz=UTC]", "decimal128(10, 2)", "date32[day]", "bool"):
        assert wanted in types
    orders = pq.read_table(shop / "raw" / "orders").to_pylist()
    keys = [order["order_id"] for order in orders]
    assert len(set(keys)) == len(keys) == 250
    customers = {row["customer_id"] for row in pq.read_table(shop / "raw" / "customers").to_pylist()}
    assert {order["customer_id"] for order in orders} - {None} <= customers
    assert {row["order_id"] for row in pq.read_table(shop / "raw" / "order_items").to_pylist()} == set(keys)


@pytest.mark.parametrize("batch", [1, 2])
def test_each_batch_has_rows_that_expectations_find(tmp_path: Path, batch: int) -> None:
    write_sample_batch(tmp_path, batch)
    orders = pq.read_table(tmp_path / "raw" / "orders").to_pylist()
    broken = [order for order in orders if order["customer_id"] is None]
    assert 0 < len(broken) < len(orders) / 10
    assert any(order["status"] not in {"placed", "shipped", "returned"} for order in orders)
    items = pq.read_table(tmp_path / "raw" / "order_items").to_pylist()
    assert any(item["quantity"] == 0 for item in items)


def test_the_next_batch(tmp_path: Path) -> None:
    assert last_sample_batch(tmp_path) == 0
    write_sample_project(tmp_path / "shop", "shop")
    assert last_sample_batch(tmp_path / "shop") == 1
    added = write_sample_batch(tmp_path / "shop", 2)
    assert [file.relative_to(tmp_path / "shop" / "raw").as_posix() for file in added] == [
        "customers/0002.parquet",
        "orders/0002.parquet",
        "order_items/0002.parquet",
    ]
    assert last_sample_batch(tmp_path / "shop") == 2
    before = contents(tmp_path / "shop")
    with pytest.raises(UsageError, match="already exists"):
        write_sample_batch(tmp_path / "shop", 2)
    with pytest.raises(UsageError, match="not a batch number"):
        write_sample_batch(tmp_path / "shop", 0)
    assert contents(tmp_path / "shop") == before


def test_the_sql_names_only_columns_that_exist(shop: Path) -> None:
    kinds = {"int64": "bigint", "string": "string", "bool": "boolean", "date32[day]": "date"}
    schema: dict[str, Any] = {"staging": {}, "main": {}}
    for table in TABLES:
        columns = pq.read_schema(shop / "raw" / table / "0001.parquet")
        schema["staging"][table] = {each.name: kinds.get(str(each.type), "decimal(10,2)") for each in columns}
    schema["main"]["clean_orders"] = {**schema["staging"]["orders"], "order_date": "date"}
    for file in ("order_lines.sql", "daily_revenue.sql"):
        text = (shop / "transformations" / file).read_text()
        query = sqlglot.parse_one(text[text.index("SELECT") :].rstrip().rstrip(";"), dialect="spark")
        qualified = qualify(query, dialect="spark", schema=schema, db="main")
        assert isinstance(qualified, exp.Select)
        schema["main"][file.removesuffix(".sql")] = dict.fromkeys(qualified.named_selects, "string")
    assert "order_month" in schema["main"]["daily_revenue"]


def test_the_python_reads_only_datasets_that_exist(shop: Path) -> None:
    known = {f"staging.{table}" for table in TABLES}
    known |= {file.stem for file in (shop / "transformations").iterdir()}
    found = set()
    for file in (shop / "transformations").glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            is_read = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            if is_read and call.func.attr in {"read", "table"}:  # type: ignore[attr-defined]
                found.add(call.args[0].value)  # type: ignore[attr-defined]
    assert found == {"staging.orders", "staging.customers", "order_lines", "clean_orders"}
    assert found <= known


@pytest.mark.parametrize("name", ["", "my shop", "1shop", "../x", "a/b", "x" * 101, "shöp", "a\n"])
def test_a_bad_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="must start with a letter"):
        write_sample_project(tmp_path / "new", name)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty; nothing was written"):
        write_sample_project(tmp_path, "shop")
    with pytest.raises(UsageError, match="is not a folder"):
        write_sample_project(tmp_path / "mine.txt", "shop")
    with pytest.raises(UsageError, match="cannot be written"):
        write_sample_project(tmp_path / "mine.txt" / "shop", "shop")
    assert set(contents(tmp_path)) == {"mine.txt"}


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    assert tmp_path / "penstock.yml" in write_sample_project(tmp_path, "shop")


def test_the_tour_can_declare_a_subject(tmp_path: Path) -> None:
    write_sample_project(tmp_path / "shop", "shop")
    file = write_erasure_settings(tmp_path / "shop")
    project = load_project(file, environment={SECRET: "a secret of the tour"})
    assert project.erasure.subjects == ("customer",)
    assert project.erasure.secrets == {"1": "a secret of the tour"}
