"""A project on a real S3 server: plan without a JVM, a killed run, the next run, change files, no-op, changed file, show."""

from __future__ import annotations

import io
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from tests.projects import MORE_ORDERS, ORDERS, TOTALS_SQL, ProjectFolder
from tests.storage_servers import BUCKET, open_s3

pytestmark = pytest.mark.spark

PROJECT = f"""\
name: shop
raw: s3a://{BUCKET}/lake/raw
storage: s3a://{BUCKET}/lake/tables
configuration:
  spark.hadoop.fs.s3a.endpoint: ${{S3_ENDPOINT}}
  spark.hadoop.fs.s3a.endpoint.region: us-east-1
  spark.hadoop.fs.s3a.access.key: ${{S3_USER}}
  spark.hadoop.fs.s3a.secret.key: ${{S3_SECRET}}
  spark.hadoop.fs.s3a.path.style.access: "true"
"""

COUNT_PY = """\
from penstock import pipelines as dp


@dp.materialized_view
@dp.expect("many", "orders > 100")
def big_count():
    return dp.read("big_orders").groupBy().count().withColumnRenamed("count", "orders")
"""

BIG_PY = """\
from penstock import pipelines as dp


@dp.materialized_view
@dp.expect_or_drop("paid", "amount > 10")
def big_orders():
    return dp.read("staging.orders")
"""

FLOW_PY = f"""
from penstock import pipelines as dp

dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files("s3://{BUCKET}/lake/feeds", schema="id int, city string, ts int"),
    keys=["id"],
    sequence_by="ts",
    except_column_list=["ts"],
    stored_as_scd_type=2,
)
"""


@dataclass(frozen=True, slots=True)
class Lake:
    """The bucket, and a project whose raw files, change files and tables are in it."""

    store: S3Store
    shop: ProjectFolder

    def put_orders(self, batch: str, rows: dict[str, list[Any]]) -> None:
        content = io.BytesIO()
        pq.write_table(pa.table(rows), content)
        obstore.put(self.store, f"lake/raw/orders/{batch}.parquet", content.getvalue())

    def put_city(self, city: str, at: int) -> None:
        line = f'{{"id": 1, "city": "{city}", "ts": {at}}}\n'
        obstore.put(self.store, f"lake/feeds/{city}-{at}.json", line.encode())

    def show(self, dataset: str) -> list[list[str]]:
        lines = self.shop.penstock("show", dataset, "--rows", "9").stdout.splitlines()
        return sorted(line.split() for line in lines[1:4])


@pytest.fixture
def lake(tmp_path: Path, s3_environment: dict[str, str]) -> Lake:
    names = {"S3_ENDPOINT": "AWS_ENDPOINT_URL", "S3_USER": "AWS_ACCESS_KEY_ID", "S3_SECRET": "AWS_SECRET_ACCESS_KEY"}
    environment = {name: s3_environment[source] for name, source in names.items()}
    return Lake(open_s3(s3_environment), ProjectFolder(tmp_path / "shop", environment).configure(PROJECT))


def test_a_project_on_an_object_store(lake: Lake) -> None:
    """One story, for a session's start is what it costs: two runs on Spark. Late events come in a run of their own below."""
    shop = lake.shop
    lake.put_orders("0001", ORDERS)
    shop.define("totals.sql", TOTALS_SQL)
    shop.define("big.py", BIG_PY)
    assert "first load, 1 file" in shop.penstock("plan", JAVA_HOME="/nowhere").stdout
    killed = shop.penstock("run", check=None, PENSTOCK_FAULT="derive.after_commit@main.totals")
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    lake.put_orders("0002", MORE_ORDERS)
    shop.define("flow.py", FLOW_PY)
    for city, at in (("Rome", 1), ("Oslo", 5), ("Bonn", 3), ("Bonn", 4)):
        lake.put_city(city, at)
    shop.penstock("run")
    results = shop.results()
    assert results["staging.orders"]["action"] == "append"
    assert results["main.big_orders"]["rows"] == 4
    assert lake.show("totals") == [["a", "40.0", "2"], ["b", "60.0", "2"], ["c", "50.0", "1"]]
    assert lake.show("customers") == [["1", "Bonn", "3", "5"], ["1", "Oslo", "5", "NULL"], ["1", "Rome", "1", "3"]]

    assert "Nothing to do" in shop.penstock("run", JAVA_HOME="/nowhere").stdout
    lake.put_orders("0002", {**MORE_ORDERS, "amount": [1.0, 2.0]})
    assert "changed since: orders/0002.parquet" in shop.penstock("plan").stdout
    assert shop.environment["S3_SECRET"] not in (shop.root / ".penstock" / "manifest.json").read_text()


@pytest.mark.deep
def test_late_events_and_a_changed_file_on_an_object_store(lake: Lake) -> None:
    """What the short story leaves out: a batch of one late event, a rebuild, and an expectation that only warns."""
    shop = lake.shop
    for name, text in (("totals.sql", TOTALS_SQL), ("big.py", BIG_PY), ("count.py", COUNT_PY), ("flow.py", FLOW_PY)):
        shop.define(name, text)
    lake.put_orders("0001", ORDERS)
    lake.put_orders("0002", MORE_ORDERS)
    lake.put_city("Rome", 1)
    lake.put_city("Oslo", 5)
    shop.penstock("run")
    assert lake.show("customers")[:2] == [["1", "Oslo", "5", "NULL"], ["1", "Rome", "1", "5"]]
    assert shop.results()["main.big_count"]["status"] == "warn"
    lake.put_city("Bonn", 3)
    shop.penstock("run")
    assert lake.show("customers") == [["1", "Bonn", "3", "5"], ["1", "Oslo", "5", "NULL"], ["1", "Rome", "1", "3"]]
    lake.put_orders("0002", {**MORE_ORDERS, "amount": [1.0, 2.0]})
    shop.penstock("run")
    results = shop.results()
    assert results["staging.orders"]["action"] == "rebuild"
    assert results["main.big_orders"]["rows"] == 2
    assert results["main.big_count"]["action"] != "none"
