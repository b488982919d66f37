"""`penstock plan --analyze`: what a CI job runs before a merge. Every broken definition fails it, and it writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import Penstock, penstock  # noqa: F401 - a fixture
from tests.projects import MORE_ORDERS, ProjectFolder
from tests.spark.tables import forget_names

pytestmark = pytest.mark.spark

HEAD = "import sys\nfrom penstock import pipelines as dp\nfrom penstock.pipelines import spark\n\n"

GOOD = {
    "big_twice.sql": "CREATE MATERIALIZED VIEW big_twice AS SELECT customer, `count` * 2 AS n FROM big_count",
    "first.py": HEAD + "@dp.table\ndef first_total():\n    print('noise')\n"
    "    return spark.range(int(dp.read('totals').first().total))\n",
    "own.py": HEAD + "@dp.table\ndef own():\n    dp.read('totals').createOrReplaceTempView('mine')\n"
    "    return spark.sql('SELECT total FROM mine')\n",
    "history.py": HEAD + "dp.create_streaming_table('history')\ndp.create_auto_cdc_flow(target='history', "
    "source='staging.orders', keys=['id'], sequence_by='amount', stored_as_scd_type=2)\n",
    "current.sql": "CREATE MATERIALIZED VIEW current AS SELECT id, customer FROM history WHERE __END_AT IS NULL",
}
BROKEN = {
    "no_column.sql": "CREATE MATERIALIZED VIEW no_column AS\nSELECT id,\n  nope FROM staging.orders",
    "no_column_below.sql": "CREATE MATERIALIZED VIEW no_column_below AS SELECT upper(orders) AS u FROM totals WHERE sum > 1",
    "no_function.sql": "CREATE MATERIALIZED VIEW no_function AS SELECT nofunc(id) AS n FROM staging.orders",
    "wrong_type.sql": "CREATE MATERIALIZED VIEW wrong_type AS SELECT amount + array(1) AS n FROM staging.orders",
    "twice.sql": "CREATE MATERIALIZED VIEW twice AS SELECT *, 1 AS ID FROM staging.orders",
    "exits.py": HEAD + "@dp.table\ndef exits():\n    sys.exit(3)\n",
    "frame.py": HEAD + "import pandas\n\n@dp.table\ndef frame():\n    return pandas.DataFrame({'a': [1]})\n",
    "typo.py": HEAD + "@dp.table\ndef typo():\n    return dp.read('totals').filter_('total > 1')\n",
    "gone.py": HEAD + "@dp.table\ndef gone():\n    return dp.read('totals').select('nope')\n",
    "layout.py": HEAD + "@dp.table(partition_cols=['nope'])\ndef layout():\n    return dp.read('totals')\n",
    "expects.py": HEAD + "@dp.table\n@dp.expect('x', 'nope > 1')\ndef expects():\n    return dp.read('totals')\n",
    "view.sql": "CREATE TEMPORARY VIEW clean AS SELECT nope FROM staging.orders",
    "through_view.sql": "CREATE MATERIALIZED VIEW through_view AS SELECT count(*) AS n FROM clean",
    "unread_view.sql": "CREATE TEMPORARY VIEW unread_view AS SELECT nope FROM totals",
    "stream.py": HEAD + "dp.create_streaming_table('stream')\ndp.create_auto_cdc_flow(target='stream', "
    "source='staging.orders', keys=['nope'], sequence_by='amount')\n",
    "sequence.py": HEAD + "dp.create_streaming_table('sequence')\ndp.create_auto_cdc_flow(target='sequence', "
    "source='staging.orders', keys=['id'], sequence_by='nope')\n",
}
LOCATIONS = {
    "main.no_column": "transformations/no_column.sql:3:3",
    "main.typo": "transformations/typo.py:7",
    "main.exits": "transformations/exits.py:7",
    "main.through_view": "transformations/view.sql:1:39",
}


def files_of(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and ".penstock" not in path.parts}


@pytest.mark.usefixtures("spark")
def test_every_broken_definition_fails_a_plan_that_analyzes(shop: ProjectFolder, penstock: Penstock) -> None:  # noqa: F811
    """Before anything is built, then on tables that exist: also while an input gets other columns."""
    arguments = ("plan", "--analyze", "--detailed-exitcode", "--json", "-C", str(shop.root))
    for name, text in GOOD.items():
        shop.define(name, text)
    before = files_of(shop.root)
    good = penstock(*arguments)
    assert (good.code, [d for d in good.json["datasets"] if "problem" in d]) == (2, [])
    assert [text.partition(":")[0] for text in good.json["warnings"]] == ["main.first_total was not analyzed"]
    assert "noise" not in good.out
    assert not (shop.root / "storage").exists()
    for name, text in BROKEN.items():
        shop.define(name, text)
    shop.define("reader.sql", "CREATE MATERIALIZED VIEW reader AS SELECT id FROM no_column")
    found = penstock(*arguments)
    problems = {d["dataset"]: d["problem"] for d in found.json["datasets"] if "problem" in d}
    broken = {f"main.{name.partition('.')[0]}" for name in BROKEN} - {"main.view"}
    assert (found.code, set(problems)) == (1, broken)
    assert {problem["code"] for problem in problems.values()} == {
        "user_code",
        "column_unknown",  # needs no Spark
        "column_twice",
        "change_flow.unknown_column",
        "change_flow.expression",
    }
    located = {name: problems[name]["location"] for name in LOCATIONS}
    assert located == LOCATIONS
    codes = {d["dataset"]: [r["code"] for r in d["reasons"]] for d in found.json["datasets"]}
    assert codes["main.reader"] == ["upstream_error"]
    assert files_of(shop.root) == before | {f"transformations/{name}" for name in (*BROKEN, "reader.sql")}


def test_definitions_of_tables_that_exist_are_analyzed_too(
    shop: ProjectFolder,
    spark: object,
    penstock: Penstock,  # noqa: F811
) -> None:
    """A definition that nothing would run is still checked; an input that gets a column has it."""
    arguments = ("plan", "--analyze", "--detailed-exitcode", "--json", "-C", str(shop.root))
    assert penstock("run", "-q", "-C", str(shop.root)).code == 0
    assert penstock(*arguments).code == 0
    shop.raw("orders", "0002", {**MORE_ORDERS, "note": ["x", "y"]})
    shop.define("noted.sql", "CREATE MATERIALIZED VIEW noted AS SELECT note FROM staging.orders")
    shop.define("unnoted.sql", "CREATE MATERIALIZED VIEW unnoted AS SELECT notes FROM staging.orders")
    shared = penstock(*arguments)  # the session has the table as it is, which no view may hide
    assert (shared.code, len(shared.json["warnings"])) == (1, 2)
    forget_names(spark)  # as in a process of its own
    found = penstock(*arguments)
    assert (found.code, [d["dataset"] for d in found.json["datasets"] if "problem" in d]) == (1, ["main.unnoted"])
