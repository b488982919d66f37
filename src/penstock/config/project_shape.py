"""The fields of penstock.yml: what each one means, which values it allows, and what is wrong with other values.

Names are those of Spark's `spark-pipeline.yml` where they mean the same. A problem never quotes the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.config.jobs import JOBS, SCHEDULES
from penstock.config.loads import CONNECTIONS, LOADS
from penstock.config.shape import AnyScalar, Field, Flag, ListOf, MapOf, Record, Text, Whole
from penstock.config.spark_settings import SPARK_SETTINGS
from penstock.model.contract import Nested, OnDrift, OnRemovedFiles
from penstock.model.erasure import Hide
from penstock.model.event_log_uris import EventLogUriError, parse_event_log_uri
from penstock.model.keys import NormalForm
from penstock.model.names import STAGING_DATABASE, is_name_part
from penstock.model.places import place_problem
from penstock.model.project import DEFAULT_LAYOUT, LAYOUTS
from penstock.model.quantities import to_bytes, to_seconds, to_share
from penstock.model.text_files import OnBadRow, find_encoding
from penstock.model.types import normal_type

_PROJECT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_MASTER = re.compile(r"(local(\[[^\]]+\])?|yarn|(spark|k8s)://.+)\Z")


def project_name_problem(text: str) -> str | None:
    """What is wrong with the name of a project, if anything."""
    if _PROJECT_NAME.match(text) and len(text) <= 100:
        return None
    return "must start with a letter and contain only letters, digits, `_` and `-`, at most 100 characters"


def _database_problem(text: str) -> str | None:
    if not is_name_part(text):
        return "must be letters, digits and `_`, and not start with a digit"
    return (
        f"cannot be `{STAGING_DATABASE}`, which is reserved for staging tables"
        if text.lower() == STAGING_DATABASE
        else None
    )


def _event_log_problem(text: str) -> str | None:
    try:
        parse_event_log_uri(text)
    except EventLogUriError as error:
        return error.problem
    return None


def _master_problem(text: str) -> str | None:
    if _MASTER.match(text):
        return None
    if text.startswith("sc://"):
        return "is a Spark Connect address; use `spark.remote` for it"
    return "must be `local[N]`, `local[*]`, `yarn`, `spark://host:port` or `k8s://...`"


def _remote_problem(text: str) -> str | None:
    return None if re.match(r"sc://[^/;:]+", text) else "must be a Spark Connect address such as `sc://host:15002`"


def _glob_problem(text: str) -> str | None:
    if text.startswith(("/", "~")) or ".." in text.split("/"):
        return "must stay inside the project: a path relative to penstock.yml, such as `transformations/**`"
    return None


def _var_problem(text: str) -> str | None:
    return None if is_name_part(text) else "must be a name: letters, digits and `_`, not starting with a digit"


def _target_problem(text: str) -> str | None:
    return (
        None if re.match(r"[A-Za-z_][A-Za-z0-9_-]*\Z", text) else "must be a target name: letters, digits, `_` and `-`"
    )


def _table_problem(text: str) -> str | None:
    return None if is_name_part(text) else "must be the name of a table in the raw folder, without a database"


def _type_problem(text: str) -> str | None:
    try:
        normal_type(text)
    except ValueError:
        return "must be a type such as `bigint`, `decimal(18,2)`, `string` or `timestamp`"
    return None


def _encoding_problem(text: str) -> str | None:
    try:
        find_encoding(text)
    except ValueError:
        return "must be a text encoding such as `utf-8`, `latin-1` or `cp1252`"
    return None


def _quantity(text: str, convert: Callable[[str], object]) -> str | None:
    try:
        convert(text)
    except ValueError as error:
        return str(error)
    return None


_INCLUDE = Field(Text(_glob_problem, examples=("transformations/**",)), "A glob below the project.", required=True)
_GLOB = Field(Record({"include": _INCLUDE}), "Which files to load.", required=True)
_PLACE = Text(place_problem, private=True, examples=("storage", "s3a://bucket/lake"))

_RAW = Record(
    {
        "path": Field(_PLACE, "Folder or object store in which raw batches arrive.", default="raw"),
        "layout": Field(Text(choices=LAYOUTS), "How files are named below `path`.", default=DEFAULT_LAYOUT),
    },
    short="path",
)
_SPARK = Record(
    {
        "master": Field(
            Text(_master_problem, private=True, examples=("local[*]", "spark://host:7077")),
            "Where to start a session.",
            default="local[*]",
        ),
        "remote": Field(
            Text(_remote_problem, private=True, examples=("sc://host:15002",)),
            "Address of a Spark Connect server to use instead of starting a session.",
        ),
        "jars": Field(Text(), "Folder of jars to use instead of downloading them, to work offline."),
    },
    exclusive=("master", "remote"),
)
_DECLARED_COLUMN = Record(
    {
        "type": Field(Text(_type_problem, examples=("bigint", "decimal(18,2)")), "The minimum type of the column."),
        "required": Field(Flag(), "Whether NULL values are rejected.", default=False),
    },
    short="type",
)
_SIGN = Text(examples=(";", "tab"))
_FILES = Record(
    {
        "header": Field(Flag(), "Whether the first record of a CSV file has the column names.", default=True),
        "delimiter": Field(_SIGN, "The sign between fields; a comma by default, in `.tsv` files a tab."),
        "quote": Field(_SIGN, "The sign around fields, or `none`.", default='"'),
        "escape": Field(_SIGN, "The sign before a quote inside quotes; by default such a quote is doubled."),
        "encoding": Field(Text(_encoding_problem, examples=("latin-1",)), "The text encoding.", default="utf-8"),
        "null_text": Field(
            Text(examples=("NULL",)), "The unquoted text that stands for NULL; by default an empty field."
        ),
        "quoted_null": Field(Flag(), "Whether `null_text` stands for NULL in quotes too.", default=False),
        "on_bad_row": Field(
            Text(choices=tuple(OnBadRow)),
            "What to do with a record that cannot be read.",
            default=OnBadRow.FAIL.value,
        ),
    }
)
_CONTRACT = Record(
    {
        "columns": Field(MapOf(_DECLARED_COLUMN, "columns"), "Columns of the table: a type, or `type` and `required`."),
        "renames": Field(
            MapOf(Text(), "columns in raw files"), "From a column name in raw files to its name in the table."
        ),
        "on_drift": Field(
            Text(choices=tuple(OnDrift)),
            "What to do if a column type cannot be changed in place.",
            default=OnDrift.EVOLVE.value,
        ),
        "on_removed_files": Field(
            Text(choices=tuple(OnRemovedFiles)),
            "What to do if loaded files are missing from raw.",
            default=OnRemovedFiles.KEEP.value,
        ),
        "nested": Field(
            Text(choices=tuple(Nested)), "How structs, arrays and maps are stored.", default=Nested.JSON.value
        ),
        "files": Field(_FILES, "How CSV and JSON-lines files are read."),
    }
)
_FORM = Field(Text(choices=tuple(NormalForm)), "How values of text are compared.", default=NormalForm.EXACT.value)
_KEY_COLUMN = Record({"name": Field(Text(), "The column.", required=True), "normal_form": _FORM}, short="name")
_ERASABLE = Record(
    {
        "key": Field(
            ListOf(_KEY_COLUMN, or_one=True), "The column or columns that identify the subject.", required=True
        ),
        "personal": Field(ListOf(Text(), or_one=True), "Columns with personal values, which must be gone too."),
        "normal_form": _FORM,
    },
    short="key",
)
_WITHIN = Text(lambda text: _quantity(text, to_seconds), examples=("30 days",))
_POLICY = {
    "target_file_size": Field(
        Text(lambda text: _quantity(text, to_bytes), examples=("128 MB",)),
        "Small files, of less than a quarter of this size, are merged up to it.",
        default="128 MB",
    ),
    "most_small_files": Field(
        Whole(most=1_000_000), "With more small files in a table, compaction is due.", default=50
    ),
    "most_hidden_rows": Field(
        Text(lambda text: _quantity(text, to_share), examples=("10%",)),
        "With a greater share of rows that deletion vectors hide, compaction is due.",
        default="10%",
    ),
}
_TABLE_POLICY = Record(
    {
        **{name: Field(field.shape, field.description) for name, field in _POLICY.items()},
        "physical_within": Field(_WITHIN, "The greatest age of a tombstone before it must be physical."),
        "keys": Field(ListOf(Text(), or_one=True), "Columns that identify a row: compaction removes duplicates."),
        "keep_last_by": Field(ListOf(Text(), or_one=True), "Columns that tell which row of a key is the last."),
    }
)
_COMPACTION = Record(
    {**_POLICY, "tables": Field(MapOf(_TABLE_POLICY, "tables"), "Policies of tables that differ, and their keys.")}
)
_ERASURE = Record(
    {
        "secrets": Field(
            MapOf(Text(private=True), "ids of secrets"),
            "Secrets that the hashes of tombstones are made with, by their id; the first one makes new hashes.",
        ),
        "hide": Field(
            Text(choices=tuple(Hide)),
            "How rows are hidden: `table` keeps the protocol of a table, `vectors` upgrades it to deletion vectors.",
            default=Hide.TABLE.value,
        ),
        "physical_within": Field(
            _WITHIN, "The greatest age of a tombstone before `penstock maintain` makes it physical.", default="30 days"
        ),
        "subjects": Field(
            MapOf(MapOf(_ERASABLE, "tables"), "subjects"), "Where the keys and personal values of a subject are."
        ),
    }
)
_OVERRIDABLE = {
    "name": Field(Text(project_name_problem), "Name of the project.", required=True),
    "storage": Field(_PLACE, "Folder or object store for the tables.", default="storage"),
    "database": Field(Text(_database_problem), "Database of names without a database.", default="main"),
    "libraries": Field(ListOf(Record({"glob": _GLOB})), "Where the definition files are."),
    "configuration": Field(
        MapOf(AnyScalar(as_text=True), "Spark settings", known=SPARK_SETTINGS), "Settings of the Spark session."
    ),
    "raw": Field(_RAW, "Where raw batches arrive: a folder, or a mapping with `path` and `layout`."),
    "event_log": Field(
        Text(
            _event_log_problem, private=True, examples=("sqlite:///.penstock/events.db", "postgresql://host/penstock")
        ),
        "URI of the event log.",
        default="sqlite:///.penstock/events.db",
    ),
    "spark": Field(_SPARK, "How to get a Spark session."),
    "threads": Field(Whole(most=1024), "How many datasets are processed at the same time.", default=4),
    "staging": Field(MapOf(_CONTRACT, "tables", _table_problem), "Declarations about staging tables."),
    "connections": Field(CONNECTIONS, "How databases are reached, by the names that loads use."),
    "loads": Field(LOADS, "Tables of other systems, loaded into tables of this project."),
    "erasure": Field(_ERASURE, "Erasure of persons: secrets, subjects, and how rows are hidden."),
    "compaction": Field(_COMPACTION, "When tables are compacted, and how."),
    "jobs": Field(JOBS, "How often job runs are tried, and how long they may take."),
    "schedules": Field(SCHEDULES, "What `penstock scheduler` runs, and when."),
    "vars": Field(MapOf(AnyScalar(), "names", _var_problem), "Values that definitions read and a run may override."),
}
_TARGET = Record({name: Field(f.shape, f.description, default=f.default) for name, f in _OVERRIDABLE.items()})

PROJECT = Record(
    {
        **_OVERRIDABLE,
        "default_target": Field(Text(_target_problem), "Target to use if the command does not name one."),
        "targets": Field(
            MapOf(_TARGET, "target names", _target_problem), "Named sets of fields that replace those above."
        ),
    }
)
