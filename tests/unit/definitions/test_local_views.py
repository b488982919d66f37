"""Temporary views that a definition makes for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.definitions.checking import check_inputs
from penstock.errors import DefinitionError
from penstock.model.names import DatasetName

if TYPE_CHECKING:
    from conftest import Folder

ORDERS = DatasetName("staging", "orders")


@pytest.mark.parametrize(
    ("body", "views"),
    [
        ('dp.read("staging.orders").createOrReplaceTempView("S")\nreturn spark.sql("SELECT * FROM s")', {"s"}),
        ('dp.read("staging.orders").createTempView(name="s")\nreturn spark.table("s")', {"s"}),
        ('dp.read("staging.orders").createGlobalTempView("s")\nreturn spark.table("global_temp.s")', {"global_temp.s"}),
        ('dp.read("staging.orders").createOrReplaceTempView(helper(1))\nreturn spark.range(1)', {"*"}),
    ],
)
def test_a_view_of_its_own_is_no_input(body: str, views: set[str], folder: Folder) -> None:
    spec = folder.define(body, "def helper(n):\n    return spark.range(n).columns[0]\n")
    assert spec.inputs == (ORDERS,)
    assert spec.local_views == views
    check_inputs([spec], {ORDERS})


def test_a_view_made_by_a_helper_counts_too(folder: Folder) -> None:
    helper = 'def register(rows):\n    rows.createOrReplaceTempView("s")\n'
    spec = folder.define('register(dp.read("staging.orders"))\nreturn spark.sql("FROM s SELECT id")', helper)
    assert spec.inputs == (ORDERS,)


def test_a_view_that_nobody_makes_is_still_unknown(folder: Folder) -> None:
    spec = folder.define('return spark.sql("SELECT * FROM s")')
    with pytest.raises(DefinitionError, match=r"reads main\.s, which is neither defined"):
        check_inputs([spec], {ORDERS})


def test_a_view_must_not_have_the_name_of_a_dataset(folder: Folder) -> None:
    """Every other definition that reads the dataset would read the view."""
    folder.write("transformations/b.sql", "CREATE MATERIALIZED VIEW s AS SELECT 1 AS a")
    with pytest.raises(
        DefinitionError, match=r"main\.orders makes a temporary view with the name of the dataset main\.s"
    ):
        folder.define('dp.read("staging.orders").createOrReplaceTempView("s")\nreturn spark.table("s")')


READ = 'dp.read("staging.orders")'


@pytest.mark.parametrize(
    ("body", "extra", "views"),
    [
        (
            'spark.sql("CREATE OR REPLACE TEMP VIEW zz AS SELECT id FROM staging.orders")\nreturn spark.table("zz")',
            "",
            {"zz"},
        ),
        (
            (
                'spark.sql("create global temporary view `Zz` as SELECT id FROM staging.orders")\n'
                'return spark.sql("SELECT * FROM global_temp.zz")'
            ),
            "",
            {"global_temp.zz"},
        ),
        (
            (
                f'for name, rows in {{"zz": {READ}}}.items():\n    rows.createOrReplaceTempView(name)\n'
                'return spark.sql("SELECT * FROM zz")'
            ),
            "",
            {"*"},
        ),
        (f'make = {READ}.createOrReplaceTempView\nmake("zz")\nreturn spark.table("zz")', "", {"*"}),
        (f'getattr({READ}, "createTempView")("zz")\nreturn spark.table("zz")', "", {"*"}),
        (
            f'Maker("zz").make({READ})\nreturn spark.table("zz")',
            (
                "class Maker:\n    def __init__(self, name):\n        self.name = name\n"
                "    def make(self, rows):\n        rows.createOrReplaceTempView(self.name)\n"
            ),
            {"*"},
        ),
    ],
)
def test_views_that_are_made_in_other_ways(body: str, extra: str, views: set[str], folder: Folder) -> None:
    spec = folder.define(body, extra)
    assert spec.inputs == (ORDERS,)
    assert spec.local_views == views
    check_inputs([spec], {ORDERS})
