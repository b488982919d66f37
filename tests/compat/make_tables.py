"""Makes the projects that `tables_v*` keep, with the Penstock that is installed: `python make_tables.py FOLDER STEP...`.

Format 1: appends. Format 2: staging derived. Format 3: staging chain derived flows. All runs share one Spark
session; those that die are commands of their own. The folder must be new.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = "/@project@"
"""Stands for the project's folder in manifests, where change files are named by their whole path."""

CONTRACTS = """\
name: shop
staging:
  payments:
    columns: {amount: int}
    on_drift: quarantine
"""
RENAME = CONTRACTS + "  orders:\n    renames: {cust: customer}\n"

FIRST = """\
CREATE MATERIALIZED VIEW first_totals AS SELECT count(*) AS orders FROM staging.orders
"""
TOTALS = """\
CREATE TEMPORARY VIEW order_amounts AS SELECT customer, amount FROM staging.orders;

CREATE MATERIALIZED VIEW totals COMMENT 'per customer' CLUSTER BY (customer)
AS SELECT customer, sum(amount) AS total FROM order_amounts GROUP BY customer
"""
SHAPES = """\
LEAST = 10


def with_label(rows):
    return rows.selectExpr("*", f"amount > {LEAST} AS is_big")
"""
BIG = """\
from shop_shapes import with_label

from penstock import pipelines as dp


@dp.temporary_view
def labelled():
    return with_label(dp.read("staging.orders"))


@dp.materialized_view(partition_cols=["customer"])
@dp.expect_or_drop("big", "is_big")
@dp.expect("known", "customer <> 'c'")
def big_orders():
    return dp.read("labelled")


@dp.materialized_view(depends_on=["big_orders"])
def big_count():
    return getattr(dp.spark, "table")("big_orders").groupBy("customer").count()
"""
FLOWS = """\
from pathlib import Path

from penstock import pipelines as dp

dp.create_streaming_table("customers", comment="customers and their history")
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files(
        "feeds/customers", envelope="events", schema="operation string, data struct<id: int, city: string>, ts int"
    ),
    keys=["id"],
    sequence_by="_change.ts",
    stored_as_scd_type=2,
    quarantine=True,
)

dp.create_streaming_table("accounts")
dp.create_auto_cdc_flow(
    target="accounts",
    source=dp.change_files("feeds/accounts", envelope="debezium"),
    keys=["id"],
    sequence_by="_change.ts_ms",
)

dp.create_streaming_table("contacts")
for country in ("de", "it"):
    dp.create_auto_cdc_flow(
        name=f"contacts_{country}",
        target="contacts",
        source=dp.change_files(f"feeds/contacts_{country}", format="csv", schema="id int, mail string, ts int"),
        keys=["id"],
        sequence_by="ts",
        except_column_list=["ts"],
    )

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    target="people",
    source="staging.people_feed",
    keys=["id"],
    sequence_by="ts",
    apply_as_deletes="op = 'DELETE'",
    except_column_list=["op", "ts"],
    stored_as_scd_type=2,
    track_history_column_list=["city"],
)

dp.create_streaming_table("stock")
dp.create_auto_cdc_from_snapshot_flow(target="stock", source="staging.stock_now", keys=["sku"])


def next_prices(version):
    days = sorted(file.stem for file in (Path(__file__).parents[1] / "snapshots").glob("*.json"))
    later = [day for day in days if version is None or day > version]
    rows = f"{Path(__file__).parents[1]}/snapshots/{{}}.json"
    return (dp.spark.read.schema("sku string, price int").json(rows.format(later[0])), later[0]) if later else None


dp.create_streaming_table("prices")
dp.create_auto_cdc_from_snapshot_flow(target="prices", source=next_prices, keys=["sku"], stored_as_scd_type=2)


@dp.materialized_view(table_properties={"delta.enableChangeDataFeed": "true"})
def latest():
    return dp.spark.sql("SELECT id, city FROM customers WHERE __END_AT IS NULL")


dp.create_streaming_table("latest_history")
dp.create_auto_cdc_flow(
    target="latest_history", source="latest", keys=["id"], sequence_by="_commit_version", stored_as_scd_type=2
)
"""


class Maker:
    """Writes files of the project and runs it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def raw(self, table: str, batch: int, rows: Mapping[str, Sequence[Any]] | pa.Table) -> None:
        file = self.root / "raw" / table / f"{batch:04}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(dict(rows)), file)

    def feed(self, feed: str, batch: int, *lines: Mapping[str, Any]) -> None:
        self.write(f"feeds/{feed}/{batch}.json", "".join(json.dumps(line) + "\n" for line in lines))

    def event(self, batch: int, *events: tuple[str, int, Any, Any]) -> None:
        self.feed(
            "customers", batch, *({"operation": o, "data": {"id": i, "city": c}, "ts": t} for o, t, i, c in events)
        )

    def run(self, *select: str) -> None:
        from penstock.engine import open_engine

        engine = open_engine(self.root, environment={})
        result = engine.run(engine.request(select=list(select)))
        problems = [str(dataset.problem) for dataset in result.items if dataset.problem]
        assert not problems, problems
        print(*(f"{d.dataset} {d.action.value}" for d in result.items if d.action.is_work), sep=", ")  # noqa: T201

    def die(self, point: str, *select: str) -> None:
        """A run that is killed at this fault point: its attempt has a manifest and no commit."""
        command = [sys.executable, "-c", "from penstock.cli.main import main; main()", "run", "--select", *select]
        done = subprocess.run(command, cwd=self.root, env={**os.environ, "PENSTOCK_FAULT": point}, check=False)
        assert done.returncode == -9, done.returncode


def make_appends(maker: Maker) -> None:
    """Two batches, and tables made of them."""
    maker.write("penstock.yml", "name: shop\n")
    maker.raw("orders", 1, {"id": [1, 2], "customer": ["a", "b"], "amount": [5.0, 20.0]})
    maker.write("transformations/totals.sql", TOTALS)
    maker.run()
    maker.raw("orders", 2, {"id": [3], "customer": ["a"], "amount": [30.0]})
    maker.run()


def make_staging(maker: Maker) -> None:
    """Appends, a new column, a wider type, a rename, misfits, nested values, a retired table, a dead attempt."""
    maker.write("penstock.yml", CONTRACTS)
    maker.raw("orders", 1, {"id": pa.array([1, 2], pa.int32()), "cust": ["a", "b"], "amount": [5.0, 20.0]})
    maker.raw("payments", 1, {"id": [1, 2], "amount": [10, 20], "detail": [{"by": "card"}, {"by": "cash"}]})
    maker.raw("retired", 1, {"id": [1]})
    maker.write("transformations/first.sql", FIRST)
    maker.run()
    shutil.rmtree(maker.root / "raw" / "retired")
    maker.raw("orders", 2, {"id": pa.array([3], pa.int32()), "cust": ["a"], "amount": [30.0]})
    maker.raw("payments", 2, {"id": [3, 4], "amount": ["30", "x"], "detail": [None, {"by": "card"}]})
    maker.run()
    maker.raw("orders", 3, {"id": [4], "cust": ["c"], "amount": [40.0], "note": ["late"]})
    maker.run()
    maker.write("penstock.yml", RENAME)
    maker.raw("orders", 4, {"id": [5], "customer": ["b"], "amount": [7.0], "note": [None]})
    maker.run()
    maker.raw("orders", 5, {"id": [6], "customer": ["d"], "amount": [60.0], "note": ["x"]})
    maker.die("staging.before_commit", "staging.orders")
    maker.run()


def make_chain(maker: Maker) -> None:
    """More increments than a chain of manifests may have."""
    for batch in range(1, 24):
        maker.raw("readings", batch, {"id": [batch]})
        maker.run("staging.readings")


def make_derived(maker: Maker) -> None:
    maker.write("transformations/totals.sql", TOTALS)
    maker.write("shop_shapes.py", SHAPES)
    maker.write("transformations/big.py", BIG)
    maker.run()


def make_flows(maker: Maker) -> None:
    """SCD1 and SCD2 from change files, from datasets and from snapshots; late events, deletes, a dead batch."""
    maker.write("transformations/flows.py", FLOWS)
    maker.event(1, ("INSERT", 1, 1, "Rome"), ("UPDATE", 5, 1, "Oslo"), ("DELETE", 9, 2, None), ("INSERT", 1, None, "?"))
    account = {"id": 1, "balance": 10, "note": "long"}
    maker.feed("accounts", 1, {"before": None, "after": account, "op": "c", "ts_ms": 1, "source": {"lsn": 1}})
    maker.write("feeds/contacts_de/1.csv", "id,mail,ts\n1,a@x,1\n")
    maker.write("feeds/contacts_it/1.csv", "id,mail,ts\n2,b@x,1\n1,c@x,2\n")
    people = {"id": [1, 1], "name": ["Ann", "Anna"], "city": ["Rome", "Rome"], "op": ["INSERT", "UPDATE"], "ts": [1, 4]}
    maker.raw("people_feed", 1, people)
    maker.raw("stock_now", 1, {"sku": ["a", "b"], "pieces": [1, 2]})
    maker.write("snapshots/2024-01-01.json", '{"sku": "a", "price": 1}\n{"sku": "b", "price": 2}\n')
    maker.run()
    maker.event(2, ("UPDATE", 3, 1, "Bonn"), ("INSERT", 4, 2, "Nice"), ("UPDATE", 6, 1, "Oslo"))
    after = {"id": 1, "balance": 20, "note": "__debezium_unavailable_value"}
    other = {"id": 2, "balance": 5, "note": "x"}
    maker.feed(
        "accounts",
        2,
        {"before": None, "after": after, "op": "u", "ts_ms": 2, "source": {"lsn": 2}},
        {"before": None, "after": other, "op": "c", "ts_ms": 3, "source": {"lsn": 3}},
        {"before": other, "after": None, "op": "d", "ts_ms": 4, "source": {"lsn": 4}},
    )
    maker.die("changes.before_commit@main.customers", "main.customers")
    maker.raw("people_feed", 2, {"id": [1], "name": ["Ann"], "city": ["Oslo"], "op": ["UPDATE"], "ts": [3]})
    maker.raw("stock_now", 1, {"sku": ["a", "c"], "pieces": [1, 3]})
    maker.write("snapshots/2024-01-02.json", '{"sku": "a", "price": 3}\n')
    maker.run()


def keep(maker: Maker) -> None:
    """Leave only what a later version reads, and no place of this machine."""
    shutil.rmtree(maker.root / ".penstock")
    for file in sorted(maker.root.rglob("*.crc")):
        file.unlink()
    for folder in maker.root.rglob("__pycache__"):
        shutil.rmtree(folder)
    for file in (maker.root / "storage").rglob("_penstock/*.json"):
        file.write_text(file.read_text().replace(str(maker.root), ROOT))


STEPS = {
    "appends": make_appends,
    "staging": make_staging,
    "chain": make_chain,
    "derived": make_derived,
    "flows": make_flows,
}


def main(folder: str, *steps: str) -> None:
    os.environ["TZ"] = "UTC"
    root = Path(folder).resolve()
    from penstock.model.project import SparkSettings

    try:
        from penstock.session.opening import open_session
        from penstock.session.settings import SessionRequest
    except ImportError:  # where it was when tables_v3 was made
        from penstock.lake.session import SessionRequest, open_session
    maker = Maker(root)
    request = SessionRequest(SparkSettings("local[2]"), {}, (str(root),), root / ".penstock", "make", is_short=True)
    with open_session(request):
        for step in steps:
            STEPS[step](maker)
    keep(maker)


if __name__ == "__main__":
    main(*sys.argv[1:])
