"""Access to the receipts of erasures for the command line, a web page or a notebook; they need nothing else of `maintenance`.

receipts = open_receipts(project)
receipts.read("01a0f7c2-7a11-7c3e-9a61-1d2f3a4b5c6d").rows_removed
receipts.verify(Path("receipt.json").read_bytes())
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import PenstockError, UsageError
from penstock.maintenance import receipts
from penstock.model.project import Project
from penstock.model.receipt_json import to_json
from penstock.model.receipts import Receipt
from penstock.storage.files import Files, open_files
from penstock.tombstones.secrets import Secrets, to_secrets


@dataclass(frozen=True, slots=True)
class ListedReceipt:
    """A stored receipt, or why it cannot be trusted."""

    id: str
    receipt: Receipt | None
    problem: PenstockError | None = None


@dataclass(frozen=True, slots=True)
class Receipts:
    """The receipts of a project. Whatever is given back has been verified."""

    _files: Files
    _secrets: Secrets

    def list(self) -> tuple[ListedReceipt, ...]:
        """All receipts, newest first."""
        return tuple(map(self._listed, receipts.list_receipts(self._files)))

    def read(self, receipt_id: str) -> Receipt:
        """A receipt by its id, or by what only one id begins with."""
        found = [known for known in receipts.list_receipts(self._files) if known.startswith(receipt_id)]
        if receipt_id not in found and len(found) != 1:
            problem = "there is no receipt" if not found else f"{len(found)} receipts begin with"
            raise UsageError(f"{problem} {receipt_id}", hint="`penstock receipt ls` lists them")
        chosen = receipt_id if receipt_id in found else found[0]
        receipt = self.verify(receipts.read_receipt(self._files, chosen))
        if receipt.id != chosen:
            raise receipts.misplaced(chosen, receipt)
        return receipt

    def verify(self, content: bytes) -> Receipt:
        """A receipt from anywhere, if not a byte of it was changed.

        VerificationError if one was, UsageError if this is not a receipt, ConfigError if its secret is missing.
        """
        return receipts.verify(content, self._secrets)

    def _listed(self, receipt_id: str) -> ListedReceipt:
        try:
            return ListedReceipt(receipt_id, self.read(receipt_id))
        except PenstockError as error:
            return ListedReceipt(receipt_id, None, error)


def open_receipts(project: Project) -> Receipts:
    """The receipts of a project, below its storage, and its secrets to verify them with."""
    return Receipts(open_files(project.storage, project.configuration), to_secrets(project.erasure.secrets))


__all__ = ["ListedReceipt", "Receipt", "Receipts", "open_receipts", "to_json"]
