"""What a lake does to files and to the session's catalog, as far as that needs no Spark."""

from __future__ import annotations

from typing import Any, cast

import pytest

from builders import NAME, load, write_table
from penstock.errors import ConcurrentRunError
from penstock.kinds.staging.progress import CODEC
from penstock.lake import tables
from penstock.lake.delta_log import DamagedLogError
from penstock.lake.progress import read_table_state
from penstock.lake.tables import Lake
from penstock.lake.write_errors import write_errors_named
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles


class Catalog:
    """A session that knows tables by name and place, and keeps the statements it is given."""

    def __init__(self, **places: str) -> None:
        self.places = {f"staging.{name}": place for name, place in places.items()}
        self.statements: list[str] = []
        self.catalog = self

    def tableExists(self, name: str) -> bool:  # noqa: N802 - Spark's name
        return name in self.places

    def sql(self, statement: str) -> Catalog:
        self.statements.append(statement)
        return self

    def select(self, _: str) -> Catalog:
        return self

    def collect(self) -> list[dict[str, str]]:
        return [{"location": self.places[self.statements[-1].split()[-1].replace("`", "")]}]

    @property
    def dropped(self) -> list[str]:
        return [statement for statement in self.statements if statement.startswith("DROP")]


class Removals(LocalFiles):
    """Files that remember in which order they went."""

    gone: list[str]

    def remove(self, path: str) -> None:
        self.gone.append(path)
        super().remove(path)


def make_lake(storage: LocalFiles, session: Catalog) -> Lake:
    return Lake(cast("Any", session), storage)


def test_a_drop_takes_progress_first_and_the_log_last(storage: LocalFiles) -> None:
    """Without progress nothing is trusted; with a log the table is seen, so that an interrupted drop is done again."""
    for table in (NAME, NAME.quarantine):
        load(storage, table)
    files = Removals(storage.root)
    files.gone = []
    make_lake(files, Catalog()).drop(NAME)
    gone = [p for p in files.gone if "/leases/" not in p]
    kinds = ["progress" if "_penstock" in p else "log" if "_delta_log" in p else "data" for p in gone]
    assert kinds == ["progress", "data", "log"] * 2
    assert [NAME.quarantine.path in path for path in gone] == [True] * 3 + [False] * 3


def test_a_drop_that_was_interrupted_leaves_a_table_that_nobody_trusts(
    storage: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(storage)

    def stop(*_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "fault_point", stop)
    with pytest.raises(KeyboardInterrupt):
        make_lake(storage, Catalog()).drop(NAME)
    state = read_table_state(storage, NAME, CODEC)
    assert state.exists
    assert state.progress is None


def test_a_dropped_table_is_no_longer_known_by_its_name(storage: LocalFiles) -> None:
    load(storage)
    session = Catalog(orders=storage.spark_path(NAME.path), orders__quarantine=storage.spark_path(NAME.quarantine.path))
    lake = make_lake(storage, session)
    for table in (NAME, NAME.quarantine):
        lake.register(table)
    lake.drop(NAME)
    assert session.dropped == [
        "DROP TABLE IF EXISTS `staging`.`orders__quarantine`",
        "DROP TABLE IF EXISTS `staging`.`orders`",
    ]
    before = len(session.statements)
    lake.register(NAME)
    assert len(session.statements) > before, "a table that comes back must be registered again"


def test_a_drop_leaves_a_table_of_that_name_at_another_place_alone(storage: LocalFiles) -> None:
    load(storage)
    session = Catalog(orders="/elsewhere/orders")
    make_lake(storage, session).drop(NAME)
    assert session.dropped == []


@pytest.mark.parametrize("code", ["DELTA_CONCURRENT_APPEND", "DELTA_METADATA_CHANGED"])
def test_a_conflict_is_told_as_such_and_other_errors_pass(code: str, storage: LocalFiles) -> None:
    name = DatasetName("staging", "orders")
    with pytest.raises(ConcurrentRunError, match="another writer"), write_errors_named(storage, name):
        raise RuntimeError(f"[{code}] something")
    with pytest.raises(RuntimeError, match="no conflict"), write_errors_named(storage, name):
        raise RuntimeError("no conflict")


def test_a_log_that_cannot_be_read_is_told_as_such(storage: LocalFiles) -> None:
    """Delta's own error for a garbled commit is one of its JSON parser."""
    with pytest.raises(DamagedLogError, match="Delta cannot read"), write_errors_named(storage, NAME):
        raise RuntimeError("[DELTA_TRUNCATED_TRANSACTION_LOG] something")
    load(storage)
    (storage.root / NAME.path / "_delta_log" / f"{0:020d}.json").write_text("{")
    with pytest.raises(DamagedLogError, match="version 0 of"), write_errors_named(storage, NAME):
        raise RuntimeError("unexpected end of input")


def test_what_a_commit_hides_is_not_said_of_the_next_one(storage: LocalFiles) -> None:
    """Otherwise rows that come back would count as hidden for the tables that read them."""
    load(storage)
    lake = make_lake(storage, Catalog())
    begun = lake.begin_again(NAME, "b", hides="a request")
    assert begun.hides == "a request"
    write_table(storage.root / NAME.path, begun.number)
    assert lake.begin_again(NAME, "b").hides is None
