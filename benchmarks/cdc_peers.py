"""What Spark 4.3, dbt, SQLMesh and dlt make of the same small change feeds, beside what the AutoCDC contract says.

    python benchmarks/cdc_peers.py [--cache DIR] [--json FILE] [--markdown] [--only TEXT]

Each tool but Spark gets a virtual environment of its own with the versions of `drift_peers`. Batch after batch, a file of
events is put beside the files before it and the tool runs, as its documentation tells users to. Its table is read with
DuckDB, its times are turned back into sequences, and the words are derived from the rows. Needs pyarrow, uv and Java.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_feeds import (
    UNPLACED,
    Clock,
    Feed,
    Row,
    all_feeds,
    compare,
    differences,
    show_event,
    sort_rows,
    wall_clock,
    weekly_clock,
    write_batch,
)
from cdc_spark43 import changes_of, read_history, run_feed
from drift_peers import DBT, DLT, RUN_SECONDS, SQLMESH, SQLMESH_CONFIG, call, install, sealed_environment
from spark43_handler import Spark43Scd2, fetch_jar, open_spark43_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = "Spark 4.3 handler"
NOT_HAD = "not tried: PySpark 4.3 could not be downloaded"

# A change feed has to become a table of current rows first: of each key the event with the greatest sequence, a delete
# before an upsert. Where deletes are kept, they stay as rows with a flag, and who reads the history leaves them out.
STATE = """\
select id, ts, op, name, city from (
  select *, row_number() over (partition by id order by ts desc, op) as place from read_parquet('{raw}/*.parquet')
) where place = 1"""
LIVING = f"{STATE} and op <> 'delete'"

DBT_PROJECT = 'name: feeds\nversion: "1.0"\nprofile: feeds\nmodel-paths: [models]\nsnapshot-paths: [snapshots]\n'
DBT_PROFILE = "feeds: {target: local, outputs: {local: {type: duckdb, path: lake.duckdb, schema: raw, threads: 1}}}\n"
DBT_SNAPSHOT = "snapshots: [{name: items, relation: ref('state'), config: {unique_key: id, updated_at: ts, {rest}}}]\n"
DBT_TIMESTAMP = "strategy: timestamp, hard_deletes: invalidate"
DBT_CHECK = "strategy: check, check_cols: [{tracked}, op]"

SQLMESH_MODEL = "MODEL (name raw.items, kind {kind}, cron '@daily');\n{state}\n"
BY_TIME = """\
SCD_TYPE_2_BY_TIME (
  unique_key id, updated_at_name ts, updated_at_as_valid_from true, invalidate_hard_deletes true
)"""
BY_COLUMN = """\
SCD_TYPE_2_BY_COLUMN (
  unique_key id, columns [{tracked}, op], updated_at_name ts, execution_time_as_valid_from true
)"""

DLT_LOAD = """\
import dlt, duckdb

rows = duckdb.sql('''{query}''')
names = rows.columns
rows = [dict(zip(names, row)) for row in rows.fetchall()]
boundary = max(row.pop("ts") for row in rows)
for row in rows:
    row["version"] = repr([row["id"], *(row[name] for name in "{tracked}".split(", ")), row.get("op")])
merge = {"disposition": "merge", "strategy": "scd2", "row_version_column_name": "version"}
items = dlt.resource(rows, name="items", write_disposition=merge | {extra}, merge_key={key})
lake = dlt.destinations.duckdb("lake.duckdb")
pipeline = dlt.pipeline(pipeline_name="lake", destination=lake, dataset_name="raw", pipelines_dir="state")
print(pipeline.run(items))
"""
DLT_STATE = f"select id, ts, name, city from ({LIVING})"
DLT_BATCH = STATE.replace("{raw}/*.parquet", "{raw}/{number}.parquet")

READ_TABLE = """\
import duckdb, json, sys
start, end = sys.argv[1:]
lake = duckdb.connect("lake.duckdb", read_only=True)
columns = [row[0] for row in lake.execute("describe raw.items").fetchall()]
living = "where op <> 'delete'" if "op" in columns else ""
rows = lake.execute(f"select id, name, city, epoch_us({start}), epoch_us({end}) from raw.items {living}").fetchall()
print(json.dumps(rows))
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool in one documented set-up: its packages, its project files, its command, and its columns of validity."""

    name: str
    packages: tuple[str, ...]
    files: dict[str, str]
    command: tuple[str, ...]
    validity: tuple[str, str]
    is_told_the_time: bool = False
    """Whether the command says what time it is (`{time}`), so that the batches can be a week apart."""


@dataclass(frozen=True, slots=True)
class Window:
    """When a batch arrived and when its run was over."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a feed left behind: the rows, or how the tool ended before its last batch, and the end of what it printed."""

    rows: list[Row]
    failure: str
    output: str


def all_peers() -> list[Peer]:
    """Give the set-ups; `{raw}`, `{tracked}`, `{number}` and `{time}` are filled in for each feed and batch."""
    valid = ("valid_from", "valid_to")
    dbt = ("dbt", "--no-version-check", "--no-use-colors", "build", "--profiles-dir", ".")
    project = {"dbt_project.yml": DBT_PROJECT, "profiles.yml": DBT_PROFILE}
    plan = ("sqlmesh", "plan", "--auto-apply", "--no-prompts", "--run", "--execution-time", "{time}")
    peers = []
    for name, state, rest in (
        ("dbt timestamp", LIVING, DBT_TIMESTAMP),
        ("dbt check, deletes kept", STATE, DBT_CHECK),
    ):
        snapshot = DBT_SNAPSHOT.replace("{rest}", rest)
        files = {**project, "models/state.sql": state, "snapshots/items.yml": snapshot}
        peers.append(Peer(name, DBT, files, dbt, ("dbt_valid_from", "dbt_valid_to")))
    for name, query, extra, key in (
        ("dlt state", DLT_STATE, "{}", "None"),
        ("dlt batches, deletes kept", DLT_BATCH, '{"boundary_timestamp": boundary}', '"id"'),
    ):
        load = DLT_LOAD.replace("{query}", query).replace("{extra}", extra).replace("{key}", key)
        validity = ("_dlt_valid_from", "_dlt_valid_to")
        peers.append(Peer(name, DLT, {"load.py": load}, ("python", "load.py"), validity))
    for name, state, kind in (
        ("SQLMesh by time", LIVING, BY_TIME),
        ("SQLMesh by column, deletes kept", STATE, BY_COLUMN),
    ):
        model = SQLMESH_MODEL.replace("{kind}", kind).replace("{state}", state)
        files = {"config.yaml": SQLMESH_CONFIG, "models/items.sql": model}
        peers.append(Peer(name, SQLMESH, files, plan, valid, is_told_the_time=True))
    return peers


def place(stamp: datetime | None, clock: Clock, windows: list[Window]) -> int | str | None:
    """Turn a time back into the sequence of an event, or say in which run it was written."""
    if stamp is None:
        return None
    sequence = clock.sequence_of(stamp)
    if sequence is not None:
        return sequence
    return next((f"run {n}" for n, run in enumerate(windows, start=1) if run.begin <= stamp <= run.end), UNPLACED)


def write_project(peer: Peer, folder: Path, values: dict[str, str]) -> None:
    for name, content in peer.files.items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(fill(content, values))


def fill(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def read_rows(peer: Peer, project: Path, env: dict[str, str], clock: Clock, windows: list[Window]) -> list[Row]:
    python = str(Path(env["PATH"].partition(":")[0]) / "python")
    code, text = call([python, "-c", READ_TABLE, *peer.validity], project, env, RUN_SECONDS)
    if code != 0:
        raise SystemExit(f"{peer.name}: its table cannot be read\n{text}")
    found = []
    for identity, name, city, *times in json.loads(text):
        stamps = [None if t is None else datetime.fromtimestamp(t / 1e6, UTC).replace(tzinfo=None) for t in times]
        start, end = (place(stamp, clock, windows) for stamp in stamps)
        found.append(Row(identity, name, city, start, end))
    return sort_rows(found)


def try_feed(feed: Feed, peer: Peer, programs: Path) -> Outcome:
    """Give a new project the batches one by one, and run the tool after each."""
    with tempfile.TemporaryDirectory(prefix="feeds-") as scratch:
        raw, project, home = (Path(scratch) / name for name in ("raw", "project", "home"))
        for folder in (raw, project, home):
            folder.mkdir()
        env = sealed_environment(programs, home) | {"TZ": "UTC"}
        clock, windows = Clock(weekly_clock if peer.is_told_the_time else wall_clock), []
        output = ""
        for number, batch in enumerate(feed.batches, start=1):
            arrived = clock.arrive(number, batch)
            write_batch(batch, clock, raw / f"{number}.parquet")
            run_at = arrived + timedelta(days=1)
            values = {"raw": str(raw), "tracked": ", ".join(feed.tracked), "number": str(number)}
            write_project(peer, project, values)
            command = [fill(word, {"time": run_at.isoformat(" ")}) for word in peer.command]
            code, output = call([str(programs / command[0]), *command[1:]], project, env, RUN_SECONDS)
            windows.append(Window(arrived, run_at if peer.is_told_the_time else wall_clock(number)))
            if code != 0:
                return Outcome(
                    [], f"fails at batch {number}, {'time limit' if code is None else f'exit {code}'}", output
                )
        return Outcome(read_rows(peer, project, env, clock, windows), "", output[-1500:])


def try_spark(feed: Feed, session: SparkSession, number: int) -> Outcome:
    """Give Spark's own handler the batches."""
    with tempfile.TemporaryDirectory(prefix="feeds-") as scratch:
        clock = Clock(weekly_clock)
        handler = Spark43Scd2(session, f"feeds.feed{number}", changes_of(feed, 2))
        try:
            run_feed(handler, feed, clock, Path(scratch))
        except Exception as error:  # noqa: BLE001 - whatever py4j raises is what happened
            return Outcome([], f"fails, {type(error).__name__}", str(error)[:1500])
        return Outcome(sort_rows(read_history(handler, clock)), "", "")


@contextmanager
def optional_session(scratch: Path, cache: Path) -> Iterator[SparkSession | None]:
    """A session with Spark 4.3's handlers, or none where they cannot be had."""
    jar = fetch_jar(cache)
    if jar is None:
        yield None
        return
    with open_spark43_session(scratch, jar) as session:
        yield session


def try_everything(scratch: Path, cache: Path, only: str) -> Iterator[tuple[Feed, str, Outcome, list[str]]]:
    """Give each feed, the tool, what it left, and the versions it ran with; Spark first, in one session."""
    feeds = all_feeds()
    if any(only in f"{feed.name} / {SPARK}" for feed in feeds):
        with optional_session(scratch, cache) as session:
            for number, feed in enumerate(feeds, start=1):
                if only in f"{feed.name} / {SPARK}":
                    outcome = try_spark(feed, session, number) if session else Outcome([], NOT_HAD, "")
                    yield feed, SPARK, outcome, [f"spark=={session.version}"] if session else []
    for peer in all_peers():
        for feed in feeds:
            if only in f"{feed.name} / {peer.name}":
                programs = install(peer.packages, cache)
                outcome = try_feed(feed, peer, programs)
                yield feed, peer.name, outcome, (programs.parent / "installed.txt").read_text().split()


def in_words(feed: Feed, outcome: Outcome) -> tuple[str, str]:
    """Say what happened, from the facts alone: how near it is to the contract, and what differs."""
    if outcome.failure:
        return outcome.failure, ""
    expected = feed.contract_rows()
    return compare(outcome.rows, expected), "; ".join(differences(outcome.rows, expected))


def print_feeds(words: dict[str, dict[str, tuple[str, str]]], markdown: bool) -> None:
    """Print for each feed its batches, what the contract says, and what each tool made of it."""
    for feed in all_feeds():
        if feed.name not in words:
            continue
        batches = "; then ".join(", ".join(map(show_event, batch)) for batch in feed.batches)
        print(f"\n{'### ' if markdown else ''}{feed.name.capitalize()}\n")
        print(f"Batches: {batches}\n")
        print(f"Contract: {', '.join(map(str, feed.contract_rows()))}\n")
        if markdown:
            print("| tool | rows | what differs |\n|---|---|---|")
        for tool, (near, differs) in words[feed.name].items():
            print(f"| {tool} | {near} | {differs or '-'} |" if markdown else f"{tool:32}  {near:45}  {differs}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, help="keep the environments and the jar here (default: temporary)")
    parser.add_argument("--json", type=Path, help="write the raw facts to this file")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--only", default="", help="only the feeds and tools whose `feed / tool` contains this text")
    options = parser.parse_args()
    facts: list[dict[str, Any]] = []
    words: dict[str, dict[str, tuple[str, str]]] = {}
    versions: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="cdc-peers-") as name:
        scratch = Path(name)
        cache = (options.cache or scratch / "cache").resolve()
        cache.mkdir(parents=True, exist_ok=True)
        for feed, tool, outcome, installed in try_everything(scratch, cache, options.only):
            said = words.setdefault(feed.name, {})[tool] = in_words(feed, outcome)
            print(f"{feed.name} / {tool}: {': '.join(filter(None, said))}", file=sys.stderr, flush=True)
            facts.append({"feed": feed.name, "tool": tool, "words": said, **asdict(outcome)})
            versions[tool] = installed
    if options.json:
        options.json.write_text(json.dumps({"facts": facts, "versions": versions}, indent=1) + "\n")
    print_feeds(words, options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
