"""A table in a database for the tour: accounts in a SQLite file, loaded by their time of change."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

DATABASE = "crm.db"
TABLE = "accounts"
DEFINITION = f'''"""Accounts from the database of the sales team, with a mark on those that were deleted there."""

from penstock import pipelines as dp

dp.load(
    "crm.accounts",
    source=dp.sqlite(path="{DATABASE}", table="{TABLE}"),
    keys=["id"],
    cursor="updated_at",
    deletes="soft",
    check_deletes="always",
)
'''
_FIRST = (
    "CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT NOT NULL, seats INTEGER, updated_at TEXT NOT NULL)",
    "CREATE INDEX by_change ON accounts (updated_at)",
    "INSERT INTO accounts VALUES (1, 'Mill', 5, '2025-03-01 09:00:00'), (2, 'Weir', 20, '2025-03-01 10:30:00')",
    "INSERT INTO accounts VALUES (3, 'Lock', 1, '2025-03-02 08:15:00')",
)
CHANGES = (
    "UPDATE accounts SET seats = 8, updated_at = '2025-03-03 11:00:00' WHERE id = 1",
    "INSERT INTO accounts VALUES (4, 'Dam', 50, '2025-03-03 11:05:00')",
    "DELETE FROM accounts WHERE id = 3",
)


def write_load_definition(root: Path) -> Path:
    """Add the database, and the definition of its load, to a project."""
    _execute(root, _FIRST)
    file = root / "transformations" / "accounts.py"
    file.write_text(DEFINITION)
    return file


def change_accounts(root: Path) -> None:
    """An update, an insert and a delete in the database."""
    _execute(root, CHANGES)


def _execute(root: Path, statements: tuple[str, ...]) -> None:
    with closing(sqlite3.connect(root / DATABASE)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
