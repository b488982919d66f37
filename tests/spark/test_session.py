"""Sessions: one that the user started is used as it is, if Delta is configured; user functions reach Spark's workers."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock.engine import open_engine
from penstock.errors import SessionError
from penstock.session.opening import check_delta
from penstock.session.settings import LOADS
from tests.projects import ProjectFolder
from tests.spark.flow_projects import ONE_FLOW, write_feed

pytestmark = pytest.mark.spark

LOADED = """
import json, sys
from penstock.cli.main import main
try:
    main(["run", "--quiet"])
except SystemExit as end:
    assert end.code == 0
print(json.dumps(sorted(name for name in ("pyspark", "pyarrow", "sqlglot", "deltalake", "rich.table") if name in sys.modules)))
"""


def test_a_session_without_delta_is_refused(spark: Any) -> None:
    other = spark.newSession()
    check_delta(other)
    other.conf.set("spark.sql.catalog.spark_catalog", "com.example.Catalog")
    with pytest.raises(SessionError, match="not configured for Delta"):
        check_delta(other)


def test_the_users_session_is_left_as_it_was(shop: ProjectFolder, spark: Any) -> None:
    shop.define("view.sql", "CREATE TEMPORARY VIEW paid AS SELECT * FROM staging.orders WHERE amount >= 20")
    shop.define("count.sql", "CREATE MATERIALIZED VIEW paid_count AS SELECT count(*) AS n FROM paid")
    before = spark.catalog.currentDatabase()
    assert not open_engine(shop.root, environment={}).run().has_failed
    assert spark.catalog.currentDatabase() == before
    assert not spark.catalog.tableExists("paid")
    assert spark.sql("SELECT count(*) FROM staging.orders").collect()[0][0] == 3, "tables are found by name"


def test_another_project_may_have_the_same_names_in_one_session(
    shop: ProjectFolder, spark: Any, tmp_path: Path
) -> None:
    other = ProjectFolder(tmp_path / "other").configure()
    other.raw("orders", "1", {"customer": ["z"], "amount": [7.0]})
    for project in (shop, other):
        project.define("totals.sql", "CREATE MATERIALIZED VIEW totals AS SELECT sum(amount) AS s FROM staging.orders")
        project.define("big.py", "")
    for project, total in ((shop, 60.0), (other, 7.0)):
        assert not open_engine(project.root, environment={}).run().has_failed
        assert project.rows("main.totals") == [(total,)]
    shop.define("totals.sql", "CREATE MATERIALIZED VIEW totals AS SELECT max(amount) AS s FROM staging.orders")
    with open_engine(shop.root, environment={}) as engine:
        assert not engine.run().has_failed
        assert shop.rows("main.totals") == [(30.0,)]
        other.define("totals.sql", "CREATE MATERIALIZED VIEW totals AS SELECT max(amount) AS s FROM staging.orders")
        (failed,) = (item for item in open_engine(other.root, environment={}).run().items if item.problem is not None)
        assert "a run of another project that works in this Spark session now" in failed.problem.message
    assert not open_engine(other.root, environment={}).run().has_failed
    assert (len(shop.rows("staging.orders")), len(other.rows("staging.orders"))) == (3, 1), "only names were taken away"
    # A table that the user put there since is neither read nor dropped.
    spark.sql("DROP TABLE staging.orders")
    place = f"USING DELTA LOCATION '{tmp_path / 'mine'}'"
    spark.sql(f"CREATE TABLE staging.orders {place} AS SELECT 'mine' AS customer, 1.0D AS amount")
    for project in (other, shop):
        project.define("totals.sql", "CREATE MATERIALIZED VIEW totals AS SELECT min(amount) AS s FROM staging.orders")
        failed = [item for item in open_engine(project.root, environment={}).run().items if item.problem is not None]
        assert ["staging.orders is already registered" in item.problem.message for item in failed if item.problem] == [
            True
        ]
    assert [tuple(row) for row in spark.table("staging.orders").collect()] == [("mine", 1.0)]


def test_a_view_of_the_users_session_is_not_read_by_mistake(shop: ProjectFolder, spark: Any) -> None:
    spark.range(1).createOrReplaceTempView("big_orders")
    try:
        with pytest.raises(SessionError, match="temporary view called big_orders"):
            open_engine(shop.root, environment={}).run()
    finally:
        spark.catalog.dropTempView("big_orders")


def test_python_functions_of_the_project_reach_the_workers(empty_project: ProjectFolder) -> None:
    (empty_project.root / "lib").mkdir()
    (empty_project.root / "lib/words.py").write_text("def shout(text):\n    return text.upper() + '!'\n")
    empty_project.raw("orders", "1", {"id": [1], "customer": ["a"]})
    empty_project.define(
        "loud.py",
        "from pyspark.sql.functions import udf\nfrom lib.words import shout\nfrom penstock import pipelines as dp\n\n"
        "@udf('string')\ndef loud(text):\n    return shout(text)\n\n"
        "@dp.materialized_view\ndef names():\n    return dp.read('staging.orders').select(loud('customer').alias('name'))\n",
    )
    result = open_engine(empty_project.root, environment={}).run()
    assert not result.has_failed, [str(dataset.problem) for dataset in result.items]
    assert empty_project.rows("main.names") == [("A!",)]


def test_a_run_without_work_loads_nothing_heavy(shop: ProjectFolder) -> None:
    open_engine(shop.root, environment={}).run()
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=shop.root, capture_output=True, text=True, check=True, timeout=120
    )
    assert "Nothing to do" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) == ["rich.table"]


def test_one_new_file_touches_only_its_table_and_its_readers(shop: ProjectFolder) -> None:
    for index in range(5):
        shop.raw(f"other{index}", "1", {"id": [index]})
    engine = open_engine(shop.root, environment={})
    engine.run()
    before = {info.name: info.state.version for info in engine.inspector.datasets()}
    shop.raw("other3", "2", {"id": [33]})
    open_engine(shop.root, environment={}).run()
    after = {info.name: info.state.version for info in open_engine(shop.root, environment={}).inspector.datasets()}
    assert {str(name) for name in before if before[name] != after[name]} == {"staging.other3"}


def test_in_a_with_block_the_session_is_kept_from_run_to_run_and_given_back_at_the_end(
    shop: ProjectFolder, spark: Any
) -> None:
    theirs = {"spark.sql.variable.substitute": "true", "spark.sql.parquet.outputTimestampType": "INT96"}
    before = {name: spark.conf.get(name) for name in theirs}
    times = [datetime(year, 1, 2, 3, 4, 5, 678901, UTC) for year in (1, 1500, 1899, 2024, 9999)]

    def current() -> dict[str, str]:
        return {name: spark.conf.get(name) for name in theirs}

    for name, value in theirs.items():
        spark.conf.set(name, value)
    try:
        with open_engine(shop.root, environment={}) as engine:
            engine.run()
            assert current() == {name: LOADS[name] for name in theirs}, "borrowed until the block ends"
            shop.raw("orders", "9", {"id": [9], "customer": ["z"], "amount": [1.0]})
            shop.raw("moments", "1", {"at": times})
            assert not engine.run().has_failed
        assert current() == theirs
        engine.close()  # once more does no harm
        open_engine(shop.root, environment={}).run()
        assert current() == theirs, "without a block, each run gives it back"
    finally:
        for name, known in before.items():
            spark.conf.set(name, known)
    # Other readers see the times that Spark sees.
    stored = shop.root / "storage" / "staging" / "moments"
    assert sorted(DeltaTable(stored).to_pyarrow_table()["at"].to_pylist()) == times
    (file,) = stored.glob("*.parquet")
    assert pq.ParquetFile(file).schema.column(0).physical_type == "INT64"


def test_in_a_kept_session_sql_sees_the_columns_that_a_streaming_table_gets(empty_project: ProjectFolder) -> None:
    empty_project.define("flow.py", ONE_FLOW.replace(', schema="id int, city string, ts int"', ""))
    empty_project.define("copy.sql", "CREATE MATERIALIZED VIEW copy AS SELECT * FROM customers;")
    write_feed(empty_project, "customers", "1", {"id": 1, "city": "Rome", "ts": 1})
    with open_engine(empty_project.root, environment={}) as engine:
        assert not engine.run().has_failed
        write_feed(empty_project, "customers", "2", {"id": 2, "city": "Oslo", "ts": 2, "zip": "0150"})
        assert not engine.run().has_failed
        assert "zip" in [column.name for column in engine.inspector.schema("copy").schema.columns]
