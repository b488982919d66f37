"""Fault points: places where a test can kill the process, to prove that a crash there neither loses nor doubles a row.

`PENSTOCK_FAULT=staging.before_commit` kills at that point; `staging.before_commit@staging.orders` only for that dataset.
Without the variable a fault point costs one dictionary lookup.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "PENSTOCK_FAULT"

POINTS = (
    "run.before_events",
    "run.before_dataset",
    "staging.before_attempt",
    "staging.before_rename",
    "staging.after_rename",
    "staging.after_landing",
    "staging.after_attempt",
    "staging.after_aside",
    "staging.before_commit",
    "staging.after_commit",
    "repair.after_aside",
    "derive.before_attempt",
    "derive.after_attempt",
    "derive.after_quarantine",
    "derive.before_commit",
    "derive.after_commit",
    "changes.before_create",
    "changes.before_evolve",
    "changes.after_segment",
    "changes.before_attempt",
    "changes.before_commit",
    "changes.after_commit",
    "changes.before_rebuild",
    "load.begin",
    "load.after_journal",
    "load.after_chunk",
    "load.after_note",
    "load.after_land",
    "load.after_keys",
    "load.before_evolve",
    "load.after_evolve",
    "load.before_attempt",
    "load.after_aside",
    "load.before_commit",
    "load.after_commit",
    "load.before_tidy",
    "plain.before_aside",
    "plain.after_aside",
    "plain.before_create",
    "plain.after_create",
    "plain.before_commit",
    "plain.after_commit",
    "fence.after_commit",
    "drop.after_file",
    "erase.after_table",
    "erase.after_sources",
    "erase.after_redaction",
    "erase.after_scan",
    "erase.after_draft",
    "erase.after_vault",
    "erase.after_receipt",
    "undo.before_commit",
    "undo.after_commit",
    "tombstone.after_vault",
    "tombstone.after_store",
    "hide.after_begin",
    "hide.after_aside",
    "hide.before_commit",
    "hide.after_commit",
    "sources.after_search",
    "sources.after_asides",
    "sources.after_accept",
    "sources.after_replaces",
    "sources.after_settle",
    "segments.after_write",
    "segments.after_commit",
    "rewrite.during_aside",
    "rewrite.after_aside",
    "rewrite.before_replace",
    "rewrite.before_tidy",
    "rewrite.after_replace",
    "aside.after_reserve",
    "aside.before_replace",
    "aside.during_destroy",
    "receipt.before_page",
    "compact.before_duplicates",
    "compact.after_duplicates",
    "compact.before_note",
    "compact.before_files",
    "compact.after_files",
    "compact.after_verify",
    "compact.after_commit",
    "truncation.after_properties",
    "purge.before_rewrite",
    "purge.after_rewrite",
    "purge.after_verify",
    "restate.after_manifest",
    "truncation.after_head",
    "truncation.after_restored",
    "removal.before_files",
    "removal.after_file",
    "truncation.during_proof",
    "truncation.after_proof",
    "truncation.after_file",
    "truncation.after_files",
    "run.after_dataset",
    "run.before_finish",
)


WRONGS = {
    "purge.unequal": "purge.unequal",
    "purge.before_restore": "purge.unequal",
    "purge.after_restore": "purge.unequal",
    "hide.unequal": "hide.unequal",
}
"""What a test can make go wrong, and kills that are reached only then, with what must go wrong for them."""


def is_armed(name: str) -> bool:
    """Whether a test wants this to go wrong here, by its name or by that of a kill that is reached only then."""
    return WRONGS.get(os.environ.get(VARIABLE, "").partition("@")[0]) == name


def fault_point(name: str, dataset: str = "") -> None:
    """Kill this process here, without any clean-up, when a test armed this point."""
    armed = os.environ.get(VARIABLE)
    if not armed:
        return
    point, _, only = armed.partition("@")
    if point == name and (not only or only == dataset):
        os.kill(os.getpid(), signal.SIGKILL)
