"""Receipts of erasures: signed, stored beside the tables, and verified. No JVM.

The signature is an HMAC-SHA256 over the receipt, with a key that is derived from the project's secret of tombstones: who has the
secret can tell whether a single byte was changed. Receipts are never changed or removed by Penstock.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from contextlib import suppress
from typing import Any

from penstock.errors import ConfigError, UsageError, VerificationError
from penstock.faults import fault_point
from penstock.maintenance.receipt_page import Signature, to_page
from penstock.maintenance.scan.results import ScanResult
from penstock.model import receipts as values
from penstock.model.receipt_json import from_json, to_json
from penstock.model.receipts import Receipt
from penstock.storage.files import Files
from penstock.tombstones.secrets import Secrets, derive_key

FOLDER = "_penstock/receipts"
_KIND = "penstock erasure receipt"
_ALGORITHM = "HMAC-SHA256"
_PURPOSE = "signature of receipts"
_MARKS = (_KIND.encode(), _ALGORITHM.encode())
"""Two, far from each other: a receipt in which one was changed is still recognized as a receipt, and not accepted."""


def sign(receipt: Receipt, secrets: Secrets) -> bytes:
    """The receipt as signed JSON. VerificationError when the erasure is not complete: then there must be no receipt."""
    if receipt.problems:
        raise VerificationError(
            f"no receipt can be given: {'; '.join(receipt.problems)}", hint="run `penstock erase` again"
        )
    secret_id = secrets.current
    signed = {"kind": _KIND, "secret_id": secret_id, "receipt": to_json(receipt)}
    return _to_document(signed, secrets.get(secret_id))


def verify(content: bytes, secrets: Secrets) -> Receipt:
    """The receipt, if not a byte of it was changed since it was signed.

    VerificationError if one was, UsageError if this is not a receipt, ConfigError if the secret is missing.
    """
    document = _parse(content)
    try:
        signed = {name: document[name] for name in ("kind", "secret_id", "receipt")}
        secret_id, named = document["secret_id"], document["signature"]["secret_id"]
    except (KeyError, TypeError):
        raise _changed() from None
    if not isinstance(secret_id, str) or secret_id != named:
        raise _changed()
    try:
        secret = secrets.get(secret_id)
    except ConfigError:  # it speaks of suppressed keys, which is not the matter here
        raise ConfigError(
            f"the receipt is signed with the secret {secret_id}, which the project does not have",
            hint="verify it in the project that wrote it, with that secret under `erasure: secrets:` in penstock.yml",
        ) from None
    try:
        is_unchanged = hmac.compare_digest(_to_document(signed, secret), content)
    except RecursionError:  # somebody nested it deeper than it can be written
        is_unchanged = False
    if not is_unchanged:
        raise _changed()
    try:
        return from_json(signed["receipt"])
    except ValueError:
        raise UsageError(
            "the receipt is valid, but this version of Penstock does not know its format",
            hint="use the version of Penstock that wrote it, or a newer one",
        ) from None


def read_signature(content: bytes) -> Signature:
    """What a signed receipt says about its signature, not verified."""
    signature = _parse(content)["signature"]
    digest = hashlib.sha256(content).hexdigest()
    return Signature(signature["algorithm"], signature["secret_id"], signature["value"], digest)


def write_receipt(files: Files, receipt: Receipt, secrets: Secrets) -> Receipt:
    """Store a receipt as signed JSON and as a page. Where its id has one already, that one stays and is given back."""
    path = f"{FOLDER}/{receipt.id}.json"
    with suppress(FileExistsError):  # a run that was killed wrote it, and nobody may write another with its id
        files.create(path, sign(receipt, secrets))
    fault_point("receipt.before_page")
    content = files.read(path)
    stored = verify(content, secrets)
    with suppress(FileExistsError):
        files.create(f"{FOLDER}/{receipt.id}.html", to_page(stored, read_signature(content)).encode())
    return stored


def list_receipts(files: Files) -> list[str]:
    """Ids of all receipts of a project, newest first."""
    return sorted((name.removesuffix(".json") for name in files.names(FOLDER) if name.endswith(".json")), reverse=True)


def read_receipt(files: Files, receipt_id: str) -> bytes:
    """A stored receipt, not verified; UsageError when there is none."""
    try:
        return files.read(f"{FOLDER}/{receipt_id}.json")
    except FileNotFoundError:
        raise UsageError(f"there is no receipt {receipt_id}", hint="`penstock receipt ls` lists them") from None


def misplaced(receipt_id: str, receipt: Receipt) -> VerificationError:
    """What is said of a valid receipt in the file of another one."""
    return VerificationError(
        f"the file of receipt {receipt_id} holds the receipt {receipt.id}", hint="restore the file from a backup"
    )


def to_scan_summary(result: ScanResult) -> values.ScanSummary:
    """What a receipt says about a scan."""
    needles = Counter(search.value for search in result.needles)
    return values.ScanSummary(
        values=tuple(values.SearchCount(how, count) for how, count in sorted(needles.items())),
        places=tuple(values.SearchedPlace(each.place, each.files, each.bytes, each.exists) for each in result.places),
        methods=tuple(values.SearchMethod(each.method, each.files, each.bytes) for each in result.methods),
        names=result.names,
        hits=len(result.hits),
        unreadable=len(result.unreadable),
        inside=len(result.inside),
        undecoded=tuple(values.ScanNote(note.place, note.file, note.reason) for note in result.undecoded),
        seconds=round(result.seconds, 3),
    )


def _to_document(signed: dict[str, Any], secret: bytes) -> bytes:
    """The whole file; the same values always give the same bytes, so that two files can be compared."""
    value = hmac.new(derive_key(secret, _PURPOSE), _render(signed), hashlib.sha256).hexdigest()
    signature = {"algorithm": _ALGORITHM, "secret_id": signed["secret_id"], "value": value}
    return _render({**signed, "signature": signature})


def _render(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _parse(content: bytes) -> dict[str, Any]:
    if content.lstrip()[:9].lower() == b"<!doctype":
        raise UsageError("this is a page for people, which has no signature", hint="verify the .json file beside it")
    if not any(mark in content for mark in _MARKS):
        raise UsageError("this is not a receipt of Penstock", hint="give the .json file of a receipt")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise _changed() from None
    if not isinstance(document, dict):
        raise _changed()
    return document


def _changed() -> VerificationError:
    return VerificationError(
        "the receipt is not valid: it was changed after it was signed, or it was signed with another secret of the same id",
        hint="compare it with the original below _penstock/receipts of the project's storage",
    )
