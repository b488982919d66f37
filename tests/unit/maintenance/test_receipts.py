"""Receipts: every changed byte is noticed, what is stored is complete, and no receipt is given for less than an erasure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.receipts import SECRETS, make_receipt

from penstock.errors import ConfigError, UsageError, VerificationError
from penstock.maintenance.receipts import (
    FOLDER,
    list_receipts,
    read_receipt,
    sign,
    to_scan_summary,
    verify,
    write_receipt,
)
from penstock.maintenance.scan.results import Hit, MethodCount, Note, PlaceCount, ScanResult, Search
from penstock.model.clock import ManualClock, uuid7
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.receipt_json import from_json, to_json
from penstock.model.receipts import Checksum, Receipt, to_erased_keys
from penstock.model.tombstones import Tombstone
from penstock.storage.local import LocalFiles
from penstock.tombstones.secrets import Secrets, to_secrets

OURS = to_secrets(SECRETS)
RECEIPT = make_receipt()
SIGNED = sign(RECEIPT, OURS)


def test_a_receipt_comes_back_as_it_was() -> None:
    assert verify(SIGNED, OURS) == RECEIPT
    assert sign(RECEIPT, OURS) == SIGNED, "the same receipt always gives the same bytes"
    document = json.loads(SIGNED)
    assert list(document) == ["kind", "secret_id", "receipt", "signature"]
    assert list(document["receipt"])[:3] == ["id", "project", "subject"]
    assert document["receipt"]["finished_at"] == "2026-10-01T12:00:00.123456789Z"
    assert b"first secret" not in SIGNED


@settings(deadline=None, max_examples=50)
@given(actor=st.text(), project=st.text(), number=st.integers(), at=st.integers(0, 4 * 10**18))
def test_any_text_and_number_comes_back(actor: str, project: str, number: int, at: int) -> None:
    table = replace(RECEIPT.tables[0], rows_removed=number, survivors_before=None, survivors_after=None)
    made = replace(make_receipt(actor=actor), project=project, tables=(table,), finished_at=at)
    assert verify(sign(made, OURS), OURS) == made


def test_every_changed_byte_is_noticed() -> None:
    for place in range(len(SIGNED)):
        with pytest.raises(VerificationError):
            verify(SIGNED[:place] + bytes([SIGNED[place] ^ 1]) + SIGNED[place + 1 :], OURS)


@settings(deadline=None, max_examples=300)
@given(place=st.integers(0, len(SIGNED) - 1), byte=st.integers(0, 255), length=st.integers(0, 3))
def test_no_byte_can_be_replaced_left_out_or_added(place: int, byte: int, length: int) -> None:
    changed = SIGNED[:place] + bytes([byte]) + SIGNED[place + length :]
    if changed == SIGNED:
        assert verify(changed, OURS) == RECEIPT
        return
    with pytest.raises(VerificationError):
        verify(changed, OURS)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        yield path, value
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def changes(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield value + 1
        case str():
            yield value + "x"
        case None:
            yield 0
        case dict():
            yield from ({**value, "more": 1}, dict(list(value.items())[1:]), dict(reversed(value.items())))
        case list():
            yield from ([*value, *value[:1]], value[1:]) if value else ([1],)
    yield [] if value != [] else {}


def test_every_changed_field_is_noticed() -> None:
    count = 0
    for path, value in leaves(json.loads(SIGNED)):
        for changed in changes(value):
            document = json.loads(SIGNED)
            inside = document
            for step in path[:-1]:
                inside = inside[step]
            if path:
                inside[path[-1]] = changed
            else:
                document = changed
            content = (json.dumps(document, indent=2) + "\n").encode()
            if content != SIGNED:
                count += 1
                with pytest.raises((VerificationError, UsageError)) as caught:
                    verify(content, OURS)
                assert isinstance(caught.value, VerificationError) or path == (), path
    assert count > 200


@pytest.mark.parametrize(
    "changed",
    [
        SIGNED[:-1], SIGNED + b"\n", SIGNED[:100], SIGNED.replace(b"\n", b"\r\n"), SIGNED.replace(b"  ", b"\t"),
        json.dumps(json.loads(SIGNED)).encode(), b"\xef\xbb\xbf" + SIGNED, SIGNED.decode().encode("utf-16-le") + SIGNED,
        b'["penstock erasure receipt"]', b'{"kind": "penstock erasure receipt"}', b"[" * 100_000 + b"HMAC-SHA256",
        b'{"kind": "penstock erasure receipt", "secret_id": "2026-01", "signature": {"secret_id": "2026-01"}, "receipt": '
        + b"[" * 900 + b"]" * 900 + b"}",
        SIGNED.replace(b'"hits": 0', b'"hits": 0, "hits": 0'),
    ],
)  # fmt: skip
def test_other_bytes_with_the_same_meaning_are_another_file(changed: bytes) -> None:
    with pytest.raises(VerificationError, match="not valid"):
        verify(changed, OURS)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "not a receipt"), (b"{}", "not a receipt"), (b"\xff\x00", "not a receipt"), (b"PAR1", "not a receipt"),
     (b"<!doctype html>\n<p>HMAC-SHA256", "page for people")],
)  # fmt: skip
def test_what_is_not_a_receipt(content: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        verify(content, OURS)


def test_the_secret_that_signed_it_is_needed() -> None:
    rotated = to_secrets({"2027-01": "the second secret of the tests", **SECRETS})
    assert verify(SIGNED, rotated) == RECEIPT
    assert json.loads(sign(RECEIPT, rotated))["signature"]["secret_id"] == "2027-01"
    for missing in (Secrets(), to_secrets({"2027-01": SECRETS["2026-01"]})):
        with pytest.raises(ConfigError, match="the secret 2026-01"):
            verify(SIGNED, missing)
    with pytest.raises(VerificationError, match="another secret"):
        verify(SIGNED, to_secrets({"2026-01": "not the first secret at all"}))
    with pytest.raises(ConfigError, match="no secret"):
        sign(RECEIPT, Secrets())


def test_a_valid_receipt_of_a_newer_version_is_not_called_changed() -> None:
    newer = sign(replace(RECEIPT, format="two"), OURS)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not know its format"):
        verify(newer, OURS)


@pytest.mark.parametrize(
    ("receipt", "said"),
    [
        (replace(RECEIPT, scan=replace(RECEIPT.scan, hits=1)), "found erased values"),
        (replace(RECEIPT, scan=replace(RECEIPT.scan, unreadable=1)), "could not read every file"),
        (replace(RECEIPT, keys=()), "no key"),
        (
            replace(RECEIPT, tables=(replace(RECEIPT.tables[0], survivors_after=Checksum(1, 2, 3)),)),
            "checksums of staging.customers",
        ),
        (replace(RECEIPT, tables=(replace(RECEIPT.tables[0], survivors_before=None),)), "checksums"),
    ],
)
def test_no_receipt_for_less_than_an_erasure(tmp_path: Path, receipt: Receipt, said: str) -> None:
    with pytest.raises(VerificationError, match=said):
        write_receipt(LocalFiles(tmp_path), receipt, OURS)
    assert list_receipts(LocalFiles(tmp_path)) == []


def test_the_first_receipt_of_an_id_stays(tmp_path: Path) -> None:
    storage = LocalFiles(tmp_path)
    assert write_receipt(storage, RECEIPT, OURS) == RECEIPT
    page = (tmp_path / FOLDER / f"{RECEIPT.id}.html").read_bytes()
    assert write_receipt(storage, replace(RECEIPT, finished_at=0), OURS) == RECEIPT
    assert read_receipt(storage, RECEIPT.id) == SIGNED
    assert (tmp_path / FOLDER / f"{RECEIPT.id}.html").read_bytes() == page
    later = make_receipt("02" + RECEIPT.id[2:])
    write_receipt(storage, later, OURS)
    assert list_receipts(storage) == [later.id, RECEIPT.id]
    with pytest.raises(UsageError, match="no receipt"):
        read_receipt(storage, "03")


def test_tombstones_give_hashes_and_no_reason() -> None:
    clock = ManualClock()
    tombstone = Tombstone(
        id=uuid7(clock),
        batch="b1",
        table=DatasetName("staging", "customers"),
        key=(KeyColumn("email"),),
        key_hash="ab" * 32,
        mark=7,
        secret_id="2026-01",
        reason="Ann Miller asked by phone",
        actor="dpo",
        created_at=clock.now_ns(),
    )
    (erased,) = to_erased_keys([tombstone])
    assert (erased.tombstone, erased.table, erased.key_hash) == (tombstone.id, "staging.customers", "ab" * 32)
    assert "Ann" not in repr(erased)
    assert b"phone" not in sign(replace(RECEIPT, keys=(erased,)), OURS)


def test_a_scan_becomes_counts_and_notes() -> None:
    hit = Hit("storage", "a.json", "line 1", 0, "text")
    result = ScanResult(
        hits=(),
        inside=(hit, hit),
        unreadable=(),
        undecoded=(Note("storage", "x.orc", "unknown format"),),
        places=(PlaceCount("storage", 3, 300, exists=True), PlaceCount("raw", 0, 0, exists=False)),
        methods=(MethodCount("Parquet", 2, 200), MethodCount("bytes", 1, 100)),
        needles=(Search.COLUMNS, Search.BYTES, Search.BYTES, Search.SHARED),
        names=7,
        seconds=1.23456,
    )
    summary = to_scan_summary(result)
    assert [(each.how, each.values) for each in summary.values] == [
        ("bytes and columns", 2), ("columns only", 1), ("not searched: a remaining row has the same value", 1),
    ]  # fmt: skip
    assert (summary.hits, summary.unreadable, summary.inside, summary.names, summary.seconds) == (0, 0, 2, 7, 1.235)
    assert [each.exists for each in summary.places] == [True, False]
    assert summary.undecoded[0].file == "x.orc"
    assert to_scan_summary(replace(result, hits=(hit,), unreadable=result.undecoded)).hits == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", 1), ("events_redacted", True), ("events_redacted", 1.0), ("keys", {}), ("keys", [1]), ("scan", None),
     ("finished_at", "2026"), ("finished_at", 5), ("tables", [{"table": "x"}]), ("unreachable", "x")],
)  # fmt: skip
def test_a_field_of_another_type_is_refused(field: str, value: object) -> None:
    assert from_json(to_json(RECEIPT)) == RECEIPT
    with pytest.raises(ValueError, match=r"not |other fields"):
        from_json({**to_json(RECEIPT), field: value})
