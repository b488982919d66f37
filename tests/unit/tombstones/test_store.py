"""The store of tombstones: what was asked and how far it is, without a clear value, in few files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import ConfigError, UsageError
from penstock.model.clock import ManualClock, uuid7
from penstock.model.keys import KeyColumn, NormalForm, find_key_problem
from penstock.model.names import DatasetName
from penstock.model.tombstones import Release, Tombstone, TombstoneState, can_follow
from penstock.model.types import parse_type
from penstock.storage.local import LocalFiles
from penstock.tombstones import store as stores
from penstock.tombstones.secrets import Secrets, note_secret, open_secrets, to_secrets
from penstock.tombstones.store import TombstoneStore

CUSTOMERS, ORDERS = DatasetName("staging", "customers"), DatasetName("staging", "orders")
CLOCK = ManualClock()


@pytest.fixture
def store(tmp_path: Path) -> TombstoneStore:
    return TombstoneStore(LocalFiles(tmp_path), CLOCK)


def make(table: DatasetName = CUSTOMERS, key_hash: str = "ab" * 32) -> Tombstone:
    CLOCK.advance(1)
    key = (KeyColumn("email", NormalForm.LOWER), KeyColumn("odd.`name"))
    return Tombstone(uuid7(CLOCK), "b1", table, key, key_hash, 7, "s1", "asked to be forgotten", "dpo", CLOCK.now_ns())


def test_a_project_without_tombstones_has_no_store(store: TombstoneStore) -> None:
    assert not store.exists
    assert store.read() == []


def test_a_load_of_a_table_without_tombstones_reads_none(store: TombstoneStore) -> None:
    store.add([make(), make(DatasetName("staging", "a_table_with_a_name_of_more_than_32_characters"))])
    stores._parsed.clear()
    assert store.read([ORDERS]) == []
    assert stores._parsed == {}
    assert {str(table) for table in store.tables()} == {
        "staging.customers",
        "staging.a_table_with_a_name_of_more_than_32_characters",
    }
    assert len(store.read([CUSTOMERS, ORDERS])) == 1
    store.add([make(ORDERS)])
    assert [each.table for each in store.read([ORDERS])] == [ORDERS]


def test_tombstones_come_back_with_their_last_state(store: TombstoneStore) -> None:
    first, second, other = make(), make(), make(ORDERS)
    store.add([first, second])
    store.add([other])
    CLOCK.advance(5)
    store.move([first, second], TombstoneState.HIDDEN)
    states = {each.id: each.state.value for each in store.read()}
    assert states == {first.id: "hidden", second.id: "hidden", other.id: "pending"}
    (found,) = store.read([ORDERS])
    assert found == replace(other, changed_at=other.created_at)
    hidden = store.read([CUSTOMERS])
    assert {each.id for each in hidden} == {first.id, second.id}
    assert hidden[0].key == first.key
    store.move(hidden, TombstoneState.HIDDEN)
    store.move(hidden[:1], TombstoneState.PHYSICAL)
    gone = [each for each in store.read([CUSTOMERS]) if each.state is TombstoneState.PHYSICAL]
    store.move(gone, TombstoneState.RELEASED, release=Release("2026-01-01", "signed_up"))
    assert {each.state for each in store.read([CUSTOMERS])} == {TombstoneState.HIDDEN, TombstoneState.RELEASED}
    released = [each for each in store.read([CUSTOMERS]) if each.state is TombstoneState.RELEASED]
    CLOCK.advance(1)
    store.move(released, TombstoneState.RELEASED, release=Release("2026-02-01", "signed_up"))
    points = {each.release for each in store.read([CUSTOMERS])}
    assert points == {None, Release("2026-02-01", "signed_up")}, "a point that was wrong can be corrected"


def test_a_state_that_cannot_follow_is_refused(store: TombstoneStore) -> None:
    store.add([make()])
    with pytest.raises(UsageError, match="cannot become physical"):
        store.move(store.read(), TombstoneState.PHYSICAL)
    assert store.read()[0].state is TombstoneState.PENDING
    assert not can_follow(TombstoneState.PHYSICAL, TombstoneState.WITHDRAWN), "what is gone cannot come back"
    assert [state.value for state in TombstoneState if state.suppresses] == [
        "pending",
        "hidden",
        "physical",
        "released",
    ]


def test_many_single_tombstones_do_not_become_many_files(
    store: TombstoneStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_COMPACT_EVERY", 10)
    for _ in range(35):
        store.add([make()])
    assert len(store.read()) == 35
    table = stores.open_delta_table(f"{tmp_path}/{stores.FOLDER}")
    live, folder = set(table.file_uris()), tmp_path / stores.FOLDER
    assert len(live) < 15
    dead = {str(path) for path in folder.glob("*.parquet")} - live
    assert len(dead) > 20, "another process may be reading what was merged just now"

    # later, they are removed; a file that no commit names may be of a write in flight
    (folder / "part-of-a-write.parquet").write_bytes(b"")
    monkeypatch.setattr(stores, "_DEAD_HOURS", 0)
    store.add([make()])
    assert store.compact() > 1
    live = set(stores.open_delta_table(str(folder)).file_uris())
    assert {str(path) for path in folder.glob("*.parquet")} - live == {str(folder / "part-of-a-write.parquet")}
    assert len(store.read()) == 36


def test_a_missing_secret_is_named_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = to_secrets({"new": "n" * 32, "old": "o" * 32})
    assert secrets.current == "new"
    assert secrets.get("old") == b"o" * 32
    assert "ooo" not in repr(secrets)
    with pytest.raises(ConfigError, match="gone"):
        secrets.check(["old", "gone"])
    with pytest.raises(ConfigError, match="no secret"):
        assert Secrets().current
    with pytest.raises(ConfigError, match="shorter") as caught:
        to_secrets({"1": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_another_secret_under_the_same_id_is_refused(tmp_path: Path) -> None:
    files, given = LocalFiles(tmp_path), {"a/1": "o" * 32, "2": "n" * 32}
    assert "a/1" in open_secrets(files, given)
    note_secret(files, to_secrets(given), "a/1")
    note_secret(files, to_secrets(given), "a/1")
    assert open_secrets(files, given).get("a/1") == b"o" * 32
    replaced = open_secrets(files, {**given, "a/1": "x" * 32})
    assert "a/1" not in replaced
    assert replaced.get("2") == b"n" * 32
    with pytest.raises(ConfigError, match="secret a/1 is not the one of the tombstones") as caught:
        replaced.get("a/1")
    assert "xxx" not in str(caught.value)
    assert b"ooo" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*.check"))


@pytest.mark.parametrize(
    ("type_", "is_key"),
    [("string", True), ("bigint", True), ("decimal(10,2)", True), ("decimal(38,38)", False), ("timestamp", True),
     ("binary", True), ("boolean", True), ("map<string,int>", False), ("struct<a:int>", False), ("variant", False),
     ("interval day", False), ("array<int>", False), ("date", True), ("double", True)],
)  # fmt: skip
def test_types_that_can_be_keys(type_: str, is_key: bool) -> None:
    assert (find_key_problem(parse_type(type_)) is None) is is_key
