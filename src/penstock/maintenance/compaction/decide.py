"""What is due for a table, from facts and its policy. Pure."""

from __future__ import annotations

from penstock.model.compaction import DAY, Policy, TableFacts
from penstock.model.plan import Reason
from penstock.model.wording import counted

TOMBSTONES_DUE = "tombstones_due"
SOURCES_DUE = "sources_unsearched"


def decide_maintenance(facts: TableFacts, policy: Policy, now: int) -> tuple[Reason, ...]:
    """Why a table needs maintenance now (nanoseconds since 1970); nothing when it needs none."""
    found = []
    if facts.small_files > policy.most_small_files:
        found.append(
            Reason("small_files", f"{counted(facts.small_files, 'small file')} of {counted(facts.files, 'file')}")
        )
    if facts.hidden_rows and _share(facts) > policy.most_hidden_rows:
        found.append(
            Reason("hidden_rows", f"{_percent(_share(facts))} of the rows are deleted, but still in the files")
        )
    if facts.has_unchecked_keys:
        keys = ", ".join(policy.keys)
        found.append(Reason("keys_unchecked", f"rows changed since duplicates of {keys} were removed"))
    if facts.oldest_tombstone is not None:
        age = (now - facts.oldest_tombstone) // 10**9
        if age >= policy.physical_within:
            limit = f"; the limit is {_show_time(policy.physical_within)}" if policy.physical_within else ""
            text = f"{counted(facts.tombstones, 'tombstone')} not yet physical, the oldest for {_show_time(age)}{limit}"
            found.append(Reason("tombstones_due", text))
    if facts.unsearched_files:
        text = f"{counted(facts.unsearched_files, 'source file')} not yet searched for erased keys"
        found.append(Reason("sources_unsearched", text))
    return tuple(found)


def _share(facts: TableFacts) -> float:
    """The share of hidden rows; where rows could not be counted, all of them could be hidden."""
    return facts.hidden_rows / facts.rows if facts.rows else 1.0


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "less than 1%"


def _show_time(seconds: int) -> str:
    if seconds >= DAY:
        return counted(seconds // DAY, "day")
    return counted(seconds // 3600, "hour") if seconds >= 3600 else counted(seconds // 60, "minute")
