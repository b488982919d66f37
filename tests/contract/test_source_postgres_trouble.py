"""What can go wrong with a PostgreSQL source: every error says what to do, none shows a secret, nothing is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.databases.contract import Wanted, Window
from penstock.databases.opening import open_source
from penstock.databases.postgres_connection import Patience
from penstock.errors import ConfigError, PenstockError, SourceError
from penstock.model.loads import Connection, JdbcSource
from penstock.storage.local import LocalFiles
from tests.postgres_servers import Server, postgres
from tests.servers import free_port, frozen
from tests.sources import Schema, land

SECRET = "hunter2-very-secret"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def schema(server: Server) -> Schema:
    schema = Schema(server.uri)
    schema.execute(
        f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'",
        f"GRANT USAGE ON SCHEMA {schema.name} TO guarded",
        "CREATE TABLE customers (id int PRIMARY KEY, email text, at timestamptz DEFAULT now())",
        "INSERT INTO customers SELECT i, 'x' FROM generate_series(1, 3) i",
        "CREATE TABLE policed (id int)",
        "INSERT INTO policed VALUES (1)",
        "ALTER TABLE policed ENABLE ROW LEVEL SECURITY",
        "GRANT SELECT ON policed TO guarded",
        "CREATE VIEW faulty AS SELECT 1 AS id, ('a' || email)::int AS n FROM customers",
    )
    return schema


def look_at(url: str, table: str, user: str | None, password: str | None) -> None:
    source = open_source(JdbcSource(Connection(url, user, password), table))
    try:
        source.look()
    finally:
        source.close()


def refused(url: str, table: str = "customers", user: str | None = None, password: str | None = None) -> PenstockError:
    """The error of a look at a table; it must not show the password."""
    with pytest.raises(PenstockError) as caught:
        look_at(url, table, user, password)
    shown = f"{caught.value} {caught.value.hint} {caught.value!r} {caught.value.__cause__!r}"
    assert SECRET not in shown
    return caught.value


def test_errors_of_connecting(server: Server, schema: Schema) -> None:
    here = f"127.0.0.1:{server.port}"
    wrong = refused(f"postgresql://guarded:{SECRET}x@{here}/postgres")
    assert "refused the user name or the password" in str(wrong)
    assert not wrong.retryable
    wrong = refused(f"jdbc:postgresql://{here}/postgres?user=guarded&password={SECRET}-")
    assert "refused the user name or the password" in str(wrong)
    assert "database does not exist" in str(refused(f"postgresql://postgres@{here}/nowhere"))
    assert "user does not exist" in str(refused(f"postgresql://nobody:{SECRET}@{here}/postgres"))
    down = refused(f"postgresql://guarded:{SECRET}@127.0.0.1:{free_port()}/postgres")
    assert "nothing listens" in str(down)
    assert down.retryable
    unknown = refused(f"postgresql://guarded:{SECRET}@no-such-host.invalid/postgres")
    assert "host name is unknown" in str(unknown)
    assert "no-such-host.invalid" in str(unknown)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://bob:{SECRET}@@host/db",
        f"postgresql://bob:{SECRET}/x@host/db",
        f"postgresql://bob:{SECRET}#@host/db",
        f"jdbc:postgresql://host/db?user=bob&{SECRET}",
        f"jdbc:postgresql://host/db?user=bob&passwrd={SECRET}",
        f"postgresql://host/db?passwrd={SECRET}",
        f"jdbc{SECRET}",
        f"postgresql:// {SECRET}",
        "postgresql://host",
        "",
    ],
)
def test_bad_urls_never_show_what_could_be_a_secret(url: str) -> None:
    assert isinstance(refused(url), ConfigError)


def test_both_spellings_of_a_url(server: Server, schema: Schema) -> None:
    here = f"127.0.0.1:{server.port}"
    options = f"currentSchema={schema.name}&ApplicationName=x&reWriteBatchedInserts=true"
    schema.execute("GRANT SELECT ON customers TO guarded")
    for connection in (
        Connection(f"jdbc:postgresql://{here}/postgres?user=guarded&password={SECRET}&{options}"),
        Connection(f"jdbc:postgresql://{here}/postgres?{options}", "guarded", SECRET),
        Connection(f"postgres://guarded:{SECRET}@{here}/postgres?options=-csearch_path%3D{schema.name}"),
    ):
        table = open_source(JdbcSource(connection, "customers"))
        assert len(table.look().columns) == 3
        assert SECRET not in table.shown
        assert "guarded" not in table.shown
        table.close()
    schema.execute("REVOKE SELECT ON customers FROM guarded")


def test_errors_of_tables_columns_and_rights(server: Server, schema: Schema, tmp_path: Path) -> None:
    missing = refused(schema.uri, "costumers")
    assert "did you mean" in (missing.hint or "")
    assert "customers" in (missing.hint or "")
    assert "schema" in (refused(schema.uri, "a.b.c").hint or "")
    guarded = f"postgresql://guarded:{SECRET}@127.0.0.1:{server.port}/postgres?options=-csearch_path%3D{schema.name}"
    for name, words in (("customers", "may not be read"), ("policed", "may not be read")):
        table = open_source(JdbcSource(Connection(guarded), name))
        with pytest.raises(SourceError, match=words) as caught, table.open() as moment:
            land(moment, table, tmp_path)
        assert "GRANT" in (caught.value.hint or "")
        assert not caught.value.retryable
        with pytest.raises(SourceError, match=words):  # a plan finds it without reading a row
            table.check(Wanted(("id",)))
        table.close()
    with schema.table("customers") as table:
        with pytest.raises(SourceError, match="no column 'updated'") as caught:
            table.find_news(Window("updated"), None)
        assert "it has id, email, at" in (caught.value.hint or "")
        with pytest.raises(SourceError, match="no column 'mail'"), table.open() as moment:
            moment.land(Wanted(("mail",)), LocalFiles(tmp_path), "x")
        with pytest.raises(SourceError, match="does not understand the query"), table.open() as moment:
            moment.count(Wanted(("id",), where="nothing = 1"))
        with pytest.raises(SourceError, match="does not understand the query"):
            table.check(Wanted(("id",), where="nothing = 1"))
        table.check(Wanted(("id", "email"), where="email LIKE '%' -- all"), "at")
    schema.execute("CREATE TABLE unordered (j json)")
    with schema.table("unordered") as table:
        table.check(Wanted(("j",)))
        with pytest.raises(SourceError, match="ordering operator for type json") as caught:
            table.check(Wanted(("j",)), "j")
        assert "cursor" in (caught.value.hint or "")
    with (
        schema.table("faulty") as table,
        pytest.raises(SourceError, match="cannot evaluate") as caught,
        table.open() as moment,
    ):
        land(moment, table, tmp_path)
    assert '"ax"' not in str(caught.value)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_prepared_transaction_holds_the_watermark(schema: Schema) -> None:
    with schema.table("customers") as table, schema.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO customers VALUES (99)")
        connection.execute("PREPARE TRANSACTION 'held'")
        _, bound, has_news = table.find_news(Window("at"), None)
        assert (bound.value, has_news) == ("0001-01-01T00:00:00.000000Z", False)
        assert "prepared transaction" in bound.reason
        bound = table.find_news(Window("id"), None)[1]
        assert "waits for 1 transaction" in bound.reason
        connection.execute("COMMIT PREPARED 'held'")
        assert table.find_news(Window("at"), None)[1].reason == "no other transaction is open"
        assert table.find_news(Window("id"), None, bound.token)[1].value == "100"


def test_rows_of_another_server_have_no_bound(server: Server, schema: Schema) -> None:
    """Replicated rows have times of the publisher, however late they come."""
    here = f"host=127.0.0.1 port={server.port} dbname=postgres user=postgres"
    schema.execute(
        "CREATE TABLE copied (id int PRIMARY KEY, at timestamptz DEFAULT now())",
        "CREATE PUBLICATION p FOR TABLE copied",
        f"CREATE SUBSCRIPTION s CONNECTION '{here}' PUBLICATION p WITH (create_slot = false, enabled = false, copy_data = false)",
    )
    try:
        with schema.table("copied") as table:
            _, bound, _ = table.find_news(Window("at"), None)
            assert bound.value is None
            assert "another server" in bound.reason
    finally:
        schema.execute("ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s", "DROP PUBLICATION p")


def test_a_connection_that_is_ended_in_the_middle(schema: Schema, tmp_path: Path) -> None:
    schema.execute("CREATE TABLE IF NOT EXISTS long AS SELECT i, repeat('x', 1000) t FROM generate_series(1, 20000) i")
    slow = "pg_sleep(CASE WHEN i % 5000 = 0 THEN 0.3 ELSE 0 END) IS NOT NULL"

    def end_it() -> None:
        time.sleep(0.5)
        schema.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%'")

    thread = threading.Thread(target=end_it)
    thread.start()
    with schema.table("long") as table, pytest.raises(SourceError) as caught, table.open() as moment:
        land(moment, table, tmp_path, where=slow)
    thread.join()
    assert caught.value.retryable
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_frozen_server_gives_an_error_in_time(server: Server, schema: Schema, tmp_path: Path) -> None:
    hasty = Patience(connect=2, statement=1, silence=1)
    with schema.table("customers", patience=hasty) as table, table.open() as moment:
        with frozen(server.pid), pytest.raises(SourceError) as caught:
            moment.count(Wanted(("id",)))
        assert caught.value.retryable
    with schema.table("customers", patience=Patience(connect=2, statement=1)) as table:
        locker = schema.connect(autocommit=False)
        locker.execute("LOCK TABLE customers IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError, match="took too long") as caught:
            table.find_news(Window("at"), None)
        assert caught.value.retryable
        locker.close()


def test_a_server_that_dies_and_a_standby(server: Server, schema: Schema, tmp_path: Path) -> None:
    def land_after_the_end() -> None:
        with schema.table("customers") as table, table.open() as moment:
            server.stop()
            land(moment, table, tmp_path)

    with pytest.raises(SourceError) as caught:
        land_after_the_end()
    assert caught.value.retryable
    server.start()
    server.control("-m", "fast", "stop")
    with postgres(before=server) as standby:
        table = open_source(JdbcSource(Connection(standby.uri), f"{schema.name}.customers"))
        _, bound, _ = table.find_news(Window("at"), None)
        assert bound.value is None
        assert "standby" in bound.reason
        with table.open("at") as moment, moment.sibling() as other:
            assert other.count(Wanted(("id",))) == moment.count(Wanted(("id",))) > 0
        table.close()
    server.start()


def test_the_driver_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SourceError, match="psycopg") as caught:
        open_source(JdbcSource(Connection("postgresql://host/db"), "t"))
    assert caught.value.hint == "pip install 'penstock[postgres]'"


def test_other_databases_are_asked_at_run() -> None:
    url = f"jdbc:sqlserver://host:1433;user=sa;password={SECRET}"
    table = open_source(JdbcSource(Connection(url), "dbo.t"))
    assert (table.is_observable, table.has_one_moment) == (False, False)
    assert table.shown == "table dbo.t of jdbc:sqlserver"
    with pytest.raises(SourceError, match="only be asked by a run"):
        table.look()
