"""`${...}` over Spark Connect: the server parses names and texts, and would put its own settings and environment there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.projects import ProjectFolder
from tests.spark.tables import read_table, rows_of

pytestmark = pytest.mark.spark

PRICES = {"price": [1], "price${x}": [10], "${env:PATH}": [2.5], "nested": [{"f": 1, "f${x}": 2}]}
DEFINITION = """
from penstock import pipelines as dp


@dp.materialized_view
def texts():
    return dp.spark.sql("SELECT '${env:PATH}' AS text, `price${x}` AS price FROM staging.prices")
"""
FUNCTIONS = """
from penstock import pipelines as dp


@dp.temporary_view
def doubled():
    dp.spark.sql("CREATE TEMPORARY FUNCTION twice(x DOUBLE) RETURNS DOUBLE RETURN 2 * x")
    return dp.spark.sql("SELECT twice(price) AS x FROM staging.prices")


@dp.materialized_view
def one():
    return dp.read("doubled")


@dp.materialized_view
def two():
    dp.spark.udf.register("more", lambda x: x + 1, "double")
    return dp.spark.sql("SELECT x, more(x) AS y FROM {doubled}", doubled=dp.read("doubled"))
"""
BORROWED = """
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
for database in ("staging", "main"):  # what other projects registered on this server
    session.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
before = session.conf.get("spark.sql.variable.substitute")
from penstock.engine import open_engine
result = open_engine(environment={}).run()
assert not result.has_failed, [str(item.problem) for item in result.items]
assert session.conf.get("spark.sql.variable.substitute") == before == "true"
names = {row[0] for row in session.sql("SHOW USER FUNCTIONS").collect()}
assert not names & {"twice", "more"}, names
session.stop()
"""


def test_names_and_texts_stay_as_they_are(tmp_path: Path, connect: str) -> None:
    """First in a session of ours, then in one that is borrowed."""
    project = ProjectFolder(tmp_path / "shop", {"PENSTOCK__SPARK__REMOTE": connect}).configure(
        "name: shop\nthreads: 1\nstaging:\n  prices: {nested: struct}\n"
    )
    project.raw("prices", "1", PRICES)
    project.define("texts.py", DEFINITION)
    project.define("functions.py", FUNCTIONS)
    project.penstock("run")
    assert find_prices(project) == [(2.5, {"f": 1, "f${x}": 2}, 1, 10)]
    assert project.rows("main.texts") == [(10, "${env:PATH}")]
    assert (project.rows("main.one"), project.rows("main.two")) == ([(2.0,)], [(2.0, 3.0)])

    project.raw("prices", "2", {**PRICES, "nested": [{"f": "one", "f${x}": "two"}]})
    command = [sys.executable, "-c", BORROWED, connect]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    nested = [{"f": "1", "f${x}": "2"}, {"f": "one", "f${x}": "two"}]
    assert find_prices(project) == [(2.5, inner, 1, 10) for inner in nested]
    assert project.rows("main.texts") == [(10, "${env:PATH}")] * 2


def find_prices(project: ProjectFolder) -> list[tuple[Any, ...]]:
    return sorted(rows_of(read_table(None, project.root / "storage/staging/prices")), key=repr)
