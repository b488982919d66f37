"""AutoCDC in a pipeline: change files, envelopes, datasets and snapshots flow into streaming tables by `penstock run`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import open_engine
from penstock.kinds.cdc import load as flow_load
from penstock.model.plan import Action
from penstock.model.results import Outcome
from tests.projects import ProjectFolder
from tests.spark.flow_projects import ONE_FLOW, debezium, event, problem_of, rows, run, write_feed
from tests.spark.tables import forget_tables, read_table

pytestmark = pytest.mark.spark

DEFINITIONS = """
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
)

dp.create_streaming_table("accounts")
dp.create_auto_cdc_flow(
    target="accounts",
    source=dp.change_files("feeds/accounts", envelope="debezium"),
    keys=["id"],
    sequence_by="_change.ts_ms",
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
)

dp.create_streaming_table("prices")
dp.create_auto_cdc_from_snapshot_flow(
    target="prices", source="staging.prices_now", keys=["sku"], stored_as_scd_type=2
)


@dp.materialized_view
def cities():
    return dp.spark.sql("SELECT city, count(*) AS rows FROM customers GROUP BY city")


@dp.materialized_view(table_properties={"delta.enableChangeDataFeed": "true"})
def latest():
    return dp.spark.sql("SELECT id, city FROM customers WHERE __END_AT IS NULL")


dp.create_streaming_table("latest_history")
dp.create_auto_cdc_flow(
    target="latest_history", source="latest", keys=["id"], sequence_by="_commit_version", stored_as_scd_type=2
)


@dp.materialized_view
def everything():
    return dp.read("people")
"""


@pytest.fixture
def project(tmp_path: Path, spark: object) -> Iterator[ProjectFolder]:
    folder = ProjectFolder(tmp_path / "shop").configure()
    folder.define("feeds.py", DEFINITIONS)
    yield folder
    forget_tables(spark)


def test_flows_of_a_pipeline(project: ProjectFolder, spark: Any) -> None:
    """Late events, envelopes, new rows of a dataset and snapshots; a second run has nothing to do."""
    write_feed(project, "customers", "1", event("INSERT", 1, id=1, city="Rome"), event("UPDATE", 5, id=1, city="Oslo"))
    write_feed(project, "accounts", "1", debezium("c", 1, after={"id": 1, "balance": 10, "note": "long"}))
    project.raw("people_feed", "1", {"id": [1, 2], "name": ["Ann", "Bob"], "op": ["INSERT", "INSERT"], "ts": [1, 1]})
    project.raw("prices_now", "1", {"sku": ["a", "b"], "price": [1, 2]})
    first = run(project)
    assert {name for name, done in first.items() if done.outcome is Outcome.PASS} >= {"main.customers", "main.prices"}
    assert rows(spark, project, "customers", "id", "city", "__START_AT", "__END_AT") == [
        (1, "Oslo", 5, None),
        (1, "Rome", 1, 5),
    ]

    again = open_engine(project.root, environment={}).plan()
    assert {dataset.action for dataset in again.items} == {Action.NONE}

    write_feed(project, "customers", "2", event("UPDATE", 3, id=1, city="Bonn"), event("DELETE", 7, id=1, city=None))
    unavailable = "__debezium_unavailable_value"
    write_feed(
        project,
        "accounts",
        "2",
        debezium("u", 2, after={"id": 1, "balance": 20, "note": unavailable}),
        debezium("c", 3, after={"id": 2, "balance": 5, "note": "x"}),
        debezium("d", 4, before={"id": 2, "balance": 5, "note": "x"}),
    )
    project.raw("people_feed", "2", {"id": [1], "name": ["Anna"], "op": ["UPDATE"], "ts": [3]})
    project.raw("people_feed", "3", {"id": [1], "name": [None], "op": ["DELETE"], "ts": [2]})
    project.raw("prices_now", "1", {"sku": ["a", "c"], "price": [1, 3]})
    second = run(project)
    assert second["main.customers"].action is Action.APPLY
    assert rows(spark, project, "customers", "id", "city", "__START_AT", "__END_AT") == [
        (1, "Bonn", 3, 5),
        (1, "Oslo", 5, 7),
        (1, "Rome", 1, 3),
    ]
    assert rows(spark, project, "accounts", "id", "balance", "note") == [(1, 20, "long")]
    assert rows(spark, project, "people", "id", "name", "__START_AT", "__END_AT") == [
        (1, "Ann", 1, 2),
        (1, "Anna", 3, None),
        (2, "Bob", 1, None),
    ]
    prices = [
        (sku, price, end is None) for sku, price, end in rows(spark, project, "prices", "sku", "price", "__END_AT")
    ]
    assert prices == [("a", 1, True), ("b", 2, False), ("c", 3, True)]

    history = rows(spark, project, "latest_history", "id", "city", "__START_AT", "__END_AT")
    assert history == [(1, "Oslo", 0, 1)], "what a table's change feed says, by the versions of that table"

    columns = read_table(spark, project.root / "storage/main/everything").column_names
    assert columns == ["id", "name", "__START_AT", "__END_AT"], "what is stored beside the rows is not shown"
    assert rows(spark, project, "cities", "city", "rows") == [("Bonn", 1), ("Oslo", 1), ("Rome", 1)]


def test_a_full_refresh_builds_the_table_anew_by_one_commit(project: ProjectFolder, spark: Any) -> None:
    """A target that somebody else wrote to is mended by it; the files that were read stay read."""
    project.define("feeds.py", ONE_FLOW)
    write_feed(project, "customers", "1", {"id": 1, "city": "Rome", "ts": 1}, {"id": 1, "city": "Rome", "ts": 2})
    write_feed(project, "customers", "2", {"id": 1, "city": "Oslo", "ts": 5}, {"id": 2, "city": "Bonn", "ts": 5})
    run(project)
    columns = ("id", "city", "__START_AT", "__END_AT")
    before = rows(spark, project, "customers", *columns)
    path = str(project.root / "storage/main/customers")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    assert problem_of(project).code == "foreign_write"
    versions = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").count()

    done = run(project, full_refresh="customers")["main.customers"]
    assert (done.action, done.load.rows) == (Action.REBUILD, 3)
    assert rows(spark, project, "customers", *columns) == before
    assert spark.sql(f"DESCRIBE HISTORY delta.`{path}`").count() == versions + 1
    assert open_engine(project.root, environment={}).plan().has_work is False

    write_feed(project, "customers", "3", {"id": 1, "city": "Bari", "ts": 1})
    run(project)
    assert rows(spark, project, "customers", *columns)[:2] == [(1, "Oslo", 5, None), (1, "Rome", 1, 5)]


SNAPSHOTS = """
from pathlib import Path
from penstock import pipelines as dp

def next_prices(version):
    dp.spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION of_snapshots() RETURNS INT RETURN 1")
    after = 0 if version is None else version
    waiting = sorted(int(file.stem) for file in Path("SNAPSHOTS").glob("*.json"))
    later = [number for number in waiting if number > after]
    return (dp.spark.read.json(f"SNAPSHOTS/{later[0]}.json"), later[0]) if later else None

dp.create_streaming_table("prices")
dp.create_auto_cdc_from_snapshot_flow(target="prices", source=next_prices, keys=["sku"], stored_as_scd_type=2)
"""


def test_a_function_gives_one_snapshot_after_the_other(project: ProjectFolder, spark: Any) -> None:
    folder = project.root / "snapshots"
    folder.mkdir(parents=True)

    def give(version: int, **prices: int) -> None:
        lines = [json.dumps({"sku": sku, "price": price}) for sku, price in prices.items()]
        (folder / f"{version}.json").write_text("\n".join(lines))

    project.define("feeds.py", SNAPSHOTS.replace("SNAPSHOTS", str(folder)))
    give(1, a=1, b=2)
    give(2, a=1, b=3)
    run(project)
    columns = ("sku", "price", "__START_AT", "__END_AT")
    assert rows(spark, project, "prices", *columns) == [("a", 1, 1, None), ("b", 2, 1, 2), ("b", 3, 2, None)]
    again = run(project)["main.prices"]
    assert again.load.rows == 0
    assert "of_snapshots" not in {row[0] for row in spark.sql("SHOW USER FUNCTIONS").collect()}

    give(5, a=1)
    run(project)
    assert rows(spark, project, "prices", *columns) == [("a", 1, 1, None), ("b", 2, 1, 2), ("b", 3, 2, 5)]
    everything = rows(spark, project, "prices", *columns)
    run(project, full_refresh="prices", allow_history_loss="prices")
    assert rows(spark, project, "prices", *columns) == everything

    (folder / "7.json").write_text('{"sku": "a", "price": "007"}')
    assert problem_of(project).code == "change_flow.type_drift", "a text is not made a number on the way"
    assert rows(spark, project, "prices", *columns) == everything


def test_what_reads_a_table_that_has_no_snapshot_yet_waits(project: ProjectFolder) -> None:
    project.define("feeds.py", SNAPSHOTS.replace("SNAPSHOTS", str(project.root / "nothing")))
    project.define("v.sql", "CREATE MATERIALIZED VIEW v AS SELECT * FROM prices;")
    done = run(project)
    assert {str(name): result.outcome for name, result in done.items()} == {
        "main.prices": Outcome.SKIP,
        "main.v": Outcome.SKIP,
    }


TWO_FLOWS = (
    ONE_FLOW.replace("except_column_list", 'name="one", except_column_list')
    + """
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files("feeds/others", schema="id int, city string, ts int"),
    keys=["id"],
    sequence_by="ts",
    name="two",
    except_column_list=["ts"],
    stored_as_scd_type=2,
)
"""
)


@pytest.mark.deep
def test_a_table_of_two_flows_is_not_built_anew_when_one_of_them_cannot_be_read(
    project: ProjectFolder, spark: Any
) -> None:
    project.define("feeds.py", TWO_FLOWS)
    write_feed(project, "customers", "1", {"id": 1, "city": "Rome", "ts": 1})
    write_feed(project, "others", "1", {"id": 1, "city": "Oslo", "ts": 5}, {"id": 2, "city": "Bonn", "ts": 5})
    run(project)
    columns = ("id", "city", "__START_AT", "__END_AT")
    assert rows(spark, project, "customers", *columns) == [
        (1, "Oslo", 5, None),
        (1, "Rome", 1, 5),
        (2, "Bonn", 5, None),
    ], "one order over all flows"
    write_feed(project, "others", "0", {"id": 1, "city": "Bari", "ts": 3})
    run(project)
    before = rows(spark, project, "customers", *columns)
    assert before[0] == (1, "Bari", 3, 5)
    assert before[2] == (1, "Rome", 1, 3)
    run(project, full_refresh="customers")
    assert rows(spark, project, "customers", *columns) == before
    write_feed(project, "others", "2", {"id": None, "city": "Nice", "ts": 7})
    engine = open_engine(project.root, environment={})
    (result,) = engine.run(engine.request(full_refresh="customers")).items
    assert result.problem is not None
    assert result.problem.code == "change_flow.bad_rows"
    assert rows(spark, project, "customers", *columns) == before


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return dp.spark.range(1)", "not a DataFrame and its version"),
        ("return dp.spark.range(1), 1.5", "a version of type float"),
        ("return dp.spark.range(1), 1", "after version 1 and returned version 1"),
        (
            "return dp.spark.range(1).withColumnRenamed('id', 'x'), 1",
            "keys names the column 'id'",
        ),
        ("return dp.spark.readStream.format('rate').load(), 1", "a snapshot cannot be a stream"),
        ("return dp.read('x'), 1", "does not work in a snapshot function"),
        ("raise KeyError('lost')", "KeyError"),
        (
            "return dp.spark.range(1).selectExpr('id', 'cast(concat(\"a\", id) as int) AS x'), 1",
            "ask failed: [CAST_INVALID_INPUT] while computing rows",
        ),
    ],
)
def test_a_snapshot_function_that_goes_wrong_is_told_so(project: ProjectFolder, body: str, words: str) -> None:
    project.define(
        "feeds.py",
        "from penstock import pipelines as dp\n\n"
        f"def ask(version):\n    {body}\n\n"
        'dp.create_streaming_table("t")\n'
        'dp.create_auto_cdc_from_snapshot_flow(target="t", source=ask, keys=["id"])\n',
    )
    problem = problem_of(project)
    assert words in f"{problem.message} {problem.hint}"
    assert problem.location.file == "transformations/feeds.py"


OPTIONS = """
from penstock import pipelines as dp

dp.create_streaming_table("places")
dp.create_auto_cdc_flow(
    target="places",
    source=dp.change_files("feeds/places"),
    keys=["id"],
    sequence_by="ts",
    apply_as_deletes="op = 'D'",
    apply_as_truncates="op = 'T'",
    column_list=["id", "city", "note"],
    ignore_null_updates=True,
    ignore_null_updates_except_column_list=["note"],
    stored_as_scd_type="2",
    quarantine=True,
)
dp.create_streaming_table("events")
dp.create_auto_cdc_flow(
    target="events", source=dp.change_files("feeds/events", envelope="events"), keys=["id"], sequence_by="_change.ts"
)
"""


@pytest.mark.deep
def test_every_option_means_in_a_definition_what_it_means_in_python(project: ProjectFolder, spark: Any) -> None:
    project.define("feeds.py", OPTIONS)
    write_feed(
        project,
        "places",
        "1",
        {"id": 1, "ts": 1, "op": None, "city": "Rome", "note": "a"},
        {"id": 1, "ts": 2, "op": None, "city": None, "note": None, "unused": 1},
        {"id": 2, "ts": 1, "op": "D", "city": None},
        {"id": 3, "ts": 1, "op": None, "city": "Bonn"},
        {"id": None, "ts": 1, "op": None, "city": "lost"},
    )
    write_feed(project, "events", "1", event("INSERT", 1, id=1, city="Rome"), event("INSERT", 1, id=2, city="Oslo"))
    done = run(project)
    assert done["main.places"].load.quarantined == 1
    columns = ("id", "city", "note", "__START_AT", "__END_AT")
    assert rows(spark, project, "places", *columns) == [
        (1, "Rome", "a", 1, 2),
        (1, "Rome", None, 2, None),
        (3, "Bonn", None, 1, None),
    ]
    write_feed(
        project, "places", "2", {"id": None, "ts": 4, "op": "T"}, {"id": 2, "ts": 0, "op": None, "city": "early"}
    )
    write_feed(project, "events", "2", {"operation": "TRUNCATE", "data": None, "ts": 5})
    run(project)
    assert rows(spark, project, "places", *columns) == [
        (1, "Rome", "a", 1, 2),
        (1, "Rome", None, 2, 4),
        (2, "early", None, 0, 1),
        (3, "Bonn", None, 1, 4),
    ]
    assert rows(spark, project, "events", "id") == []
    write_feed(project, "events", "3", event("INSERT", 4, id=3, city="late"), event("MERGE", 9, id=4, city="?"))
    engine = open_engine(project.root, environment={})
    (problem,) = (result.problem for result in engine.run().items if result.problem)
    assert "1 with an unknown operation" in problem.message


def test_a_project_that_was_copied_or_moved_knows_the_change_files_that_it_has_read(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that an older version read, once something was read since."""
    project.define("feeds.py", ONE_FLOW)
    write_feed(project, "customers", "1", {"id": 1, "city": "Rome", "ts": 1})
    with monkeypatch.context() as older:
        older.setattr(flow_load, "to_kept", lambda _, path: path)  # full paths
        run(project)
    assert open_engine(project.root, environment={}).plan().has_work is False
    write_feed(project, "customers", "2", {"id": 2, "city": "Oslo", "ts": 1})
    run(project)  # keeps the paths of all files anew
    shutil.copytree(project.root, tmp_path / "copy", symlinks=True)
    for root in (tmp_path / "copy", project.root.rename(tmp_path / "moved")):
        engine = open_engine(root, environment={})
        assert engine.plan().has_work is False
        (item,) = engine.plan(engine.request(full_refresh="customers")).items
        assert (item.action, item.problem) == (Action.REBUILD, None), "no change file is missing"


WRONG = {
    "agg": ('sequence_by="max(ts)"', "sequence_by has an aggregate function"),
    "rows": (
        'sequence_by="ts", apply_as_deletes="explode(array(true, false))"',
        "apply_as_deletes has a function that makes several rows",
    ),
    "star": ('sequence_by="*"', "sequence_by has a star"),
    "value": (
        'sequence_by="cast(op as int)", apply_as_deletes="false"',
        "sequence_by, apply_as_deletes or the source itself fails for some rows (CAST_INVALID_INPUT)",
    ),
}


def test_an_expression_that_gives_no_value_for_a_row_names_its_option(project: ProjectFolder) -> None:
    source = 'source=dp.change_files("feeds/t"), keys=["id"]'
    flows = [
        f'dp.create_streaming_table("{name}")\ndp.create_auto_cdc_flow(target="{name}", {source}, {options})\n'
        for name, (options, _) in WRONG.items()
    ]
    project.define("feeds.py", "from penstock import pipelines as dp\n" + "".join(flows))
    write_feed(project, "t", "1", {"id": 1, "ts": 1, "op": "a person"})
    results = open_engine(project.root, environment={}).run().items
    for line, (name, (_, words)) in enumerate(WRONG.items()):
        (problem,) = (each.problem for each in results if each.id == f"main.{name}")
        assert problem is not None
        assert problem.location is not None
        assert (problem.code, problem.location.line) == ("change_flow.expression", 2 * line + 3)
        assert words in problem.message
        assert "a person" not in f"{problem.message}{problem.hint}"
