"""Change files of every format: each is read by its own columns, and columns go by their names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import open_engine
from tests.projects import ProjectFolder
from tests.spark.flow_projects import ONE_FLOW, problem_of, rows, run, write_feed
from tests.spark.tables import read_table

pytestmark = pytest.mark.spark

FORMATS = """
from penstock import pipelines as dp

def flow(name, **source):
    dp.create_streaming_table(name)
    dp.create_auto_cdc_flow(
        target=name, source=dp.change_files(f"feeds/{name}", **source), keys=["id"], sequence_by="ts", except_column_list=["ts"]
    )

flow("csv", format="csv")
flow("typed_csv", format="csv", schema="id int, ts int, city string, n int")
flow("parquet", format="parquet")
flow("json")
"""


def write_text(project: ProjectFolder, path: str, text: str) -> None:
    file = project.root / "feeds" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def write_parquet(project: ProjectFolder, path: str, **columns: pa.Array) -> None:
    file = project.root / "feeds" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)


def test_files_of_one_run_may_have_other_columns_each(empty_project: ProjectFolder, spark: Any) -> None:
    """In another order, with another type, with one more: columns go by their names, in every format."""
    empty_project.define("feeds.py", FORMATS)
    for feed in ("csv", "typed_csv"):
        write_text(empty_project, f"{feed}/1.csv", "id,ts,city\n1,1,Rome\n")
        write_text(empty_project, f"{feed}/2.csv", "city,n,ts,id,unknown\nOslo,7,1,2,?\n")
        write_text(empty_project, f"{feed}/3.csv", "")
    int32, int64 = pa.int32(), pa.int64()
    write_parquet(empty_project, "parquet/1.parquet", id=pa.array([1], int32), ts=pa.array([1], int32))
    write_parquet(
        empty_project,
        "parquet/2.parquet",
        city=pa.array(["Oslo"]),
        ts=pa.array([2**40], int64),
        id=pa.array([2], int32),
    )
    write_text(empty_project, "json/1.json", '{"id": 1, "ts": 1, "price": 9.5, "tags": [1], "empty": null}\n')
    run(empty_project)
    assert rows(spark, empty_project, "csv", "id", "city", "n", "unknown") == [
        ("1", "Rome", None, None),
        ("2", "Oslo", "7", "?"),
    ]
    assert rows(spark, empty_project, "typed_csv", "id", "city", "n") == [(1, "Rome", None), (2, "Oslo", 7)]
    assert rows(spark, empty_project, "parquet", "id", "city") == [(1, None), (2, "Oslo")]
    found = read_table(spark, empty_project.root / "storage/main/json").column_names
    assert found == ["id", "price", "tags", "__penstock"], "nobody knows yet what kind of thing `empty` is"

    write_text(
        empty_project, "json/2.json", '{"id": 1, "ts": 2, "price": 10, "tags": []}\n{"id": 2, "ts": 2, "price": null}\n'
    )
    write_text(empty_project, "json/3.json", "")
    run(empty_project, select=["json"])
    write_text(empty_project, "json/4.json", '{"id": 3, "ts": 3, "price": null, "empty": 4}\n')
    run(empty_project, select=["json"])
    assert rows(spark, empty_project, "json", "id", "price", "tags", "empty") == [
        (1, 10.0, [], None),
        (2, None, None, None),
        (3, None, None, 4),
    ]
    assert not open_engine(empty_project.root, environment={}).plan().has_work, "an empty file is nothing to do"


def test_files_that_cannot_be_brought_together_are_told(empty_project: ProjectFolder) -> None:
    empty_project.define(
        "feeds.py",
        FORMATS.replace('flow("json")', "")
        .replace('flow("csv"', '# flow("csv"')
        .replace('flow("typed', '# flow("typed'),
    )
    write_parquet(empty_project, "parquet/1.parquet", id=pa.array([1]), ts=pa.array([1]), v=pa.array(["007"]))
    write_parquet(empty_project, "parquet/2.parquet", id=pa.array([1]), ts=pa.array([2]), v=pa.array([7]))
    problem = problem_of(empty_project)
    assert "the column v as bigint and as string" in problem.message
    write_text(empty_project, "parquet/2.parquet", "no Parquet")
    assert "feeds/parquet/2.parquet" in problem_of(empty_project).message
    assert not (empty_project.root / "storage/main/parquet").exists()


@pytest.mark.parametrize(
    ("schema", "line", "words"),
    [
        ("id int, city string, ts int", '{"id": 1, "ci', "feeds/customers/2.json"),
        ("id itn, city string, ts int", '{"id": 1}', "UNSUPPORTED_DATATYPE"),
    ],
    ids=["half a line", "a schema that is none"],
)
def test_change_files_that_cannot_be_read(empty_project: ProjectFolder, schema: str, line: str, words: str) -> None:
    empty_project.define("feeds.py", ONE_FLOW.replace("id int, city string, ts int", schema))
    write_feed(empty_project, "customers", "1", {"id": 1, "city": "Rome", "ts": 1})
    (empty_project.root / "feeds/customers/2.json").write_text(line)
    problem = problem_of(empty_project)
    assert (problem.code, str(problem.location)) == ("change_feed", "transformations/feeds.py:5")
    assert words in problem.message
    assert problem.hint
    assert not (empty_project.root / "storage/main/customers").exists()


def test_a_folder_of_change_files_that_is_not_there_is_said(empty_project: ProjectFolder) -> None:
    empty_project.define("feeds.py", ONE_FLOW)
    plan = open_engine(empty_project.root, environment={}).plan()
    assert not plan.has_work
    assert [
        f"feeds.py:5: the flow customers reads {empty_project.root}/feeds/customers" in text for text in plan.warnings
    ]
