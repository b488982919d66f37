"""Keys erased from source files: exactly their records go, the rest stays byte for byte, and nothing is loaded again."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.kinds.registry import KINDS
from tests.kinds.constants import ConstantsKind
from tests.projects import ProjectFolder
from tests.spark.flow_projects import debezium, run, write_feed
from tests.spark.source_erasure import asides_below, erase, key_of, plan_of, text_of

pytestmark = pytest.mark.spark

FLOWS = """
from penstock import pipelines as dp

def flow(name, keys=("id",), scd=1, **source):
    dp.create_streaming_table(name)
    dp.create_auto_cdc_flow(
        target=name,
        source=dp.change_files(f"feeds/{source.pop('folder', name)}", **source),
        keys=list(keys),
        sequence_by=source.get("envelope") and "_change.ts_ms" or "ts",
        stored_as_scd_type=scd,
        except_column_list=None if source.get("envelope") else ["ts"],
    )

flow("plain", scd=2, schema="id int, city string, ts int")
flow("again", folder="plain", schema="id int, city string, ts int")
flow("typed", keys=("who",), format="csv", schema="who string, at timestamp, part date, city string, ts int")
flow("debezium", envelope="debezium")
"""


@pytest.mark.deep
def test_every_source_of_a_project(empty_project: ProjectFolder, spark: Any) -> None:
    project = empty_project
    project.define("flows.py", FLOWS)
    project.define("count.sql", "CREATE MATERIALIZED VIEW people_count AS SELECT count(*) AS n FROM staging.people")
    raw = project.raw("people", "1", {"id": [1, 42, 3], "name": ["a", "b", "c"]})
    other = project.raw("people", "2", {"id": ["7", "8"], "name": ["d", "e"]})
    third = project.raw("people", "3", {"id": ["42", "9"], "name": ["f", "g"]})
    project.raw("elsewhere", "1", {"id": [42]})
    write_feed(project, "plain", "1", {"id": 42, "city": "Rome", "ts": 5}, {"id": 1, "city": "Oslo", "ts": 1})
    write_feed(project, "plain", "2", {"id": 42, "city": "Rome", "ts": 7}, {"id": 1, "city": "Oslo", "ts": 4})
    write_feed(project, "plain", "3", {"id": 2, "city": "Bern", "ts": 3})
    csv = project.root / "feeds/typed/1.csv.gz"
    csv.parent.mkdir(parents=True)
    lines = [
        "who,at,part,city,ts",
        'a,2024-01-05T10:00:00Z,2024-01-05,"Ro\\"me",1',
        "b,2024-01-05T11:00:00+01:00,2024-01-05,x,1",
        "c,2024-01-05T10:00:00Z,,y,1",
    ]
    csv.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    row, other_row = {"id": 42, "city": "Rome"}, {"id": 1, "city": "Oslo"}
    write_feed(
        project,
        "debezium",
        "1",
        debezium("c", 1, None, row),
        debezium("u", 2, row, other_row),
        debezium("c", 3, None, other_row),
        {"key": {"id": 42}, **debezium("d", 4, {"id": 1, "city": "Oslo"})},
        debezium("t", 5),
    )
    run(project)
    write_feed(project, "plain", "4", {"id": 42, "city": "Late", "ts": 1})
    assert plan_of(project)["main.plain"][0] == "apply"

    untouched = {path: path.stat() for path in (other, project.root / "feeds/plain/3.json")}
    key = key_of("id")
    counted = erase(spark, project, "staging.people", key, text_of(42), dry=True)
    assert [(c.searched, c.rewritten, c.removed, c.bytes_after) for c in counted] == [(3, 2, 2, None)]
    (done,) = erase(spark, project, "staging.people", key, text_of(42))
    assert (done.searched, done.rewritten, done.removed) == (3, 2, 2)
    assert pq.read_table(raw).to_pylist() == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]
    assert pq.read_table(third).to_pylist() == [{"id": "9", "name": "g"}]
    assert pq.read_table(project.root / "raw/elsewhere/1.parquet").num_rows == 1
    feed, _ = erase(spark, project, "again", key, text_of(42))
    assert (feed.searched, feed.rewritten, feed.removed) == (4, 3, 3)
    feed, segments = erase(spark, project, "plain", key, text_of(42))
    assert feed.rewritten == 0
    assert segments.removed >= 1
    assert (project.root / "feeds/plain/1.json").read_text() == '{"id": 1, "city": "Oslo", "ts": 1}\n'
    assert (project.root / "feeds/plain/4.json").read_text() == ""
    when = text_of("1704448800000000us", "2024-01-05")
    done = erase(spark, project, "typed", key_of("at", "part"), when)[0]
    assert (done.rewritten, done.removed) == (1, 2)
    assert gzip.decompress(csv.read_bytes()).decode() == f"{lines[0]}\n{lines[3]}\n"
    done = erase(spark, project, "debezium", key, text_of(42))[0]
    assert (done.rewritten, done.removed) == (1, 3)
    left = [json.loads(line)["op"] for line in (project.root / "feeds/debezium/1.json").read_text().splitlines()]
    assert left == ["c", "t"]
    for path, before in untouched.items():
        assert path.stat() == before
    plan = plan_of(project)
    assert {action for action, _ in plan.values()} == {"none"}, plan
    assert not asides_below(project.root)
    for table in ("staging.people", "plain"):
        again = erase(spark, project, table, key, text_of(42))
        assert {done.rewritten for done in again} == {0}, table


def test_copies_of_a_kind_from_outside(empty_project: ProjectFolder, spark: Any) -> None:
    """The kind only says where the copies are, how they are read, and what columns are called there."""
    for folder, name, text in (
        ("constants", "numbers", '{"small": [42, 2]}'),
        ("copies", "numbers", '{"v": 42, "p": "small"}\n{"v": 2, "p": "42"}\n'),
        ("copies", "others", '{"v": 42}\n'),
    ):
        (empty_project.root / folder).mkdir(exist_ok=True)
        (empty_project.root / folder / f"{name}.json").write_text(text)
    kinds = (*KINDS, ConstantsKind())
    table = empty_project.root / "copies/numbers.csv"
    table.write_text("part,value\nsmall,42\n42,2\n")
    found = erase(spark, empty_project, "numbers", key_of("value"), text_of(42), kinds=kinds)
    assert [(done.searched, done.rewritten, done.removed) for done in found] == [(1, 1, 1)] * 2
    assert (empty_project.root / "copies/numbers.json").read_text() == '{"v": 2, "p": "42"}\n'
    assert table.read_text() == "part,value\n42,2\n"
    assert (empty_project.root / "copies/others.json").read_text() == '{"v": 42}\n'
