"""Whatever a commit says, what is wrong with it is damage of its table, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import NAME, load
from penstock.kinds.staging.progress import CODEC
from penstock.lake.data_files import Look, find_damage
from penstock.lake.delta_log import DamagedLogError, check_commits
from penstock.lake.log_facts import read_facts, read_state
from penstock.lake.log_repair import has_damaged_log
from penstock.lake.progress import read_table_state
from penstock.storage.local import LocalFiles

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}
FEATURES = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": []}
ACTIONS: tuple[dict[str, Any], ...] = (
    {"add": {"path": "a.parquet", "size": 9, "partitionValues": {"a": "1"}, "stats": "{}", "deletionVector": VECTOR}},
    {"remove": {"path": "b.parquet", "dataChange": True, "deletionVector": VECTOR}},
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    {"protocol": FEATURES},
    {"cdc": {"path": "a.parquet"}},
)
"""What a commit of Delta can say beside what those of the tests do."""

WRONG = (
    [1],
    "x",
    {"add": {"path": 5, "size": 9}},
    {"add": {"path": "a"}},
    {"add": {"path": "a", "size": "x"}},
    {"add": {"path": "a", "size": float("inf")}},
    {"add": {"path": "a", "size": 1, "partitionValues": [1]}},
    {"add": {"path": "a\0", "size": 1}},
    {"add": {"path": "a%00", "size": 1}},
    {"add": {"path": "\ud800", "size": 1}},
    {"add": {"path": "a", "size": 1, "deletionVector": {**VECTOR, "pathOrInlineDv": "short"}}},
    {"add": {"path": "a", "size": 1, "deletionVector": 5}},
    {"add": {}},
    {"remove": {}},
    {"domainMetadata": {"domain": "q"}},
    {"sidecar": 5},
    {"sidecar": {"path": "x" * 999}},
    {"metaData": {"schemaString": '{"fields": []}'}},
    {"metaData": {"schemaString": "nope", "format": {"provider": "parquet"}}},
    {"protocol": {"minReaderVersion": "", "minWriterVersion": 2}},
    {"txn": {"appId": "other", "version": float("inf")}},
    {"commitInfo": {"timestamp": float("inf")}},
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalFiles, Path, list[Any]]:
    storage = LocalFiles(tmp_path_factory.mktemp("storage"))
    load(storage)
    file = storage.root / NAME.path / f"_delta_log/{0:020d}.json"
    return storage, file, [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("action", WRONG, ids=lambda action: json.dumps(action)[:60])
def test_a_line_that_says_nothing_sound_is_damage(action: Any, loaded: tuple[LocalFiles, Path, list[Any]]) -> None:
    storage, file, good = loaded
    _write(file, [*good, action])
    damage = find_damage(storage, NAME, Look.FULL)
    assert damage is not None
    assert damage.code == "log_damaged"
    assert has_damaged_log(storage, NAME.path)


def test_what_is_edited_below_is_sound_before(loaded: tuple[LocalFiles, Path, list[Any]]) -> None:
    storage, file, good = loaded
    _write(file, [*good, *ACTIONS])
    assert "a.parquet" in read_state(storage, NAME.path).live
    assert read_facts(storage, NAME.path).named


def test_a_path_that_is_too_long_for_a_file_is_that_of_no_file(loaded: tuple[LocalFiles, Path, list[Any]]) -> None:
    storage, file, good = loaded
    _write(file, [*good, {"add": {"path": "x" * 999, "size": 1}}])
    damage = find_damage(storage, NAME, Look.FULL)
    assert damage is not None
    assert damage.code == "data_damaged"


_VALUES = st.sampled_from(
    (None, True, -1, 0, 2**70, 1.5, float("inf"), "", "x", "\ud800", "a/../b", "\0", "x" * 999, [], [1], {}, {"a": 1})
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), value=_VALUES)
def test_whatever_a_commit_says_reading_it_is_damage_at_most(
    loaded: tuple[LocalFiles, Path, list[Any]], data: st.DataObject, value: Any
) -> None:
    storage, file, good = loaded
    actions = json.loads(json.dumps([*good, *ACTIONS]))
    *inner, last = data.draw(st.sampled_from(list(_iter_places(actions))))
    place = actions
    for step in inner:
        place = place[step]
    place[last] = value
    _write(file, actions)
    find_damage(storage, NAME, Look.FULL)
    find_damage(storage, NAME, Look.BRIEF)
    state = read_table_state(storage, NAME, CODEC)
    assert (state.progress is None) is (state.damage is not None)
    for read in (check_commits, read_state, read_facts):
        try:
            read(storage, NAME.path)
        except DamagedLogError:
            assert has_damaged_log(storage, NAME.path) or read is read_facts


def _iter_places(value: Any, inner: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a value, as the steps that lead to it."""
    steps = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield (*inner, step)
        yield from _iter_places(value[step], (*inner, step))


def _write(file: Path, actions: list[Any]) -> None:
    file.write_text("\n".join(map(json.dumps, actions)))
