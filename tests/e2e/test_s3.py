"""A project whose raw files and tables live on a real S3 server: plan without a JVM, run, no-op, changed file, show."""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from tests.projects import BIG_PY, MORE_ORDERS, ORDERS, TOTALS_SQL, ProjectFolder
from tests.storage_servers import BUCKET, s3_server

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


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[tuple[S3Store, dict[str, str]]]:
    with s3_server(tmp_path / "server") as env:
        endpoint, user, secret = (
            env[name] for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        )
        store = S3Store(
            BUCKET,
            endpoint=endpoint,
            access_key_id=user,
            secret_access_key=secret,
            region="us-east-1",
            client_options={"allow_http": True},
            virtual_hosted_style_request=False,
        )
        yield store, {"S3_ENDPOINT": endpoint, "S3_USER": user, "S3_SECRET": secret}


def put(store: S3Store, table: str, batch: str, rows: dict[str, list[Any]]) -> None:
    content = io.BytesIO()
    pq.write_table(pa.table(rows), content)
    obstore.put(store, f"lake/raw/{table}/{batch}.parquet", content.getvalue())


def test_a_project_on_an_object_store(tmp_path: Path, bucket: tuple[S3Store, dict[str, str]]) -> None:
    store, environment = bucket
    put(store, "orders", "0001", ORDERS)
    shop = ProjectFolder(tmp_path / "shop", environment).configure(PROJECT)
    shop.define("totals.sql", TOTALS_SQL)
    shop.define("big.py", BIG_PY)
    assert "first load, 1 file" in shop.penstock("plan", JAVA_HOME="/nowhere").stdout
    killed = shop.penstock("run", check=None, PENSTOCK_FAULT="derive.after_commit@main.totals")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    put(store, "orders", "0002", MORE_ORDERS)
    shop.penstock("run")
    results = shop.results()
    assert results["staging.orders"]["action"] == "append"
    assert results["main.big_orders"]["rows"] == 4
    no_op = shop.penstock("run", JAVA_HOME="/nowhere")
    assert "Nothing to do" in no_op.stdout
    rows = shop.penstock("show", "totals", "--rows", "9").stdout
    assert [line.split() for line in rows.splitlines()[1:4]] == [
        ["a", "40.0", "2"],
        ["b", "60.0", "2"],
        ["c", "50.0", "1"],
    ]
    put(store, "orders", "0002", {**MORE_ORDERS, "amount": [1.0, 2.0]})
    assert "changed since: orders/0002.parquet" in shop.penstock("plan").stdout
    assert environment["S3_SECRET"] not in (shop.root / ".penstock" / "manifest.json").read_text()


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


def test_change_files_and_their_table_on_an_object_store(
    tmp_path: Path, bucket: tuple[S3Store, dict[str, str]]
) -> None:
    store, environment = bucket
    shop = ProjectFolder(tmp_path / "shop", environment).configure(PROJECT)
    shop.define("flow.py", FLOW_PY)
    for number, (city, at) in enumerate((("Rome", 1), ("Oslo", 5), ("Bonn", 3), ("Bonn", 4))):
        obstore.put(store, f"lake/feeds/{number}.json", f'{{"id": 1, "city": "{city}", "ts": {at}}}\n'.encode())
        if number != 1:
            shop.penstock("run")
    assert "Nothing to do" in shop.penstock("run", JAVA_HOME="/nowhere").stdout
    rows = shop.penstock("show", "customers", "--rows", "9").stdout
    assert sorted(line.split() for line in rows.splitlines()[1:4]) == [
        ["1", "Bonn", "3", "5"],
        ["1", "Oslo", "5", "NULL"],
        ["1", "Rome", "1", "3"],
    ]
