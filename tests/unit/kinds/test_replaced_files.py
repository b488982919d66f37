"""Source files that Penstock replaces: no kind takes them for new or changed, and what footers said is counted again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.projects import ProjectFolder

from penstock.engine import Engine, open_engine
from penstock.kinds.cdc import observe as cdc_observe
from penstock.kinds.cdc.decide import find_new_files
from penstock.kinds.cdc.kind import CdcKind
from penstock.kinds.cdc.progress import CdcProgress
from penstock.kinds.derived.kind import DerivedKind
from penstock.kinds.staging import observe
from penstock.kinds.staging.columns import merge_seen
from penstock.kinds.staging.kind import StagingKind
from penstock.kinds.staging.progress import StagingProgress
from penstock.kinds.staging.raw_files import hash_content
from penstock.model.dataset import Dataset, Form
from penstock.model.progress import ConsumedFile, NewContent, Progress, RawFile, TableState
from penstock.model.schema import Column, Schema
from penstock.storage.addresses import to_address
from penstock.storage.footers import read_footers
from penstock.storage.local import LocalFiles

FLOW = """
from penstock import pipelines as dp

dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers", source=dp.change_files("feeds"), keys=["id"], sequence_by="ts", stored_as_scd_type=2
)
"""


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    made = ProjectFolder(tmp_path / "shop").configure("name: shop\nstaging:\n  people:\n    renames: {mail: email}\n")
    made.define("flow.py", FLOW)
    (made.root / "feeds").mkdir()
    return made


def opened(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={})


def find(project: ProjectFolder, name: str) -> Dataset:
    return opened(project).catalog.find(name)


def state_of(payload: object, schema: Schema | None = None) -> TableState[object]:
    return TableState(version=1, number=1, progress=Progress(1, (1,), payload, schema))


def test_a_raw_file_is_consumed_before_and_after_it_was_replaced(project: ProjectFolder) -> None:
    file = project.raw("people", "1", {"id": [1, 2**60], "email": ["a", "b"]})
    small = project.raw("people", "2", {"id": [3], "email": ["c"]})
    raw = LocalFiles(project.root / "raw")
    listed = {each.path: each for each in raw.walk("")}
    seen = merge_seen((), read_footers(raw, list(listed)).values())
    assert [column.is_large for column in seen] == [True, False]
    entries = {path: ConsumedFile(each, 1, hash_content(raw, path)) for path, each in listed.items()}
    project.raw("people", "1", {"id": [1], "email": ["a"]})
    new = NewContent(file.stat().st_size, hash_content(raw, "people/1.parquet"), 1)
    content = file.read_bytes()
    pending = replace(entries["people/1.parquet"], replacement=new)
    payload = StagingProgress({**entries, "people/1.parquet": pending}, seen)
    kind, dataset = StagingKind(), find(project, "staging.people")

    found = observe.observe(dataset, state_of(payload)).files  # type: ignore[arg-type]
    assert (found.new, found.changed, found.removed) == ((), (), ())
    assert [(entry.rows, entry.content_hash, entry.replacement) for entry in found.touched] == [
        (1, new.content_hash, None)
    ]
    address = to_address(f"{project.root}/raw/people/1.parquet")
    assert kind.consumed_files(dataset, payload)[address] is pending
    settled = kind.with_files(dataset, payload, {address: found.touched[0]})
    assert settled.files["people/1.parquet"] == found.touched[0]
    assert [column.is_large for column in settled.seen] == [False, False], "only the person who is gone had a large one"
    assert kind.with_files(dataset, payload, {address: pending}).seen == seen, "nothing is replaced yet"
    small.unlink()
    gone = find(project, "staging.people")
    assert kind.with_files(gone, payload, {address: found.touched[0]}).seen == seen, (
        "a footer that is gone still counts"
    )

    file.write_bytes(content[:-1] + b"x")
    changed = observe.observe(find(project, "staging.people"), state_of(payload)).files  # type: ignore[arg-type]
    assert [each.path for each in changed.changed] == ["people/1.parquet"]


@pytest.mark.parametrize("is_full", [False, True], ids=["relative", "full, as older versions kept it"])
def test_a_change_file_is_read_before_and_after_it_was_replaced(project: ProjectFolder, *, is_full: bool) -> None:
    file = project.root / "feeds/1.json"
    path = str(file) if is_full else "feeds/1.json"
    file.write_text('{"id": 1}\n')
    new = NewContent(10, hash_content(LocalFiles(file.parent), "1.json"), 1)
    pending = ConsumedFile(RawFile(path, 20, 1), 0, None, new)
    kind, dataset = CdcKind(), find(project, "customers")
    payload = CdcProgress({path: pending})

    def new_files() -> list[str]:
        assert dataset.spec is not None
        given = cdc_observe.observe(dataset.spec, state_of(payload), opened(project).workspace)  # type: ignore[arg-type]
        return [each.path for each in find_new_files(given, dataset.spec.flows[0].name)]

    assert new_files() == []
    settled = pending.settle(RawFile(path, 10, file.stat().st_mtime_ns))
    assert kind.consumed_files(dataset, payload) == {to_address(str(file)): pending}
    assert kind.with_files(dataset, payload, {to_address(str(file)): settled}).files == {path: settled}
    file.write_text('{"id": 2}\n')
    assert new_files() == [str(file)], "the same size, but not the content that replaces it"


def test_places_say_where_columns_are(project: ProjectFolder) -> None:
    project.raw("people", "1", {"id": [1]})
    project.raw("others", "1", {"id": [1]})
    schema = Schema((Column("email", "string", sources=frozenset({"email", "mail", "e_mail"})), Column("id", "int")))
    table, aside, raw = StagingKind().places(find(project, "staging.people"), state_of(StagingProgress(), schema))
    assert (table.form, aside.json_column, raw.form) == (Form.DELTA, "raw_row", Form.PARQUET)
    assert raw.members == ("people/1.parquet",)
    assert raw.names_of("Email") == aside.names_of("email") == {"email", "mail", "e_mail"}
    assert raw.names_of("ID") == {"id"}
    assert StagingKind().places(find(project, "staging.people"))[2].names_of("email") == {"email", "mail"}
    (project.root / "raw/People").mkdir()
    assert "differ only by case" in str(StagingKind().places(find(project, "staging.people"))[2].problem)

    table, aside, auxiliary, feed = CdcKind().places(find(project, "customers"))
    assert (aside.json_column, auxiliary.structs, auxiliary.is_listed) == ("row_json", ("key", "data"), True)
    assert (feed.form, feed.is_ours, feed.message_key) == (Form.FILES, False, "id")
    assert feed.feed is not None
    assert DerivedKind().consumed_files(find(project, "customers"), None) == {}
