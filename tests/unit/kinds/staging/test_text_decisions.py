"""What a plan says about CSV and JSON-lines files: without a JVM, by the same rules as for Parquet."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.projects import ProjectFolder

from penstock.engine import open_engine
from penstock.kinds.protocol import Needs
from penstock.kinds.staging import observe
from penstock.kinds.staging.decide import StagingItem, decide, fingerprint_contract
from penstock.kinds.staging.kind import StagingKind
from penstock.kinds.staging.progress import StagingProgress
from penstock.kinds.staging.raw_text import TextLanding, landed_folder, remove_landed, to_reading
from penstock.lake.lease_owners import this_process
from penstock.model.contract import Contract
from penstock.model.contract_rules import make_contract
from penstock.model.dataset import Dataset, Form
from penstock.model.plan import Action, Wishes
from penstock.model.progress import ConsumedFile, Progress, TableState
from penstock.storage.local import LocalFiles


class Staging:
    """A project, and the state of one table as its decided loads would leave it."""

    def __init__(self, root: Path) -> None:
        self.project = ProjectFolder(root).configure()
        self.state: TableState[StagingProgress] = TableState()

    def write(self, name: str, text: str) -> None:
        file = self.project.root / "raw/t" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def declare(self, text: str) -> None:
        self.project.configure(f"name: shop\nstaging:\n  t: {text}\n")

    @property
    def dataset(self) -> Dataset:
        return open_engine(self.project.root, environment={}).catalog.find("staging.t")

    def decide(self) -> StagingItem:
        workspace = open_engine(self.project.root, environment={}).workspace
        given = observe.observe(self.dataset, self.state)
        found = decide(given, Wishes())
        while isinstance(found, Needs):
            given = observe.observe_more(given, found, workspace)
            found = decide(given, Wishes())
        return found[0]

    def load(self) -> StagingItem:
        """Decide, and go on as if that was done."""
        item = self.decide()
        assert item.problem is None, item.problem
        work, known = item.work, self.state.payload
        files = {new.file.path: ConsumedFile(new.file, new.rows, "h") for new in work.files}
        if known is not None and item.action is not Action.REBUILD:
            files = {**known.files, **files}
        payload = StagingProgress(files, work.seen, work.settings)
        self.state = TableState(version=1, number=1, progress=Progress(1, (1,), payload, work.schema))
        return item

    def types(self) -> dict[str, str]:
        schema = self.state.schema
        return {column.name: column.type for column in schema.columns} if schema else {}


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "shop")


DRIFTS = [
    ("id\n1\n", "id\n2\n", "append", "bigint"),
    ("id\n1\n", "id\n1.5\n", "evolve", "decimal(21,1)"),
    ("id\n1.5\n", "id\n7\n", "evolve", "decimal(21,1)"),
    ("id\n1.5\n", "id\n7.25\n", "evolve", "decimal(19,2)"),
    ("id\n1\n", "id\n9223372036854775808\n", "evolve", "decimal(20,0)"),
    ("id\n1\n", "id\n007\n", "rebuild", "string"),
    ("id\n1\n", "id\n1e5\n", "rebuild", "double"),
    ("id\n9007199254740993\n", "id\n1e5\n", "rebuild", "string"),
    ("id\nx\n", "id\n7\n", "append", "string"),
    ("id\n2024-01-31\n", "id\n2024-01-31T10:00:00\n", "evolve", "timestamp_ntz"),
    ("id\n1\n", "id\n", "append", "bigint"),
    ("id\n1\n", "", "append", "bigint"),
]


@pytest.mark.parametrize(("first", "second", "action", "type_"), DRIFTS)
def test_inferred_types_are_kept_and_drift_as_those_of_parquet(
    staging: Staging, first: str, second: str, action: str, type_: str
) -> None:
    staging.write("1.csv", first)
    assert staging.load().action is Action.REBUILD
    staging.write("2.csv", second)
    assert (staging.load().action.value, staging.types()) == (action, {"id": type_})
    assert staging.decide().action is Action.NONE


def test_a_table_has_files_of_several_formats(staging: Staging) -> None:
    staging.project.raw("t", "1", {"id": [1], "name": ["x"]})
    staging.write("2.csv", "ID,amount\n2,1.5\n")
    staging.write("3.jsonl", '{"id": 3, "name": "y", "more": {"a": 1}}\n')
    assert staging.load().work.rows_read == 3
    assert staging.types() == {"id": "bigint", "name": "string", "amount": "decimal(18,1)", "more": "string"}


def test_only_a_header_is_no_table_yet(staging: Staging) -> None:
    staging.write("1.csv", "id,name\n")
    staging.write("2.jsonl", "")
    item = staging.decide()
    assert (item.action, item.problem) == (Action.NONE, None)
    assert item.reasons[0].text == "its files have no records yet"
    staging.write("3.csv", "id,name\n1,\n")
    assert staging.load().action is Action.REBUILD
    assert staging.types() == {"id": "bigint"}, "a column of NULLs waits for a type"
    staging.write("4.csv", "id,name\n")
    assert [reason.code for reason in staging.load().reasons] == ["new_files"]


def test_a_bad_record_refuses_the_table_with_file_and_line(staging: Staging) -> None:
    staging.write("1.csv", "id,name\n1,x\n2\n")
    problem = staging.decide().problem
    assert problem is not None
    assert problem.message.startswith("raw file t/1.csv, line 3: it has 1 field")
    staging.declare("{files: {on_bad_row: quarantine}}")
    item = staging.load()
    assert [(new.rows, new.bad_rows) for new in item.work.files] == [(2, 1)]


def test_a_declared_type_that_does_not_hold_a_value_names_its_line(staging: Staging) -> None:
    staging.declare("{columns: {age: int}, renames: {years: age}, on_drift: fail}")
    staging.write("1.csv", "years\n41\n\nold\n")
    problem = staging.decide().problem
    assert problem is not None
    assert "age: declared as int, but needs string (raw file t/1.csv, line 4)" in problem.message
    staging.write("1.csv", "years\n41\n")
    assert staging.load().problem is None
    assert staging.types() == {"age": "int"}


def test_required_is_checked_in_text_files(staging: Staging) -> None:
    staging.declare("{columns: {id: {required: true}}}")
    staging.write("1.csv", "id,x\n1,a\n,b\n")
    problem = staging.decide().problem
    assert problem is not None
    assert "raw file t/1.csv: id is required, but NULL in 1 of 2 rows" in problem.message


def test_text_is_read_again_when_the_declaration_changes_how(staging: Staging) -> None:
    staging.write("1.csv", "id;n\n1;2.5\n")
    staging.load()
    assert staging.types() == {"id;n": "string"}
    staging.declare("{files: {delimiter: ';'}}")
    item = staging.load()
    assert [(item.action, reason.code) for reason in item.reasons] == [(Action.REBUILD, "contract_changed")]
    assert staging.types() == {"id": "bigint", "n": "decimal(18,1)"}
    staging.declare("{files: {delimiter: ';'}, columns: {n: double}}")
    assert staging.load().action is Action.REBUILD
    assert staging.types() == {"id": "bigint", "n": "double"}
    assert staging.decide().action is Action.NONE


def test_settings_of_text_files_change_nothing_where_there_are_none() -> None:
    plain = Contract()
    other = make_contract({"files": {"delimiter": ";"}}, "staging.t", None)  # type: ignore[arg-type]
    assert fingerprint_contract(plain) == fingerprint_contract(other)
    assert fingerprint_contract(plain, has_text=True) != fingerprint_contract(other, has_text=True)
    assert fingerprint_contract(plain, has_text=True).startswith(fingerprint_contract(plain))


def test_declared_types_are_looked_for_under_earlier_names() -> None:
    given = {"columns": {"Age": {"type": "int"}, "x": {"type": "string"}}, "renames": {"Years": "age"}}
    reading = to_reading(make_contract(given, "staging.t", None))  # type: ignore[arg-type]
    assert reading.declared == {"age": "int", "years": "int", "x": "string"}


def test_places_say_how_text_is_read_and_where_copies_may_be(staging: Staging) -> None:
    staging.declare("{files: {delimiter: ';', encoding: latin-1, null_text: 'NULL'}, renames: {mail: email}}")
    staging.project.raw("t", "1", {"id": [1]})
    for name in ("2.csv", "3.csv.gz", "4.jsonl"):
        staging.write(name, "x")
    _, _, parquet, csv, json, copies = StagingKind().places(staging.dataset)
    assert (parquet.members, parquet.form) == (("t/1.parquet",), Form.PARQUET)
    assert (csv.members, csv.form) == (("t/2.csv", "t/3.csv.gz"), Form.FILES)
    assert csv.names_of("email") == {"email", "mail"}
    assert csv.feed is not None
    assert (csv.feed.format, dict(csv.feed.options)) == (
        "csv",
        {
            "header": "true",
            "sep": ";",
            "quote": '"',
            "escape": '"',
            "multiLine": "true",
            "nullValue": "NULL",
            "encoding": "ISO-8859-1",
        },
    )
    assert json.feed is not None
    assert (json.members, json.feed.format) == (("t/4.jsonl",), "json")
    assert (copies.uri, copies.is_ours) == ("staging/t/_penstock/landed", True)


def make_old(file: Path) -> None:
    moment = time.time() - 120
    os.utime(file, (moment, moment))


def test_copies_live_as_long_as_a_load_and_those_of_a_killed_one_go_with_the_next(staging: Staging) -> None:
    staging.write("1.csv", "id,code\n1,7\n")
    staging.write("2.csv", "id,code\n2,x\n")
    staging.project.raw("t", "3", {"id": [3]})
    item = staging.decide()
    storage, raw = LocalFiles(staging.project.root / "storage"), LocalFiles(staging.project.root / "raw")
    loads = ("killed", "running", "begins")
    left, used, young = (f"{landed_folder(item.dataset)}/{load}/t/0.csv.parquet" for load in loads)
    for copy in (left, used, young):
        storage.create(copy, b"")
    make_old(storage.root / left)
    note = f"{landed_folder(item.dataset)}/running/_owner.json"
    storage.create(note, json.dumps(asdict(this_process("another checkout"))).encode())

    def read_copies() -> Any:
        with TextLanding(raw, storage, "run").landed(item.dataset, item.work) as work:
            assert not storage.exists(left)
            return work, [file.path for file in storage.walk(landed_folder(item.dataset)) if "/run-" in file.path]

    work, copies = read_copies()
    by_path = {new.file.path: new for new in work.files}
    assert [by_path[f"t/{name}"].landed for name in ("1.csv", "2.csv", "3.parquet")] == [*sorted(copies)[1:], None]
    assert {column.name: column.type for column in by_path["t/1.csv"].columns} == {"id": "bigint", "code": "string"}
    kept = [used, note, young]  # the one that begins has no note yet
    assert sorted(file.path for file in storage.walk(landed_folder(item.dataset))) == sorted(kept)
    with pytest.raises(ZeroDivisionError), TextLanding(raw, storage, "run").landed(item.dataset, item.work):
        raise ZeroDivisionError
    assert sorted(file.path for file in storage.walk(landed_folder(item.dataset))) == sorted(kept)
    (storage.root / note).unlink()
    make_old(storage.root / used)
    make_old(storage.root / young)
    remove_landed(storage, item.dataset)
    assert not (storage.root / landed_folder(item.dataset)).exists()
