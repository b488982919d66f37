"""Erased means gone: from every file of the project, proven by a scan and a receipt; and a replay does not bring it back."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any, TypeVar

import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError, VerificationError
from penstock.kinds.cdc import batch as change_batch
from penstock.maintenance.erasure.erasing import Erasure
from penstock.maintenance.erasure.tombstones import Tombstones
from penstock.maintenance.erasure.values import Erased
from penstock.maintenance.tables.values import Caution
from penstock.model.names import DatasetName
from penstock.model.results import Outcome
from penstock.receipt_access import open_receipts
from tests.projects import ProjectFolder
from tests.spark.erasure_projects import (
    ANN,
    BOB,
    PERSONAL,
    ZOE,
    add_odd_rows,
    feed,
    make_everywhere,
    open_people,
    write_feeds,
)
from tests.spark.tables import forget_tables, read_table
from tests.spark.test_tombstones import look, run

pytestmark = pytest.mark.spark

CAUTION = Caution(settle=0.5, wait=20)
T = TypeVar("T")


def find_bytes(root: Path, *texts: str) -> list[str]:
    """Files with one of these texts as bytes, in any case; names count too."""
    found = []
    for path in root.rglob("*"):
        content = path.read_bytes().lower() if path.is_file() else b""
        if any(text.lower().encode() in content or text.lower() in path.name.lower() for text in texts):
            found.append(str(path.relative_to(root)))
    return found


def test_a_person_is_gone_from_every_file_and_stays_gone(
    spark: Any, people: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    originals = keep_originals(people)
    before = look(spark, people)
    erasure = open_people(people).erasure
    erasure.add("customer", [f"email={ANN}"], reason="DSR-17", actor="dpo")
    hidden = look(spark, people)
    feed(people, "2", (ANN, "Paris", 9), (BOB, "Kiel", 4))
    assert not open_people(people).run().has_failed
    assert find_bytes(people.root / "storage" / "staging", ANN)
    check_no_file_goes_when_hiding_lost_rows(people, monkeypatch)
    check_dry_run(people)
    done = open_people(people).erasure.erase(caution=CAUTION)
    (receipt,) = done.receipts
    assert receipt.scan.hits == 0
    assert {key.table for key in receipt.keys} == {"staging.customers", "main.people"}
    stayed = {table.table: table.survivors_before for table in receipt.tables}
    assert stayed == {table.table: table.survivors_after for table in receipt.tables}
    rows = {table: checksum.rows for table, checksum in stayed.items() if checksum is not None}
    assert rows.pop("main.people") > 0
    assert rows == {"staging.customers": 2, "staging.customers__quarantine": 1}, "in files that hiding wrote again"
    assert find_bytes(people.root, ANN, "Ann Miller") == []
    after = look(spark, people)
    assert after["staging"] == hidden["staging"]
    assert after["quarantine"] == hidden["quarantine"]
    assert {row[0] for row in after["people"]} == {BOB, ZOE}
    listed = open_receipts(open_people(people).project).list()
    assert [each.id for each in listed] == [receipt.id]
    assert ANN not in json.dumps(done.to_json())
    states = {each.state.value for each in erasure.tombstones()}
    assert states == {"physical"}
    assert all(item.outcome is Outcome.NO_OP for item in run(people).values()), "nothing looks changed"

    # replay: last month's raw batch and change feed come again, with late events
    values = {"email": [ANN.upper(), BOB], "name": ["Ann Miller", "Bob"], "age": [51, 52]}
    people.raw("customers", "0009", values)
    feed(people, "9", (ANN, "Rome", 1), (ANN, "Oslo", 20), (ANN, None, 2), (ZOE, "Ulm", 7))
    assert run(people)["main.people"].load.suppressed == 3
    replayed = look(spark, people)
    assert ANN not in repr(replayed).lower()
    assert (BOB, "Bob", 52) in replayed["staging"]
    assert [row for row in replayed["people"] if row[0] == ZOE] == [(ZOE, "Bonn", 1, 7), (ZOE, "Ulm", 7, None)]
    assert before["people"] != replayed["people"]
    monkeypatch.setattr(change_batch, "can_replay", lambda _: False)  # as for a large batch
    result = open_people(people).run(open_people(people).request(full_refresh_all=True, allow_history_loss="people"))
    assert not result.has_failed, [str(item.problem) for item in result.items]
    assert {item.id: item.load.suppressed for item in result.items if item.load and item.load.suppressed} == {
        "staging.customers": 1,
        "main.people": 3,
    }
    assert ANN not in repr(look(spark, people)).lower()
    (load,) = (item.load for item in result.items if item.id == "staging.customers")
    assert load is not None
    assert load.rows + load.quarantined + load.suppressed == rows_of_footers(people)
    assert {check.rows for check in open_people(people).erasure.verify_hashes()} == {0}
    deliver_again(people, originals)
    check_files_that_came_again(spark, people, monkeypatch)


def check_files_that_came_again(spark: Any, people: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the new files with the person were loaded; the originals, with their old times, were not."""
    loaded = look(spark, people)
    assert {item.id: [reason.code for reason in item.reasons] for item in open_people(people).maintenance.due()} == {
        "staging.customers": ["sources_unsearched"],
        "main.people": ["sources_unsearched"],
    }
    done = open_people(people).erasure.erase(caution=CAUTION)
    (receipt,) = done.receipts
    assert (done.files_searched, receipt.tables, receipt.scan.hits) == (5, (), 0)
    assert receipt.records_removed == 9
    assert find_bytes(people.root, ANN, "Ann Miller") == []
    assert look(spark, people) == loaded, "other people are unharmed"
    assert open_people(people).erasure.verify("customer", [f"email={ANN}"]).is_clean
    assert refuse_spark(monkeypatch, open_people(people).erasure.erase) == Erased()
    assert refuse_spark(monkeypatch, open_people(people).maintenance.maintain).is_empty


def check_dry_run(people: ProjectFolder) -> None:
    """Files, rows and bytes of each table and source; no answer when one of them cannot be searched."""
    before = sorted(path for path in people.root.rglob("*") if "logs" not in path.parts)
    counted = open_people(people).erasure.count()
    tables = {str(each.table): each for each in counted.tables}
    assert {name: table.rows for name, table in tables.items() if table.rows} == {
        "staging.customers": 1,
        "main.people": 2,
    }
    people_ = tables["main.people"]
    assert people_.files_to_rewrite + people_.files_to_remove >= 1
    assert people_.bytes_to_rewrite + people_.bytes_to_remove > 0
    assert tables["staging.customers"].files_to_remove >= 1
    assert tables["staging.customers"].bytes_to_remove > 0
    assert all(table.log_files for table in tables.values())
    raw, feeds = (f"{people.root}/{folder}" for folder in ("raw", "feeds/people"))
    sources = {each.place: (each.rewritten, each.removed) for each in counted.sources if each.removed}
    assert sources[f"staging.customers: {raw}"] == (2, 2)
    assert sources[f"main.people: {feeds}"] == (2, 4)
    assert sorted(path for path in people.root.rglob("*") if "logs" not in path.parts) == before, "nothing was written"
    broken = people.root / "feeds" / "people" / "3.json"
    broken.write_text('{"email": "somebody')
    with pytest.raises(PenstockError, match=r"3\.json has records that cannot be read") as caught:
        open_people(people).erasure.count()
    assert caught.value.exit_code == 1
    broken.unlink()


def rows_of_footers(project: ProjectFolder) -> int:
    return sum(pq.read_metadata(path).num_rows for path in (project.root / "raw" / "customers").glob("*.parquet"))


def keep_originals(project: ProjectFolder) -> dict[Path, tuple[bytes, int]]:
    """Every source file as it was delivered, with its time."""
    files = [path for folder in ("raw", "feeds") for path in (project.root / folder).rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def deliver_again(project: ProjectFolder, originals: dict[Path, tuple[bytes, int]]) -> None:
    """Put original files beside those that were erased, as `cp -p` does."""
    for path, (content, time) in originals.items():
        copy = path.with_stem(f"{path.stem}-again")
        copy.write_bytes(content)
        os.utime(copy, ns=(time, time))


def refuse_spark(monkeypatch: pytest.MonkeyPatch, act: Callable[[], T]) -> T:
    """Do something that must not need Spark."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    with monkeypatch.context() as patch:
        patch.setattr("penstock.run.executor.Executor.open_lake", refuse)
        return act()


def check_no_file_goes_when_hiding_lost_rows(people: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted((people.root / "storage" / "staging").rglob("*"))
    table = DatasetName("staging", "customers")
    with open_people(people) as engine, engine.lake(()) as lake, monkeypatch.context() as patch:
        tombstones = Tombstones(engine.erasure.catalog, engine.clock, lake, "")
        erasure = Erasure(tombstones, tuple(tombstones.store.read()), (table,), len, CAUTION)
        patch.setenv("PENSTOCK_FAULT", "hide.unequal")
        with pytest.raises(VerificationError, match=r"after others were hidden in version 2 .* no file was removed"):
            erasure.erase_table(table)
    assert sorted((people.root / "storage" / "staging").rglob("*")) == before


@pytest.mark.deep
def test_a_person_is_gone_from_every_kind_of_place(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_everywhere(tmp_path / "everywhere")
    assert not open_people(project).run().has_failed
    add_odd_rows(project)
    assert not open_people(project).run().has_failed
    originals = keep_originals(project)
    everyone = find_bytes(project.root, ANN)
    for place in (
        "raw/",
        "feeds/people/",
        "feeds/csv/",
        "feeds/debezium/",
        "main/tracked",
        "main/followers",
        "quarantine",
    ):
        assert any(place in name for name in everyone), place
    before = checksums(spark, project)
    open_people(project).erasure.add("customer", [f"email={ANN}"], reason="DSR-17", actor="dpo")
    assert not open_people(project).run().has_failed
    with continuous(spark, project) as stream:
        (receipt,) = open_people(project).erasure.erase(caution=CAUTION).receipts
        assert receipt.scan.hits == 0
        assert find_bytes(project.root, ANN, "Ann Miller") == []
        assert checksums(spark, project) == before, "other people are unharmed"
        assert all(item.outcome is Outcome.NO_OP for item in run(project).values())
        for batch, change in (("later", (BOB, "Kiel", 40)), ("later-2", (BOB, None, 42))):
            stream.forget()
            feed(project, batch, change)
            stream.wait_for("main.people")
    run(project)
    before = checksums(spark, project)
    write_feeds(project, "again")
    feed(project, "again", (ANN, "Rome", 1), (ANN, "Oslo", 30))
    project.raw("customers", "0009", {"email": [ANN], "name": ["Ann Miller"], "age": [51]})
    run(project)
    full = open_people(project).request(
        full_refresh_all=True, allow_history_loss="people,csv_people,debezium_people,followers"
    )
    assert not open_people(project).run(full).has_failed
    tables = (path for path in (project.root / "storage").glob("*/*") if (path / "_delta_log").is_dir())
    assert (
        ANN
        not in repr([read_table(spark, path).to_pylist() for path in tables if "_penstock" not in str(path)]).lower()
    )
    assert checksums(spark, project) == before

    # an export below the storage has the person too: no receipt, and nothing is forgotten until it is gone
    deliver_again(project, originals)
    export = project.root / "storage" / "export.txt"
    export.write_text(f"sent to {ANN}\n")
    with pytest.raises(PenstockError, match="export"):
        open_people(project).erasure.erase(caution=CAUTION)
    assert find_bytes(project.root, ANN) == ["storage/export.txt"]
    with pytest.raises(PenstockError, match="export"):
        open_people(project).erasure.erase(caution=CAUTION)
    export.unlink()
    (receipt,) = open_people(project).erasure.erase(caution=CAUTION).receipts
    assert receipt.scan.hits == 0
    assert find_bytes(project.root, ANN, "Ann Miller") == []
    assert open_people(project).erasure.verify("customer", [f"email={ANN}"]).is_clean
    assert not list((project.root / "storage/_penstock/aside").glob("*"))
    assert checksums(spark, project) == before
    assert refuse_spark(monkeypatch, open_people(project).erasure.erase) == Erased()
    check_originals_in_their_old_places(spark, project, originals)
    forget_tables(spark)


def check_originals_in_their_old_places(
    spark: Any, project: ProjectFolder, originals: dict[Path, tuple[bytes, int]]
) -> None:
    """The tables are rebuilt from them, and then the files are erased once more."""
    for path, (content, _) in originals.items():
        path.write_bytes(content)
    run(project)
    loaded = checksums(spark, project)
    assert open_people(project).erasure.count().sources
    assert len(open_people(project).erasure.erase(caution=CAUTION).receipts) == 1
    assert find_bytes(project.root, ANN, "Ann Miller") == []
    assert all(item.outcome is Outcome.NO_OP for item in run(project).values()), "nothing looks changed"
    assert checksums(spark, project) == loaded


@dataclass(slots=True)
class Stream:
    """What `penstock run --continuous` has applied since somebody looked."""

    applied: Queue[str]
    ended: Future[None]

    def forget(self) -> None:
        """Look only at what is applied from now on."""
        with suppress(Empty):
            while True:
                self.applied.get_nowait()

    def wait_for(self, table: str) -> None:
        """Wait until a batch is applied to the table; an error that ended the stream is raised."""
        for _ in range(600):
            with suppress(Empty):
                if self.applied.get(timeout=0.2) == table:
                    return
            if self.ended.done():
                self.ended.result()
        raise AssertionError(f"no batch for {table}")


@contextmanager
def continuous(spark: Any, project: ProjectFolder) -> Iterator[Stream]:
    """The project's streaming tables are kept up to date meanwhile: an erasure must not end that, nor ask for a refresh."""
    stop, applied, engine = threading.Event(), Queue[str](), open_people(project)

    def follow() -> None:
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)
        engine.run_continuously(lambda table, *_: applied.put(str(table)), stop, 0.5)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(follow)
        try:
            yield Stream(applied, ended)
        finally:
            stop.set()
        ended.result(timeout=120)


def checksums(spark: Any, project: ProjectFolder) -> dict[str, list[Any]]:
    """The rows of everybody else, without what Penstock stores beside them."""
    found = {}
    for path in sorted((project.root / "storage").glob("*/*")):
        if (path / "_delta_log").is_dir() and path.name in PERSONAL:
            rows = read_table(spark, path).to_pylist()
            kept = [
                {k: v for k, v in row.items() if not k.startswith("__")} for row in rows if ANN not in repr(row).lower()
            ]
            found[path.name] = sorted(map(repr, kept))
    return found
