"""Wrong loads as a user types them, against a real PostgreSQL and SQLite: each command says what is wrong, where, and what to do.

Nothing is written, no JVM starts, and no password shows: not in an answer, not in a file of the project.
"""

from __future__ import annotations

import select
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from penstock.engine import open_engine
from tests.command_line import Penstock, penstock  # noqa: F401 - a fixture
from tests.postgres_servers import Server, postgres

SECRET = "hunter2-s3cr3t"
COMMANDS = (("plan",), ("run",), ("advise", "crm.t"), ("verify", "crm.t"), ("verify", "crm.t", "--repair"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as server:
        with psycopg.connect(server.uri, autocommit=True) as connection:
            for statement in (
                f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'",
                "CREATE TABLE customers (id int PRIMARY KEY, name text, doc json, at timestamptz DEFAULT now())",
                "INSERT INTO customers VALUES (1, 'Ada'), (2, 'Bob')",
            ):
                connection.execute(statement)  # type: ignore[arg-type]
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", refuse)
    monkeypatch.chdir(tmp_path)
    connection = sqlite3.connect(tmp_path / "ref.db")
    connection.executescript("CREATE TABLE t (id INTEGER, at TEXT, raw BLOB); INSERT INTO t VALUES (1, '2026', x'00')")
    connection.close()
    return tmp_path


def write(folder: Path, load: str, connection: str = "") -> None:
    named = f"connections:\n  crm: {{{connection}}}\n" if connection else "connections: {}\n"
    (folder / "penstock.yml").write_text(f"name: shop\n{named}loads:\n  crm.t: {{{load}}}\n")


def check_untouched(folder: Path) -> None:
    """Nothing but the record of what was tried; the password is nowhere but in what the user wrote."""
    assert not (folder / "storage").exists()
    for file in folder.rglob("*"):
        if file.is_file() and file.name != "penstock.yml":
            assert SECRET.encode() not in file.read_bytes(), file


IN_POSTGRES = [
    ("table: custmers", "does not exist", "did you mean 'customers'"),
    ("table: a.b.c", "not the name of a table", "schema.table"),
    ("table: customers, keys: [idd]", "has no column", "id"),
    ("table: customers, keys: [id], cursor: updated_at", "has no column", "at"),
    ("table: customers, cursor: doc, strategy: timestamp", "ordering operator for type json", "cursor"),
]
IN_PLANS = [("table: customers, where: nme = 1", "nme", "where=")]


@pytest.mark.parametrize(("load", "what", "hint"), IN_POSTGRES + IN_PLANS)
def test_wrong_loads_from_postgres(
    load: str,
    what: str,
    hint: str,
    folder: Path,
    server: Server,
    penstock: Penstock,  # noqa: F811
) -> None:
    url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
    write(folder, f"connection: crm, {load}", f"url: {url}")
    for command in COMMANDS[: 3 if (load, what, hint) in IN_POSTGRES else 2]:
        answer = penstock(*command)
        text = answer.out + answer.err
        assert answer.code == 1, (command, text)
        for words in (what, hint, "penstock.yml:5:3"):
            assert words in text, (command, text)
    check_untouched(folder)


CONNECTIONS = [
    ("url: postgresql://guarded:hunter2-s3cr3tx@HERE/postgres", "refused the user name or the password", 1),
    ("url: postgresql://HERE/postgres, user: guarded, password: hunter2-s3cr3tx", "refused the user name", 1),
    ("url: 'jdbc:postgresql://HERE/postgres?user=guarded&password=hunter2-s3cr3t'", "may not", 1),
    ("url: postgresql://guarded:hunter2-s3cr3t@HERE/nowhere", "database does not exist", 1),
    ("url: postgresql://nobody:hunter2-s3cr3t@HERE/postgres", "user does not exist", 1),
    ("url: postgresql://guarded:hunter2-s3cr3t@127.0.0.1:1/postgres", "nothing listens on this host and port", 1),
    ("url: postgresql://guarded:hunter2-s3cr3t@no.invalid/postgres", "host name is unknown", 1),
    ("url: 'mongodb://guarded:hunter2-s3cr3t@host/x'", "neither a JDBC URL nor a PostgreSQL URI", 2),
    ("url: 'postgresql://guarded:hunter2-s3cr3t@host:port/x'", "is not a valid", 2),
    ("url: postgresql://HERE/postgres, user: guarded, password_file: no.txt", "password file of connection crm", 2),
]


@pytest.mark.parametrize(("connection", "what", "code"), CONNECTIONS)
def test_wrong_connections(
    connection: str,
    what: str,
    code: int,
    folder: Path,
    server: Server,
    penstock: Penstock,  # noqa: F811
) -> None:
    write(folder, "connection: crm, table: customers", connection.replace("HERE", f"127.0.0.1:{server.port}"))
    for command in COMMANDS[:3]:
        answer = penstock(*command)
        text = answer.out + answer.err
        assert (answer.code, what in text) == (code if command[0] == "advise" else 1, True), (command, text)
        assert SECRET not in text
        assert "penstock.yml:5:3" in text, (command, text)
        assert "hint" in text
    check_untouched(folder)


SQLITE = [
    ("sqlite: no.db, table: t", "does not exist", 1),
    ("sqlite: penstock.yml, table: t", "is not a SQLite database", 1),
    ("sqlite: ., table: t", "is a folder", 1),
    ("sqlite: ref.db, table: tt", "did you mean 't'", 1),
    ("sqlite: ref.db, table: t, keys: [idd]", "has no column", 1),
    ("sqlite: ref.db, table: t, cursor: raw", "must hold only numbers or only texts", 1),
    ("sqlite: ref.db, table: t, where: idd = 1", "no such column: idd", 1),
    ("delta: nowhere", "nowhere", 1),
    ("table: t", "needs one source", 2),
    ("sqlite: ref.db", "the field `table` is missing", 2),
    ("connection: crmm, table: t", "there is no connection 'crmm'", 2),
    ("sqlite: ref.db, table: t, strategy: incremental", "must be one of `auto`, `full_refresh`", 2),
    ("sqlite: ref.db, table: t, strategy: snapshot", "strategy snapshot needs keys", 2),
    ("sqlite: ref.db, table: t, strategy: timestamp", "strategy timestamp needs cursor", 2),
    ("sqlite: ref.db, table: t, key: [id]", "unknown field `key`", 2),
    ("sqlite: ref.db, table: t, cursor: at, lookback: ten minutes", "lookback must be a length of time", 2),
    ("sqlite: ref.db, table: t, cursor: at, keys: [id], deletes: hard, check_deletes: every day", "cron expression", 2),
    ("sqlite: '${NO_SUCH_PLACE}/ref.db', table: t", "the environment variable NO_SUCH_PLACE is not set", 2),
]


@pytest.mark.parametrize(("load", "what", "code"), SQLITE)
def test_wrong_loads_without_a_server(
    load: str,
    what: str,
    code: int,
    folder: Path,
    penstock: Penstock,  # noqa: F811
) -> None:
    write(folder, load)
    for command in COMMANDS[: 2 if code == 1 else 5]:
        answer = penstock(*command)
        text = answer.out + answer.err
        assert (answer.code, what in text) == (code, True), (command, text)
        assert "penstock.yml:4:" in text, (command, text)
    check_untouched(folder)


def test_a_driver_that_has_no_coordinates(folder: Path, penstock: Penstock) -> None:  # noqa: F811
    write(folder, "connection: crm, table: t", "url: 'jdbc:mysql://h/x', driver: mysql-connector-j")
    answer = penstock("plan")
    assert (answer.code, "penstock.yml:3:" in answer.err, "group:artifact:version" in answer.err) == (2, True, True)
    (folder / "penstock.yml").write_text("name: shop\n")
    (folder / "transformations").mkdir()
    source = 'dp.jdbc(url="jdbc:mysql://h/x", table="t", driver="a:b:../c")'
    text = f'from penstock import pipelines as dp\ndp.load("crm.t", source={source})\n'
    (folder / "transformations" / "loads.py").write_text(text)
    answer = penstock("plan")
    assert (answer.code, "loads.py:2" in answer.err, "group:artifact:version" in answer.err) == (2, True, True)
    check_untouched(folder)


def test_names_that_are_taken(folder: Path, penstock: Penstock) -> None:  # noqa: F811
    source = "{sqlite: ref.db, table: t}"
    (folder / "penstock.yml").write_text(f"name: shop\nloads:\n  crm.t: {source}\n  crm.t: {source}\n")
    assert "`crm.t` is given twice, first on line 3" in penstock("plan").err
    (folder / "penstock.yml").write_text(f"name: shop\nloads:\n  crm.t: {source}\n  crm.T: {source}\n")
    assert "defined twice" in penstock("plan").err
    (folder / "penstock.yml").write_text(f"name: shop\nloads:\n  staging.t: {source}\n")
    answer = penstock("plan")
    assert (answer.code, "holds the tables made from raw files" in answer.err) == (2, True)
    check_untouched(folder)


@contextmanager
def restarting(port: int, failures: int) -> Iterator[int]:
    """A port that closes its first connections, as a server that restarts does; the next one leads to another port."""

    def serve() -> None:
        for _ in range(failures):
            listener.accept()[0].close()
        with listener.accept()[0] as client, socket.create_connection(("127.0.0.1", port)) as there:
            others = {client: there, there: client}
            while ready := select.select([client, there], [], [], 5)[0]:
                for one in ready:
                    content = one.recv(65536)
                    if not content:
                        return
                    others[one].sendall(content)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_a_server_that_restarts_is_asked_again(folder: Path, server: Server) -> None:
    with restarting(server.port, failures=2) as port:
        write(folder, "connection: crm, table: customers", f"url: postgresql://postgres@127.0.0.1:{port}/postgres")
        (item,) = open_engine(folder, environment={}).plan().items
    assert item.problem is None
