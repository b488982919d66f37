"""A person asks to be forgotten: what the tour adds to the project file for it."""

from __future__ import annotations

from pathlib import Path

SECRET = "ERASURE_SECRET"  # noqa: S105 - the name of the variable, not a secret
SETTINGS = """
# Where a person's key and personal values are. Tombstones keep keys only as hashes, made with a secret.
erasure:
  secrets: {"1": "${ERASURE_SECRET}"}
  subjects:
    customer:
      main.customer_history: {key: id, personal: [name]}
"""


def write_erasure_settings(root: Path) -> Path:
    """Declare the subject `customer` in the project file of a project."""
    file = root / "penstock.yml"
    file.write_text(f"{file.read_text(encoding='utf-8')}{SETTINGS}", encoding="utf-8")
    return file
