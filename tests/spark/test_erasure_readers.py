"""A tombstone takes effect at once for every reader, and a table keeps its protocol unless deletion vectors are allowed.

DuckDB reads Delta tables by an extension that it downloads from a server of its own. Here it comes from PyPI, as the wheel
`duckdb-extension-delta`; DuckDB verifies the signature of its makers before it loads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pytest
from deltalake import DeltaTable

from penstock.engine import open_engine
from tests.projects import ProjectFolder, query_delta
from tests.spark.erasure_projects import ANN, BOB, SECRET, ZOE
from tests.spark.flow_projects import write_feed
from tests.spark.tables import forget_tables
from tests.spark.test_erase import CAUTION

pytestmark = pytest.mark.spark

FLOW = """
from penstock import pipelines as dp

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    target="people",
    source=dp.change_files("feeds/people", schema="email string, city string, ts int"),
    keys=["email"],
    sequence_by="ts",
    except_column_list=["ts"],
    stored_as_scd_type=2,
)
"""


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    (folder,) = duckdb_extension_delta.__path__
    (file,) = Path(folder).rglob("delta.duckdb_extension")
    connection.load_extension(str(file))
    return connection


def emails(spark: Any, duck: duckdb.DuckDBPyConnection, table: Path) -> list[str]:
    """What readers see; all must see the same."""
    found = [
        [row["email"] for row in spark.read.format("delta").load(str(table)).select("email").collect()],
        query_delta(table)["email"].to_pylist(),
        [row[0] for row in duck.execute("SELECT email FROM delta_scan(?)", [str(table)]).fetchall()],
    ]
    first, *others = [sorted(each) for each in found]
    assert others == [first, first]
    return first


def protocol(table: Path) -> tuple[Any, ...]:
    """The protocol of a table, and whether it makes deletion vectors."""
    found = DeltaTable(str(table)).protocol()
    features = [sorted(each or ()) for each in (found.reader_features, found.writer_features)]
    return found.min_reader_version, found.min_writer_version, *features


def has_vectors(table: Path) -> bool:
    log = [line for file in sorted((table / "_delta_log").glob("*.json")) for line in file.read_text().splitlines()]
    return any("deletionVector" in json.loads(line).get("add", {}) for line in log)


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["table", "vectors"])
def test_every_reader_sees_it_at_once(spark: Any, duck: duckdb.DuckDBPyConnection, tmp_path: Path, mode: str) -> None:
    settings = f"""
name: shop
erasure:
  hide: {mode}
  secrets: {{"1": "{SECRET}"}}
  subjects:
    customer: {{staging.customers: {{key: email}}, main.people: {{key: email}}}}
"""
    project = ProjectFolder(tmp_path / "shop").configure(settings)
    project.define("people.py", FLOW)
    project.raw("customers", "0001", {"email": [ANN, BOB, ZOE], "age": [1, 2, 3]})
    lines = [{"email": email, "city": "Rome", "ts": 1} for email in (ANN, BOB, ZOE)]
    write_feed(project, "people", "1", *lines, {"email": ANN, "city": "Bonn", "ts": 2})
    staging, people = (project.root / "storage" / name for name in ("staging/customers", "main/people"))
    with open_engine(project.root, environment={}) as engine:
        assert not engine.run().has_failed
        assert len(emails(spark, duck, staging)) == 3
        assert len(emails(spark, duck, people)) == 4
        before = protocol(staging), protocol(people)
        hidden = engine.erasure.add("customer", [f"email={ANN}"], reason="DSR-17")
        assert {str(each.table): each.rows for each in hidden.tables} == {"staging.customers": 1, "main.people": 2}
        assert emails(spark, duck, staging) == emails(spark, duck, people) == [BOB, ZOE]
        assert protocol(people) == before[1]
        if mode == "table":
            assert protocol(staging) == before[0]
            assert not has_vectors(staging)
        else:
            assert "deletionVectors" not in before[0][2]
            assert "deletionVectors" in protocol(staging)[2]
            assert has_vectors(staging)
        engine.erasure.erase(caution=CAUTION)
        assert emails(spark, duck, staging) == emails(spark, duck, people) == [BOB, ZOE]
    forget_tables(spark)
