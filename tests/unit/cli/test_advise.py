"""`penstock advise` as a user types it, on SQLite files and a real PostgreSQL; none of it starts a JVM."""

from __future__ import annotations

import ast
import sqlite3
from pathlib import Path

import psycopg
import pytest
import yaml
from rich.console import Console
from tests.command_line import Penstock

from penstock.cli.advise import draw_advice
from penstock.cli.text_output import TextOutput
from penstock.source_access import Declared, SqliteSource
from penstock.source_access import advise as advise_source

SECRET = "hunter2secret"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is not a project, with a SQLite file."""
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript(
            """
            CREATE TABLE countries (code TEXT NOT NULL PRIMARY KEY, name TEXT);
            INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France');
            CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
            INSERT INTO orders SELECT i, datetime(1700000000 + i, 'unixepoch') FROM n;
            """
        )
    connection.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_small_table_in_words(folder: Path, penstock: Penstock) -> None:
    answer = penstock("advise", "--sqlite", "shop.db", "--table", "countries", "--critical")
    assert answer.code == 0
    lines = [line.rstrip() for line in answer.out.splitlines()]
    assert lines[0] == "countries: full_refresh with swap"
    assert lines[1].startswith("The table is small: 2 rows, fewer than 100,000.")
    assert "size         2 rows (counted)" in lines
    assert "  - From 100,000 rows on, it would be a snapshot comparison." in lines
    assert 'dp.load("shop.countries", source=dp.sqlite(path="shop.db", table="countries"),' in lines
    assert "        critical=True)" in lines


def test_a_large_table_as_json(folder: Path, penstock: Penstock) -> None:
    found = penstock("advise", "--sqlite", "shop.db", "--table", "orders", "--json").json
    assert (found["dataset"], found["best"], found["chosen"], found["strategy"]) == (
        "shop.orders",
        "timestamp",
        "timestamp",
        "timestamp",
    )
    assert found["options"]["cursor"] == "updated_at"
    assert found["facts"]["primary_key"] == ["id"]
    assert {"what": "key", "found": "id (primary key)"} in found["evidence"]
    assert any("has no index" in warning for warning in found["warnings"])
    assert ast.parse(found["python"])
    assert yaml.safe_load(found["yaml"])["loads"]["shop.orders"]["strategy"] == "timestamp"


def test_what_the_user_knows(folder: Path, penstock: Penstock) -> None:
    history = penstock("advise", "--sqlite", "shop.db", "--table", "orders", "--history", "--json").json
    assert (history["best"], history["strategy"]) == ("backfill", "full_refresh")
    declared = penstock("advise", "--sqlite", "shop.db", "--table", "countries", "--key", "name", "--cursor", "code")
    assert "declared" in declared.out
    assert "keys name, cursor code" in declared.out


def test_eighty_columns_of_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=80, force_terminal=True, color_system=None, highlight=False)
    draw_advice(advise_source(SqliteSource("shop.db", "orders"), Declared()), TextOutput(console))
    shown = capsys.readouterr().out
    table = shown[shown.index("looked at") : shown.index("What would change it")]
    assert all(len(line) <= 80 for line in table.splitlines())
    assert "─" in table
    load = 'dp.load("shop.orders", source=dp.sqlite(path="shop.db", table="orders"),'
    assert load in shown  # never wrapped


def test_a_load_of_the_project(folder: Path, penstock: Penstock) -> None:
    (folder / "penstock.yml").write_text(
        "name: shop\nloads:\n  ref.countries:\n    sqlite: shop.db\n    table: countries\n    critical: true\n"
        "  ref.orders:\n    sqlite: shop.db\n    table: orders\n    keys: [id]\n    cursor: updated_at\n"
    )
    found = penstock("advise", "ref.countries", "--json").json
    assert (found["dataset"], found["chosen"], found["swap"]) == ("ref.countries", "full_refresh", True)
    assert "cursor updated_at" in penstock("advise", "ref.orders").out
    unknown = penstock("advise", "ref.country")
    assert unknown.code == 2
    assert "there is no load ref.country; did you mean `ref.countries`?" in unknown.err
    assert penstock("advise", "ref.orders", "--cursor", "id").code == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "advise needs one table to look at"),
        (["--sqlite", "a.db", "--delta", "b"], "advise needs one table to look at"),
        (["--sqlite", "shop.db"], "--sqlite needs --table"),
        (["--delta", "x", "--table", "t"], "a Delta table has no --table"),
        (["--sqlite", "shop.db", "--table", "order"], "table order of shop.db does not exist"),
        (["--sqlite", "none.db", "--table", "orders"], "none.db does not exist"),
        (["--sqlite", "shop.db", "--table", "orders", "--key", "ID2"], "orders has no column 'ID2'"),
        (["--sqlite", "shop.db", "--table", "orders", "--user", "me"], "--user belongs to --url"),
        (["--delta", "nowhere"], "there is no Delta table at nowhere"),
        (["--url", "${NOT_SET_HERE}", "--table", "t"], "the environment variable NOT_SET_HERE is not set"),
        (["--url", "shop.example", "--table", "t"], "is neither a JDBC URL nor a PostgreSQL URI"),
        (["--connection", "crm", "--table", "t"], "no penstock.yml"),
    ],
)
def test_mistakes(folder: Path, penstock: Penstock, arguments: list[str], problem: str) -> None:
    answer = penstock("advise", *arguments)
    assert answer.code in {1, 2}
    assert problem in answer.err
    assert answer.out == ""


@pytest.mark.parametrize("form", [[], ["--json"], ["--log-format", "json"]])
@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://someone:{SECRET}@127.0.0.1:1/shop",
        f"jdbc:postgresql://127.0.0.1:1/shop?user=a&password={SECRET}",
        f"jdbc:sqlserver://127.0.0.1:1;user=a;password={SECRET}",
        f"postgresql://someone:{SECRET}@[bad/shop",
        "${ADVISE_URL}",
    ],
)
def test_a_password_is_never_shown(
    folder: Path, penstock: Penstock, monkeypatch: pytest.MonkeyPatch, url: str, form: list[str]
) -> None:
    monkeypatch.setenv("ADVISE_URL", f"postgresql://someone:{SECRET}@127.0.0.1:1/shop")
    answer = penstock("advise", "--url", url, "--table", "orders", *form)
    assert answer.code in {1, 2}
    assert SECRET not in answer.out + answer.err


def test_a_connection_of_the_project(
    folder: Path, penstock: Penstock, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS advised (id int PRIMARY KEY, changed_at timestamptz)")
    monkeypatch.setenv("CRM_URL", postgres_server)
    (folder / "penstock.yml").write_text("name: shop\nconnections:\n  crm: ${CRM_URL}\n")
    answer = penstock("advise", "--connection", "crm", "--table", "advised")
    assert answer.code == 0
    assert 'source=dp.jdbc(connection="crm", table="advised")' in answer.out
    assert "crm.advised:" in answer.out
    url = penstock("advise", "--url", "${CRM_URL}", "--table", "public.advised")
    assert 'source=dp.jdbc(url="${SOURCE_URL}", table="public.advised")' in url.out
    missing = penstock("advise", "--connection", "cm", "--table", "advised")
    assert "there is no connection cm; did you mean `crm`?" in missing.err
