"""A receipt counts what earlier attempts at the same erasure removed, before they failed or were killed. No JVM."""

from __future__ import annotations

from pathlib import Path

from penstock.maintenance.erasure.attempts import Attempt, add_up, read_attempts
from penstock.model.receipts import Checksum, ErasedSource, ErasedTable
from penstock.storage.local import LocalFiles
from penstock.tombstones.secrets import to_secrets
from penstock.tombstones.vault import Vault

SUM = Checksum(5, 2**70, 2**63 + 1)
OWN, QUARANTINE = "staging.people", "staging.people__quarantine"


def test_attempts_are_added_up(tmp_path: Path) -> None:
    vault = Vault(LocalFiles(tmp_path), to_secrets({"1": "a secret of the tests, long enough"}))
    first = Attempt("a", 100)
    first.note(vault, ["r1", "r2"])
    assert read_attempts(vault, ["r1", "r2"]) == [], "nothing was removed yet"
    first.tables[OWN] = ErasedTable(OWN, 3, 1, 4, 7, 1000, 900, 10, 13, SUM, SUM)
    first.tables[QUARANTINE] = ErasedTable(QUARANTINE, 1, 1, 1, 1, 50, 40, 1, 3)
    first.note(vault, ["r1", "r2"])
    first.sources.append(ErasedSource("staging.people: raw", 2, 9))
    first.events_redacted = 2
    first.note(vault, ["r1", "r2"])
    assert read_attempts(vault, ["r1", "r2"]) == [first], "each attempt once, with what it did last"

    second = Attempt("b", 200)
    second.tables[OWN] = ErasedTable(OWN, 3, 0, 1, 2, 900, 900, 13, 14)
    second.tables[QUARANTINE] = ErasedTable(QUARANTINE, 1, 1, 1, 1, 40, 30, 3, 5)
    second.tables["main.ages"] = ErasedTable("main.ages", 0, 0, 2, 3, 10, 10, 1, 2)
    second.sources += [ErasedSource("staging.people: raw", 0, 0), ErasedSource("main.feed: feeds", 1, 1)]
    done = add_up([*read_attempts(vault, ["r2"]), second], frozenset({OWN}))
    assert done.tables == {
        OWN: ErasedTable(OWN, 3, 1, 5, 9, 1000, 900, 10, 14, SUM, SUM),
        QUARANTINE: ErasedTable(QUARANTINE, 2, 2, 2, 2, 50, 30, 1, 5),
        "main.ages": second.tables["main.ages"],
    }
    assert done.sources == [ErasedSource("staging.people: raw", 2, 9), ErasedSource("main.feed: feeds", 1, 1)]
    assert (done.started_at, done.events_redacted) == (100, 2)
    assert add_up([second], frozenset()) == second
