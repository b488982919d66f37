"""Loads in definition files and in penstock.yml: what they declare, and every wrong option with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.project_file import load_project
from penstock.definitions.loading import load_definitions
from penstock.errors import ConfigError, DefinitionError
from penstock.model.loads import Deletes, DeltaSource, JdbcSource, LoadOptions, NullCursor, SqliteSource, Strategy
from penstock.model.spec import DatasetKind, DatasetSpec

SECRET = "s3cret"
ENVIRONMENT = {"CRM_URL": f"postgresql://loader:{SECRET}@db/crm", "CRM_PASSWORD": SECRET, "HOME": "/nowhere"}
HEAD = "from penstock import pipelines as dp\n"


def load(root: Path, python: str = "", yml: str = "") -> tuple[DatasetSpec, ...]:
    (root / "penstock.yml").write_text(f"name: shop\n{yml}")
    (root / "transformations").mkdir(exist_ok=True)
    (root / "transformations" / "loads.py").write_text(HEAD + python)
    return load_definitions(load_project(root / "penstock.yml", environment=ENVIRONMENT))


def options(root: Path, python: str = "", yml: str = "") -> LoadOptions:
    (spec,) = load(root, python, yml)
    assert spec.kind == DatasetKind.LOAD
    assert spec.load is not None
    return spec.load


def test_everything_can_be_said_in_python(tmp_path: Path) -> None:
    found = options(
        tmp_path,
        """
dp.load("crm.customers", source=dp.jdbc(url="${CRM_URL}", table="public.customers", user="u", password="${CRM_PASSWORD}"),
        strategy="timestamp", keys=["id"], cursor="updated_at", lookback="10 minutes", zone="Europe/Berlin",
        null_cursor="reload", deletes="soft", check_deletes="0 3 * * *", columns=["id", "updated_at"], where="id > 3",
        most_deleted="10%", parallel=2, critical=True, allow_empty=True, comment="c", tags=["t"])
""",
    )
    assert isinstance(found.source, JdbcSource)
    assert found.source.connection.url == ENVIRONMENT["CRM_URL"]
    assert found.source.connection.password == SECRET
    assert (found.strategy, found.deletes, found.null_cursor) == (Strategy.TIMESTAMP, Deletes.SOFT, NullCursor.RELOAD)
    assert (found.lookback, found.zone, found.check_deletes) == (600, "Europe/Berlin", "0 3 * * *")
    assert (found.most_deleted, found.parallel, found.allow_empty, found.critical) == (0.1, 2, True, True)
    assert SECRET not in repr(found)


def test_the_same_in_yaml_with_named_connections(tmp_path: Path) -> None:
    (tmp_path / "crm.password").write_text(SECRET + "\n")
    yml = """\
connections:
  crm: {url: "${CRM_URL}", user: loader, password_file: crm.password}
  other: ${CRM_URL}
loads:
  crm.customers:
    connection: crm
    table: public.customers
    keys: id
    cursor: updated_at
    lookback: 10 minutes
    table_properties: {delta.appendOnly: false}
    tags: [daily]
  crm.countries: {sqlite: ref.db, table: countries, stored_as_scd_type: 1}
  crm.delta: {delta: s3a://bucket/table, strategy: snapshot, keys: [id]}
"""
    customers, countries, delta = load(tmp_path, yml=yml)
    assert customers.load is not None
    assert isinstance(customers.load.source, JdbcSource)
    assert customers.load.source.connection.name == "crm"
    assert customers.load.source.connection.password_file == str(tmp_path / "crm.password")
    assert (customers.load.keys, customers.tags, customers.location.line) == (("id",), ("daily",), 6)
    assert customers.layout.table_properties == (("delta.appendOnly", "false"),)
    assert countries.load is not None
    assert countries.load.source == SqliteSource(str(tmp_path / "ref.db"), "countries")
    assert delta.load is not None
    assert delta.load.source == DeltaSource("s3a://bucket/table")
    for spec in (customers, countries, delta):
        assert SECRET not in repr(spec)
        assert SECRET not in spec.fingerprint


def test_a_fingerprint_does_not_depend_on_how_the_source_is_reached(tmp_path: Path) -> None:
    (one,) = load(tmp_path, 'dp.load("t", source=dp.jdbc(url="postgresql://a/b", table="c"))')
    (two,) = load(tmp_path, 'dp.load("t", source=dp.jdbc(url="postgresql://x/y", table="c", user="u", password="p"))')
    (three,) = load(tmp_path, 'dp.load("t", source=dp.jdbc(url="postgresql://a/b", table="d"))')
    assert one.fingerprint == two.fingerprint != three.fingerprint


FILE = 'dp.sqlite(path="a.db", table="t")'


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (f'source={FILE}, strategy="timestmap"', "did you mean"),
        (f'source={FILE}, strategy="timestamp"', "needs cursor"),
        (f'source={FILE}, strategy="snapshot"', "needs keys"),
        (f'source={FILE}, strategy="full_refresh", cursor="c"', "has no cursor"),
        (f'source={FILE}, keys="id"', "must be a list"),
        (f"source={FILE}, keys=[]", "must be a list"),
        (f'source={FILE}, keys=["a", "A"]', "twice"),
        (f'source={FILE}, lookback="1 day"', "there is no cursor"),
        (f'source={FILE}, cursor="c", lookback="soon"', "length of time"),
        (f'source={FILE}, cursor="c", lookback="99999999999 days"', "at most 36500 days"),
        (f'source={FILE}, key=["id"]', "no parameter 'key'"),
        (f'source={FILE}, cursor="c", zone="Mars/Base"', "time zone"),
        (f'source={FILE}, cursor="c", null_cursor="reload"', "needs keys"),
        (f'source={FILE}, deletes="soft"', "needs keys"),
        (f'source={FILE}, keys=["a"], deletes="soft", strategy="full_refresh"', "keeps no deleted rows"),
        (f'source={FILE}, keys=["a"], deletes="hard", check_deletes="dayly"', "cron expression"),
        (f'source={FILE}, keys=["a"], columns=["b"]', "leaves out 'a'"),
        (f"source={FILE}, stored_as_scd_type=3", "must be 1"),
        (f"source={FILE}, stored_as_scd_type=2", "needs strategy snapshot and keys"),
        (f'source={FILE}, keys=["a"], stored_as_scd_type=2, deletes="soft"', "__END_AT"),
        (f'source={FILE}, allow_empty="yes"', "true or false"),
        (f"source={FILE}, most_deleted=2", "between 0 and 1"),
        (f"source={FILE}, parallel=0", "between 1 and"),
        ('source="public.customers"', "dp.jdbc"),
        ('source=dp.jdbc(table="t")', "needs a url"),
        ('source=dp.jdbc(url="postgresql://h/d")', "table of its source"),
        ('source=dp.jdbc(url="${NO_SUCH}", table="t")', "NO_SUCH is not set"),
        ('source=dp.jdbc(connection="crm", table="t")', "no connection 'crm'"),
        ('source=dp.jdbc(connection="crm", url="x", table="t")', "give one of them"),
        ('source=dp.delta(path="d"), keys=["a"], cursor="c"', "by its versions"),
    ],
)
def test_wrong_options_name_the_line(tmp_path: Path, given: str, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        load(tmp_path, f'dp.load("crm.t", {given})')
    assert words in caught.value.message
    assert str(caught.value.location) == "transformations/loads.py:2"


@pytest.mark.parametrize(
    ("yml", "words", "line"),
    [
        ("loads:\n  t: {table: x}", "needs one source", 3),
        ("loads:\n  t: {sqlite: a.db}", "`table` is missing", 3),
        ("loads:\n  t: {delta: a, table: x}", "has no `table`", 3),
        ("loads:\n  t: {sqlite: a.db, delta: b, table: x}", "needs one source", 3),
        ("loads:\n  t: {sqlite: a.db, table: x, kyes: [a]}", "unknown field `kyes`", 3),
        ("connections:\n  crm: {url: u, password: a, password_file: b}", "cannot be given together", 3),
        ("connections:\n  crm: {user: u}", "`connections.crm.url` is missing", 3),
    ],
)
def test_wrong_fields_of_the_project_file_name_the_line(tmp_path: Path, yml: str, words: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, yml=yml)
    assert words in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.line == line


@pytest.mark.parametrize("given", ["0.25", "'0.25'", "25%", "'25%'"])
def test_a_share_is_a_number_or_a_percentage(tmp_path: Path, given: str) -> None:
    yml = f"loads:\n  t: {{sqlite: a.db, table: x, keys: [a], most_deleted: {given}}}"
    assert options(tmp_path, yml=yml).most_deleted == 0.25
    (tmp_path / "transformations" / "loads.py").unlink()
    with pytest.raises(DefinitionError, match="between 0 and 1"):
        load(tmp_path, yml=yml.replace("25", "x"))


def test_wrong_options_in_yaml_name_the_line_of_the_load(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        load(tmp_path, yml="loads:\n  crm.t:\n    sqlite: a.db\n    table: x\n    strategy: snapshot\n")
    assert "needs keys" in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.line == 3
