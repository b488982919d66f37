"""What dbt, SQLMesh and dlt do when the columns of the raw files change: the very same Parquet files, case by case.

    python benchmarks/drift_peers.py [--cache DIR] [--json FILE] [--markdown] [--only TEXT]

Each peer gets a virtual environment of its own with the versions below, loads batch 1, then finds batch 2 beside it and
runs again, as its documentation tells users to. What its table holds after each run is read with DuckDB, and the words
are derived from these facts. Nothing is kept but what `--cache` and `--json` name. Needs pyarrow and uv.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

RUN_SECONDS = 120
INSTALL_SECONDS = 600
BOOKKEEPING = {"source_file", "_dlt_load_id", "_dlt_id"}
# DuckDB is the newest that each peer's own requirements allow.
DBT = ("dbt-core==1.11.16", "dbt-adapters==1.24.5", "dbt-duckdb==1.11.1", "duckdb==2.0.0")
SQLMESH = ("sqlmesh==0.236.4", "duckdb==1.5.6")
DLT = ("dlt[duckdb]==1.31.0", "duckdb==2.0.0", "pyarrow==26.0.1")

DBT_PROJECT = 'name: drift\nversion: "1.0"\nprofile: drift\nmodel-paths: [models]\n'
DBT_PROFILE = "drift: {target: local, outputs: {local: {type: duckdb, path: lake.duckdb, schema: raw, threads: 1}}}\n"
DBT_MODEL = """\
{{ config(materialized='incremental', incremental_strategy='append', on_schema_change='{mode}') }}
select * from read_parquet('{raw}/*.parquet', union_by_name = true, filename = 'source_file')
{% if is_incremental() %}
where source_file > (select coalesce(max(source_file), '') from {{ this }})
{% endif %}
"""
SQLMESH_CONFIG = """\
gateways: {local: {connection: {type: duckdb, database: lake.duckdb}}}
default_gateway: local
model_defaults: {dialect: duckdb, start: 2020-01-01}
"""
# A filter on the model's own rows (@this_model) is refused for SELECT *: "Self-referencing models require inferrable
# column types". So the model is keyed, and SQLMesh reads every file again and replaces the rows by key.
SQLMESH_MODEL = """\
MODEL (name raw.items, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id), cron '@daily');
SELECT * FROM read_parquet('{raw}/*.parquet', union_by_name = true)
"""
DLT_LOAD = """\
import dlt
from dlt.sources.filesystem import filesystem, read_parquet

files = filesystem(bucket_url="{raw}", file_glob="*.parquet")
files.apply_hints(incremental=dlt.sources.incremental("modification_date"))
lake = dlt.destinations.duckdb("lake.duckdb")
pipeline = dlt.pipeline(pipeline_name="lake", destination=lake, dataset_name="raw", pipelines_dir="state")
print(pipeline.run((files | read_parquet({options})).with_name("items")))
"""
READ_TABLE = """\
import duckdb, json
lake = duckdb.connect("lake.duckdb", read_only=True)
columns = {row[0]: row[1] for row in lake.execute("describe raw.items").fetchall()}
rows = lake.execute("select * from raw.items order by id").fetchall()
print(json.dumps({"columns": columns, "rows": [dict(zip(columns, row)) for row in rows]}, default=str))
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Two states of one raw folder: batch 1, then a second file beside it, another batch 1, or nothing new."""

    name: str
    first: pa.Table
    second: pa.Table | None = None
    replaces: bool = False

    def expected(self) -> list[dict[str, Any]]:
        """Give the rows that raw holds in the end, each with just the columns of its file."""
        tables = [self.second] if self.replaces else [self.first, self.second]
        return [row for table in tables if table is not None for row in table.to_pylist()]


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool in one documented set-up: its packages, its project files, and the two commands a user types."""

    name: str
    packages: tuple[str, ...]
    files: dict[str, str]
    first: tuple[str, ...]
    second: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run left behind: its exit code (None: time limit), the table, and the end of what it printed."""

    exit_code: int | None
    columns: dict[str, str]
    rows: list[dict[str, Any]]
    output: str


def batch(identity: int, **columns: tuple[object, pa.DataType]) -> pa.Table:
    arrays = {name: pa.array([value], kind) for name, (value, kind) in columns.items()}
    return pa.table({"id": pa.array([identity], pa.int64()), **arrays})


def all_cases() -> list[Case]:
    """Give the cases; each file holds one row."""
    small, big, real, text = pa.int32(), pa.int64(), pa.float64(), pa.string()
    narrow, wide = pa.struct([("a", small)]), pa.struct([("a", small), ("b", small)])
    ten = batch(1, value=(10, small))
    return [
        Case("column added", batch(1, a=(1, small)), batch(2, a=(2, small), b=("x", text))),
        Case("column missing", batch(1, a=(1, small), b=("x", text)), batch(2, a=(2, small))),
        Case("column renamed", batch(1, name=("ann", text)), batch(2, full_name=("bob", text))),
        Case("int 1, then double 1.5", batch(1, value=(1, small)), batch(2, value=(1.5, real))),
        Case("bigint 2^53+1, then double 1.5", batch(1, value=(2**53 + 1, big)), batch(2, value=(1.5, real))),
        Case('int 1, then string "x"', batch(1, value=(1, small)), batch(2, value=("x", text))),
        Case("int 1, then bigint 2^31+1", batch(1, value=(1, small)), batch(2, value=(2**31 + 1, big))),
        Case("struct gains a field", batch(1, s=({"a": 1}, narrow)), batch(2, s=({"a": 2, "b": 3}, wide))),
        Case("name differs by case only", batch(1, value=(1, small)), batch(2, Value=(2, small))),
        Case("file of batch 1 changed, 10 to 11", ten, batch(1, value=(11, small)), replaces=True),
        Case("nothing new", ten),
    ]


def write_files(case: Case, scratch: Path) -> Path:
    """Write the files of a case once, so that every peer gets copies of the same bytes."""
    folder = scratch / case.name.replace(" ", "-")
    if not folder.exists():
        folder.mkdir()
        pq.write_table(case.first, folder / "1.parquet")
        if case.second is not None:
            pq.write_table(case.second, folder / "2.parquet")
    return folder


def all_peers() -> list[Peer]:
    """Give the peers; `{raw}` in a file stands for the raw folder."""
    dbt = ("dbt", "--no-version-check", "--no-use-colors", "run", "--profiles-dir", ".")
    # The first run is dated back, because `sqlmesh run` does nothing before the model's interval is over.
    plan = ("sqlmesh", "plan", "--auto-apply", "--no-prompts", "--execution-time", "2 days ago")
    sqlmesh = {"config.yaml": SQLMESH_CONFIG, "models/items.sql": SQLMESH_MODEL}
    peers = [Peer("SQLMesh", SQLMESH, sqlmesh, plan, ("sqlmesh", "run"))]
    for mode in ("sync_all_columns", "append_new_columns"):
        model = DBT_MODEL.replace("{mode}", mode)
        files = {"dbt_project.yml": DBT_PROJECT, "profiles.yml": DBT_PROFILE, "models/items.sql": model}
        peers.insert(0, Peer(f"dbt {mode}", DBT, files, dbt, dbt))
    for name, options in (("dlt", ""), ("dlt use_pyarrow", "use_pyarrow=True")):
        load = ("python", "load.py")
        peers.append(Peer(name, DLT, {"load.py": DLT_LOAD.replace("{options}", options)}, load, load))
    return peers


def call(command: list[str], folder: Path, env: dict[str, str], seconds: int) -> tuple[int | None, str]:
    """Run a command with everything it starts, and end all of it when the time is over."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read()


def install(packages: tuple[str, ...], cache: Path) -> Path:
    """Make the virtual environment for these packages unless the cache has it; give its folder of programs."""
    home = cache / "_".join(packages).replace("==", "-").replace("[", "-").replace("]", "")
    done = home / "installed.txt"
    python = str(home / "bin" / "python")
    if not done.exists():
        uv = [sys.executable, "-m", "uv"]
        print(f"installing {', '.join(packages)} ...", file=sys.stderr, flush=True)
        for command in (
            [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)],
            [*uv, "pip", "install", "--quiet", "--python", python, *packages],
        ):
            code, output = call(command, cache, dict(os.environ), INSTALL_SECONDS)
            if code != 0:
                raise SystemExit(f"{' '.join(command)} ended with {code}:\n{output}")
        done.write_text(call([*uv, "pip", "freeze", "--python", python], cache, dict(os.environ), RUN_SECONDS)[1])
    return home / "bin"


def sealed_environment(programs: Path, home: Path) -> dict[str, str]:
    """Give an environment in which a peer sends no statistics and leaves its files in a folder that is removed."""
    return {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "400",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true",
        "MAX_FORK_WORKERS": "1",
        "RUNTIME__DLTHUB_TELEMETRY": "false",
    }


def run_once(command: tuple[str, ...], project: Path, env: dict[str, str]) -> Outcome:
    programs = Path(env["PATH"].partition(":")[0])
    code, output = call([str(programs / command[0]), *command[1:]], project, env, RUN_SECONDS)
    read, text = call([str(programs / "python"), "-c", READ_TABLE], project, env, RUN_SECONDS)
    table = json.loads(text) if read == 0 else {"columns": {}, "rows": []}
    columns = {name: kind for name, kind in table["columns"].items() if name not in BOOKKEEPING}
    rows = [{name: row[name] for name in columns} for row in table["rows"]]
    return Outcome(code, columns, rows, output[-1500:])


def try_case(case: Case, peer: Peer, programs: Path, files: Path) -> tuple[Outcome, Outcome]:
    """Load batch 1 with a new project, put the second state into raw, and run again."""
    with tempfile.TemporaryDirectory(prefix="drift-") as scratch:
        raw, project, home = (Path(scratch) / name for name in ("raw", "project", "home"))
        for folder in (raw, project, home):
            folder.mkdir()
        for name, content in peer.files.items():
            target = project / name
            target.parent.mkdir(exist_ok=True)
            target.write_text(content.replace("{raw}", str(raw)))
        env = sealed_environment(programs, home)
        shutil.copyfile(files / "1.parquet", raw / "1.parquet")
        first = run_once(peer.first, project, env)
        if case.second is not None:
            shutil.copyfile(files / "2.parquet", raw / ("1.parquet" if case.replaces else "2.parquet"))
        return first, run_once(peer.second, project, env)


def same(given: object, stored: object) -> bool:
    """Say whether a stored value is the given one: equal to the last digit, its text, or a struct or JSON of it."""
    if isinstance(given, dict) and isinstance(stored, str):
        return bool(given == json.loads(stored))
    if isinstance(given, dict) and isinstance(stored, dict):
        return all(name in stored and same(value, stored[name]) for name, value in given.items())
    return given == stored or str(given) == stored


def shown(value: object) -> str:
    return "NULL" if value is None else json.dumps(value) if isinstance(value, dict) else str(value)


def fate_of(name: str, given: Any, stored: dict[str, Any]) -> Iterator[str]:
    """Say where a value went, unless it is simply in its column."""
    column = next((known for known in stored if known.lower() == name.lower()), None)
    if column is None and isinstance(given, dict):
        for field, value in given.items():
            yield from fate_of(f"{name}__{field}", value, stored)
    elif column is None:
        yield f"{given} dropped, no column {name}"
    elif not same(given, stored[column]):
        variant = next(
            (known for known in stored if known.startswith(f"{column}__v_") and same(given, stored[known])), ""
        )
        yield f"{shown(given)} in {variant}" if variant else f"{shown(given)} stored as {shown(stored[column])}"


def column_changes(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    yield from (f"{name} {kind} added" for name, kind in after.items() if name not in before)
    yield from (f"{name} dropped" for name in before if name not in after)
    for name, kind in after.items():
        if before.get(name, kind) != kind:
            yield f"{name} {before[name]} to {kind}"


def fate_of_row(case: Case, row: dict[str, Any], table: list[dict[str, Any]]) -> list[str]:
    """Say what became of a row of the files, unless it is stored once and as it was given."""
    found = [stored for stored in table if stored["id"] == row["id"]]
    if len(found) != 1:
        values = " and ".join(shown(value) for stored in found for name, value in stored.items() if name != "id")
        return [f"row {row['id']} stored {len(found)} times ({values})"]
    if case.replaces and found[0] == case.first.to_pylist()[0]:
        return ["change not noticed"]
    return [fate for name, given in row.items() for fate in fate_of(name, given, found[0])]


def has_nulls_for_missing(case: Case, table: list[dict[str, Any]]) -> bool:
    """Say whether rows hold NULL in the columns that only the other file has."""
    missing = [set(other) - set(row) for row, other in zip(case.expected(), reversed(case.expected()), strict=True)]
    holes = [row[name] for row, names in zip(table, missing, strict=False) for name in names if name in row]
    return bool(holes) and set(holes) == {None}


def in_words(case: Case, first: Outcome, second: Outcome) -> str:
    """Say what happened, from the facts alone."""
    if first.exit_code != 0:
        return f"batch 1 already fails, exit {first.exit_code}"
    end = "time limit" if second.exit_code is None else f"exit {second.exit_code}"
    unchanged = (first.columns, first.rows) == (second.columns, second.rows)
    if unchanged and second.exit_code != 0:
        return f"fails, table as before, {end}"
    words = list(column_changes(first.columns, second.columns))
    if has_nulls_for_missing(case, second.rows):
        words.append("NULL where a file lacks it")
    fates = [fate for row in case.expected() for fate in fate_of_row(case, row, second.rows)]
    return ", ".join([*words, *(fates or ["table as before" if unchanged else "all values stored"]), end])


def print_table(words: dict[str, dict[str, str]], markdown: bool) -> None:
    peers = list(next(iter(words.values()), {}))
    if markdown:
        print("| case |", " | ".join(peers), "|")
        print("|---" * (len(peers) + 1) + "|")
    for case, cells in words.items():
        if markdown:
            print(f"| {case} |", " | ".join(cells.values()), "|")
        else:
            print("\n".join(f"{case:34}  {peer:22}  {cell}" for peer, cell in cells.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, help="keep the virtual environments here (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="write the raw facts to this file")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--only", default="", help="only the cases and peers whose `case / peer` contains this text")
    options = parser.parse_args()
    facts: list[dict[str, Any]] = []
    words: dict[str, dict[str, str]] = {}
    versions: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="drift-peers-") as scratch:
        cache = (options.cache or Path(scratch) / "cache").resolve()
        cache.mkdir(parents=True, exist_ok=True)
        for case, peer in product(all_cases(), all_peers()):
            if options.only not in f"{case.name} / {peer.name}":
                continue
            programs = install(peer.packages, cache)
            first, second = try_case(case, peer, programs, write_files(case, Path(scratch)))
            said = words.setdefault(case.name, {})[peer.name] = in_words(case, first, second)
            print(f"{case.name} / {peer.name}: {said}", file=sys.stderr, flush=True)
            facts.append({"case": case.name, "peer": peer.name, "words": said, "runs": [asdict(first), asdict(second)]})
            versions[peer.name] = (programs.parent / "installed.txt").read_text().split()
    if options.json:
        options.json.write_text(json.dumps({"facts": facts, "versions": versions}, indent=1) + "\n")
    print_table(words, options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
