"""A receipt with something in every field, for tests."""

from __future__ import annotations

from penstock.model.receipts import (
    Checksum,
    ErasedKey,
    ErasedSource,
    ErasedTable,
    Receipt,
    ScanNote,
    ScanSummary,
    SearchCount,
    SearchedPlace,
    SearchMethod,
)

NOON = 1_790_856_000_123_456_789
SECRETS = {"2026-01": "the first secret of the tests"}


def make_receipt(
    receipt_id: str = "01a0f7c2-7a11-7c3e-9a61-1d2f3a4b5c6d", actor: str = "dpo <privacy> & team"
) -> Receipt:
    """A receipt of a complete erasure."""
    before = Checksum(99_997, -123_456_789_012_345_678_901, 8_070_450_532_247_928_832)
    keys = (
        ErasedKey("01a0f7c0-0001-7000-8000-000000000001", "staging.customers", "ab" * 32, "2026-01", actor, NOON - 10**15),
        ErasedKey("01a0f7c0-0002-7000-8000-000000000002", "main.customer_history", "cd" * 32, "2025-07", actor, NOON - 10**14),
    )  # fmt: skip
    return Receipt(
        id=receipt_id,
        project="shop",
        subject="customer",
        keys=keys,
        tables=(
            ErasedTable("staging.customers", 3, 2, 5, 17, 10_485_761, 10_480_007, 41, 45, before, before),
            ErasedTable(
                "main.customer_history", 12, 1, 4, 9, 734_003, 731_911, 1207, 1211, Checksum(7, 8, 9), Checksum(7, 8, 9)
            ),
            ErasedTable("main.totals", 1, 1, 1, 6, 5_001, 4_903, 88, 90),
        ),
        sources=(
            ErasedSource("raw files of staging.customers", 2, 3),
            ErasedSource("change files of main.customer_history", 14, 31),
            ErasedSource("stored change events of main.customer_history", 1, 2),
        ),
        events_redacted=4,
        scan=ScanSummary(
            values=(SearchCount("bytes and columns", 6), SearchCount("columns only", 2)),
            places=(
                SearchedPlace("storage", 1_234, 9_876_543_210, exists=True),
                SearchedPlace("raw", 56, 7_654_321, exists=True),
                SearchedPlace("caches of the user", 0, 0, exists=False),
            ),
            methods=(SearchMethod("Parquet", 345, 9_000_000_001), SearchMethod("JSON", 678, 800_000_002)),
            names=1_402,
            hits=0,
            unreadable=0,
            inside=11,
            undecoded=(ScanNote("storage", "exports/email=[needle 3]/old.orc", "unknown format"),),
            seconds=73.125,
        ),
        started_at=NOON - 95 * 10**9,
        finished_at=NOON,
        tool_version="0.1.0",
    )
