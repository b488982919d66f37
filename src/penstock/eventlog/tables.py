"""The tables of every SQL store: the events, an index of them by partition, and the latest states.

The statements use only SQL that SQLite and PostgreSQL share, so that there is one set of queries and one fold. States
are folded in the transaction that writes the events, so the two cannot differ. `{key}` and
`{clustered}` are where the two differ: a position is SQLite's row id, and narrow tables are stored in their key.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """An upgrade by one schema version: only additions, so that code of the version before can still read and write."""

    version: int
    summary: str
    event_columns: tuple[str, ...]
    """Columns that this version adds to events, each a nullable BIGINT (a long in the Delta table)."""


STEPS = (Step(2, "record when each event was written, by the clock of the machine that wrote it", ("recorded_at",)),)

SCHEMA_VERSION = 1 + len(STEPS)
"""The version that a new log gets."""

EVENT_COLUMNS = (
    "position",
    "event_id",
    "timestamp",
    "build_request_id",
    "event_type",
    "job_run_id",
    "job_label",
    "body",
)

TABLES = (
    """CREATE TABLE IF NOT EXISTS penstock_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS penstock_event (
        position {key} PRIMARY KEY,
        event_id TEXT NOT NULL UNIQUE,
        timestamp BIGINT NOT NULL,
        build_request_id TEXT NOT NULL,
        event_type TEXT NOT NULL,
        job_run_id TEXT,
        job_label TEXT,
        body TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS penstock_event_partition (
        partition_ref TEXT NOT NULL,
        position BIGINT NOT NULL,
        PRIMARY KEY (partition_ref, position)){clustered}""",
    """CREATE TABLE IF NOT EXISTS penstock_build (
        build_request_id TEXT PRIMARY KEY,
        status INTEGER NOT NULL,
        requested_partitions TEXT NOT NULL,
        message TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        first_position BIGINT NOT NULL,
        last_position BIGINT NOT NULL,
        cancel_reason TEXT)""",
    """CREATE TABLE IF NOT EXISTS penstock_partition (
        partition_ref TEXT PRIMARY KEY,
        status INTEGER NOT NULL,
        build_request_id TEXT NOT NULL,
        job_run_id TEXT,
        message TEXT NOT NULL,
        updated_at BIGINT NOT NULL,
        last_position BIGINT NOT NULL,
        available_build_request_id TEXT,
        available_at BIGINT,
        invalidated_reason TEXT)""",
    """CREATE TABLE IF NOT EXISTS penstock_build_partition (
        partition_ref TEXT NOT NULL,
        build_request_id TEXT NOT NULL,
        status INTEGER NOT NULL,
        job_run_id TEXT,
        delegated_to TEXT,
        first_position BIGINT NOT NULL,
        last_position BIGINT NOT NULL,
        claim_position BIGINT,
        PRIMARY KEY (partition_ref, build_request_id)){clustered}""",
    """CREATE TABLE IF NOT EXISTS penstock_job (
        job_run_id TEXT PRIMARY KEY,
        build_request_id TEXT NOT NULL,
        job_label TEXT NOT NULL,
        target_partitions TEXT NOT NULL,
        status INTEGER NOT NULL,
        message TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        first_position BIGINT NOT NULL,
        last_position BIGINT NOT NULL,
        cancel_reason TEXT)""",
)

INDEXES = (
    "CREATE INDEX IF NOT EXISTS penstock_event_by_build ON penstock_event (build_request_id, position)",
    "CREATE INDEX IF NOT EXISTS penstock_event_by_time ON penstock_event (timestamp, position)",
    "CREATE INDEX IF NOT EXISTS penstock_event_by_type ON penstock_event (event_type, timestamp)",
    """CREATE INDEX IF NOT EXISTS penstock_event_by_job ON penstock_event (job_run_id, position)
        WHERE job_run_id IS NOT NULL""",
    """CREATE INDEX IF NOT EXISTS penstock_event_by_label ON penstock_event (job_label, position)
        WHERE job_label IS NOT NULL""",
    "CREATE INDEX IF NOT EXISTS penstock_build_recent ON penstock_build (first_position)",
    "CREATE INDEX IF NOT EXISTS penstock_build_by_status ON penstock_build (status, first_position)",
    "CREATE INDEX IF NOT EXISTS penstock_partition_recent ON penstock_partition (last_position)",
    "CREATE INDEX IF NOT EXISTS penstock_partition_by_status ON penstock_partition (status)",
    """CREATE INDEX IF NOT EXISTS penstock_build_partition_active ON penstock_build_partition (partition_ref)
        WHERE status IN (1, 2, 3)""",
    "CREATE INDEX IF NOT EXISTS penstock_job_recent ON penstock_job (first_position)",
    "CREATE INDEX IF NOT EXISTS penstock_job_by_build ON penstock_job (build_request_id, first_position)",
    "CREATE INDEX IF NOT EXISTS penstock_job_by_status ON penstock_job (status, first_position)",
)

STATE_TABLES = ("penstock_build", "penstock_partition", "penstock_build_partition", "penstock_job")
ALL_TABLES = ("penstock_meta", "penstock_event", "penstock_event_partition", *STATE_TABLES)

SQLITE_WORDS = {"key": "INTEGER", "clustered": " WITHOUT ROWID"}
POSTGRES_WORDS = {"key": "BIGINT", "clustered": ""}


def create_statements(words: dict[str, str], version: int) -> list[str]:
    """The statements that make an empty log of a version, in the words of one database."""
    return [*(table.format(**words) for table in TABLES), *INDEXES, *upgrade_statements(1, version)]


def upgrade_statements(before: int, after: int) -> list[str]:
    """The statements that bring a log from one version up to another."""
    columns = [column for step in STEPS if before < step.version <= after for column in step.event_columns]
    return [f"ALTER TABLE penstock_event ADD COLUMN {column} BIGINT" for column in columns]


def downgrade_statements(before: int, after: int) -> list[str]:
    """The statements that take a log back to an older version; only what the newer versions added is lost."""
    columns = [column for step in STEPS if after < step.version <= before for column in step.event_columns]
    return [f"ALTER TABLE penstock_event DROP COLUMN {column}" for column in reversed(columns)]


def event_columns(version: int) -> tuple[str, ...]:
    """The columns of an event in a version."""
    return (*EVENT_COLUMNS, *(column for step in STEPS if step.version <= version for column in step.event_columns))
