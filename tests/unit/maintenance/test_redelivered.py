"""Source files that come after an erasure: which are due for a search, and what is kept of the keys found in them. No JVM."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from penstock.engine import Engine, open_engine
from penstock.lake.tables import Lake
from penstock.maintenance.erasure.clear_values import read_clear_values
from penstock.maintenance.erasure.redelivered import Redelivery, find_unfinished
from penstock.maintenance.erasure.tombstones import KEYS, Tombstones
from penstock.maintenance.sources.redelivered import Redelivered
from penstock.maintenance.sources.searched import find_unsearched, note_searched, read_searched
from penstock.model.clock import SystemClock
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.tombstones import Release, SuppressedKeys, Tombstone, TombstoneState
from penstock.transforms.key_match import TEXT
from projects import ProjectFolder

NAME = DatasetName("staging", "people")
SETTINGS = """
name: shop
erasure: {secrets: {"1": "a secret of the tests, long enough"}}
"""


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    made = ProjectFolder(tmp_path / "shop").configure(SETTINGS)
    made.raw("people", "0001", {"email": ["ann", "bob"]})
    made.raw("others", "0001", {"email": ["ann"]})
    return made


def tombstone(id_: str, state: TombstoneState = TombstoneState.PHYSICAL, key: str = "email") -> Tombstone:
    return Tombstone(id_, f"batch-{id_}", NAME, (KeyColumn(key),), "00", 0, "1", "r", "a", 1, state=state)


def open_project(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={})


def due(project: ProjectFolder, *tombstones: Tombstone) -> list[str]:
    """The files that are to be searched; only those of the table of the tombstones can be."""
    found = find_unsearched(open_project(project).catalog, tombstones)
    assert {each.name for each in found} <= {NAME}
    return sorted(path for each in found for _, path in each.files)


def note(project: ProjectFolder, *tombstones: Tombstone) -> None:
    """Search everything that is due."""
    catalog = open_project(project).catalog
    for each in find_unsearched(catalog, tombstones):
        known = read_searched(catalog, each.dataset, each.tombstones)
        note_searched(catalog, each.dataset, each.tombstones, known | each.digests)


def test_a_file_is_due_until_it_was_searched_for_every_erased_key(project: ProjectFolder) -> None:
    first, second = tombstone("one"), tombstone("two")
    assert due(project) == []
    assert due(project, first) == ["people/0001.parquet"]
    note(project, first)
    assert due(project, first) == []
    later = project.raw("people", "0002", {"email": ["zoe"]})
    assert due(project, first) == ["people/0002.parquet"]
    note(project, first)
    assert due(project, first) == []
    assert due(project, first, second) == ["people/0001.parquet", "people/0002.parquet"]
    note(project, first, second)
    assert due(project, first, second) == due(project, second) == [], "one fewer is no reason to search"
    later.unlink()
    assert due(project, first, second) == []


def test_a_file_that_was_replaced_is_due_again_whatever_its_time(project: ProjectFolder) -> None:
    first, file = tombstone("one"), project.root / "raw/people/0001.parquet"
    before = project.root / "kept"
    shutil.copy2(file, before)
    note(project, first)
    project.raw("people", "0001", {"email": ["bob"]})
    note(project, first)
    assert due(project, first) == []
    shutil.copy2(before, file)
    assert due(project, first) == ["people/0001.parquet"]
    shutil.copy2(before, file.with_stem("0000"))
    assert due(project, first) == ["people/0000.parquet", "people/0001.parquet"]


def test_what_changes_between_the_search_and_the_note_is_still_due(project: ProjectFolder) -> None:
    first, file = tombstone("one"), project.root / "raw/people/0001.parquet"
    catalog = open_project(project).catalog
    (found,) = find_unsearched(catalog, [first])
    os.utime(file, ns=(1, 1))
    note_searched(catalog, found.dataset, found.tombstones, found.digests)
    assert due(project, first) == ["people/0001.parquet"]


@pytest.mark.parametrize("state", [state for state in TombstoneState if state is not TombstoneState.PHYSICAL])
def test_only_tombstones_that_are_physical_count(project: ProjectFolder, state: TombstoneState) -> None:
    assert due(project, tombstone("one", state)) == []


def test_a_table_that_is_gone_has_no_files(project: ProjectFolder) -> None:
    assert due(project, replace(tombstone("one"), table=DatasetName("main", "gone"))) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"how": 1, "types": [], "tombstones": 3}'])
def test_a_damaged_note_is_no_note(project: ProjectFolder, content: str) -> None:
    first = tombstone("one")
    note(project, first)
    (file,) = (project.root / "storage").rglob("searched-sources.json")
    file.write_text(content)
    assert due(project, first) == ["people/0001.parquet"]
    note(project, first)
    assert due(project, first) == []


def test_a_renamed_key_column_is_a_reason_to_search(project: ProjectFolder) -> None:
    first = tombstone("one")
    note(project, first)
    project.configure(SETTINGS + "staging:\n  people: {renames: {e_mail: email}}\n")
    assert due(project, first) == ["people/0001.parquet"]


def test_the_note_tells_nothing_about_names(project: ProjectFolder) -> None:
    project.raw("people", "ann@example.org", {"email": ["ann"]})
    note(project, tombstone("one"))
    (file,) = (project.root / "storage").rglob("searched-sources.json")
    assert "ann" not in file.read_text()


def open_tombstones(project: ProjectFolder, *known: Tombstone) -> Tombstones:
    engine = open_project(project)
    made = Tombstones(engine.catalog, SystemClock(), Lake(cast(Any, None), engine.workspace.storage), "")
    states = [TombstoneState.HIDDEN, TombstoneState.PHYSICAL, TombstoneState.RELEASED]
    made.store.add([replace(each, state=TombstoneState.PENDING) for each in known])
    for each in known:
        for state in states[: states.index(each.state) + 1]:
            (now,) = (t for t in made.store.read() if t.id == each.id)
            made.store.move([now], state, release=Release("1", "email") if state is TombstoneState.RELEASED else None)
    return made


def to_found(tombstones: Tombstones, **texts: str) -> Redelivered:
    """Keys by the id of their tombstone."""
    known = tuple(tombstones.store.read())
    keys = SuppressedKeys((KeyColumn("email"),), "1", b"", known)
    values = [pa.table({TEXT: list(texts.values()), "email": [text.upper() for text in texts.values()]})]
    dataset = tombstones.catalog.datasets[NAME]
    return Redelivered(dataset, keys, {text: {id_} for id_, text in texts.items()}, tuple(values))


def test_keys_that_were_found_stay_in_the_vault_until_they_are_proven_gone(project: ProjectFolder) -> None:
    tombstones = open_tombstones(project, tombstone("one"), tombstone("two"))
    redelivery = Redelivery(tombstones)
    assert redelivery.unfinished() == ()
    found = to_found(tombstones, one="v3:ann", two="v3:bob")
    redelivery.keep([found])
    redelivery.keep([found])
    assert [each.id for each in redelivery.unfinished()] == ["one", "two"]
    assert "ann" not in repr(found)
    for id_, value in (("one", "V3:ANN"), ("two", "V3:BOB")):
        assert len(tombstones.vault.names(f"batch-{id_}")) == 2, "the same keys are kept once"
        (own,) = (each for each in redelivery.unfinished() if each.id == id_)
        clear = read_clear_values(tombstones.catalog, tombstones.vault, [own])
        assert clear.texts_of(NAME, own.key) == (value.lower(),)
        assert clear.found == {(str(NAME), "email"): frozenset({value, value[3:].lower()})}, (
            "as the file has it, and as asked"
        )
    redelivery.keep([to_found(tombstones, one="v3:eve")])
    own = redelivery.unfinished()[0]
    clear = read_clear_values(tombstones.catalog, tombstones.vault, [own])
    assert clear.texts_of(NAME, own.key) == ("v3:ann", "v3:eve")


def test_what_can_no_longer_be_finished_is_destroyed(project: ProjectFolder) -> None:
    released, hidden = tombstone("one", TombstoneState.RELEASED), tombstone("two", TombstoneState.HIDDEN)
    tombstones = open_tombstones(project, released, hidden, tombstone("three"))
    redelivery = Redelivery(tombstones)
    redelivery.keep([to_found(tombstones, one="v3:ann", two="v3:bob", three="v3:eve")])
    tombstones.vault.remove("batch-three", KEYS)  # killed before the texts were written
    assert find_unfinished(tombstones.vault, tombstones.store.read()) == ["batch-one", "batch-three"]
    assert redelivery.unfinished() == ()
    assert tombstones.vault.batches() == ["batch-two"], "what is hidden is not finished here"
