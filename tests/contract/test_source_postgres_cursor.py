"""A timestamp load from PostgreSQL loses nothing and doubles nothing, whatever other transactions do meanwhile."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.databases.contract import Bound, Seen, SourceTable, Wanted, Window
from penstock.databases.postgres_activity import ACTIVITY
from penstock.databases.postgres_connection import Patience
from tests.sources import Schema, land

HURRIED = Patience(transactions=0)
"""Open transactions of these tests end only when the test ends them."""


@pytest.fixture(scope="module")
def schema(postgres_server: str) -> Iterator[Schema]:
    schema = Schema(postgres_server)
    yield schema
    schema.drop()


@pytest.fixture
def clocked(schema: Schema) -> Iterator[Schema]:
    schema.execute(
        "CREATE TABLE clocked (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, version int DEFAULT 1, "
        "at timestamptz DEFAULT now(), local timestamp DEFAULT localtimestamp, day date DEFAULT current_date, label text)",
        "CREATE INDEX ON clocked (at)",
    )
    yield schema
    schema.execute("DROP TABLE clocked")


class Reader:
    """Loads windows from a watermark to the bound, again and again, as a timestamp load does."""

    def __init__(self, table: SourceTable, cursor: str, folder: Path) -> None:
        self._table, self._cursor, self._folder = table, cursor, folder
        self.watermark: str | None = None
        self.token: str | None = None
        self.seen: Counter[tuple[int, int]] = Counter()

    def load(self) -> Bound:
        with self._table.open(self._cursor, self.token) as moment:
            bound = moment.bound
            assert bound is not None
            assert bound.value is not None, bound.reason
            _, rows = land(moment, self._table, self._folder, window=Window(self._cursor, self.watermark, bound.value))
        self.seen.update((row["id"], row["version"]) for row in rows.to_pylist())
        self.watermark = bound.value if self.watermark is None or self._is_later(bound.value) else self.watermark
        self.token = bound.token
        return bound

    def _is_later(self, value: str) -> bool:
        if self._cursor == "id":
            return int(value) > int(self.watermark or 0)
        return value > (self.watermark or "")


def rows_of(schema: Schema) -> Counter[tuple[int, int]]:
    return Counter((row[0], row[1]) for row in schema.ask("SELECT id, version FROM clocked"))  # type: ignore[misc]


def test_what_naive_watermarks_lose_and_double(clocked: Schema, tmp_path: Path) -> None:
    """`>` loses a row that is committed late; `>=` finds ties twice, and loses what is older than the tie."""
    late = clocked.connect(autocommit=False)
    late.execute("INSERT INTO clocked DEFAULT VALUES")
    clocked.execute("INSERT INTO clocked DEFAULT VALUES")
    with clocked.table("clocked") as table:
        reader = Reader(table, "at", tmp_path)
        bound = reader.load()
        assert "open since" in bound.reason
        assert reader.seen == Counter()  # both rows are at or above the start of the open transaction
        naive = clocked.ask("SELECT max(at)::text FROM clocked")[0][0]
        late.commit()
        assert clocked.ask(f"SELECT id FROM clocked WHERE at > '{naive}'") == []  # the late row is lost
        assert clocked.ask(f"SELECT id FROM clocked WHERE at >= '{naive}'") == [
            (2,)
        ]  # doubled, and the late row is lost
        reader.load()
        assert reader.seen == rows_of(clocked)
        assert sum(reader.seen.values()) == 2
    late.close()


def test_a_transaction_that_has_not_written_yet_holds_the_bound(clocked: Schema, tmp_path: Path) -> None:
    idle = clocked.connect(autocommit=False)
    idle.execute("SELECT 1")
    clocked.execute("INSERT INTO clocked DEFAULT VALUES")
    with clocked.table("clocked") as table:
        reader = Reader(table, "at", tmp_path)
        reader.load()
        assert not reader.seen
        idle.execute("INSERT INTO clocked DEFAULT VALUES")
        idle.commit()
        reader.load()
        assert reader.seen == rows_of(clocked)
        look, bound, has_news = table.find_news(Window("at", reader.watermark), None)
        assert not has_news
        assert bound.value is not None
        assert [column.name for column in look.columns] == ["id", "version", "at", "local", "day", "label"]
        clocked.execute("INSERT INTO clocked (at) VALUES (NULL)")
        assert not table.find_news(Window("at", reader.watermark), None)[2]
        assert table.find_news(Window("at", reader.watermark, nulls=True), None)[2]
        clocked.execute("INSERT INTO clocked (label) VALUES ('100%')")
        assert table.find_news(Window("at", reader.watermark), "label LIKE '100%' -- comment")[2]
        assert not table.find_news(Window("at", reader.watermark), "label = 'x'")[2]
    idle.close()


steps = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["begin", "insert", "insert two", "update", "commit", "rollback", "load"])
    ),
    max_size=30,
)


@pytest.mark.parametrize("cursor", ["at", "id"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=steps)
def test_windows_lose_and_double_nothing(
    cursor: str, plan: list[tuple[int, str]], clocked: Schema, tmp_path: Path
) -> None:
    """Random transactions on three connections; the model is: every version of a row that was current is loaded once.

    An integer cursor that numbers rows does not see updates, so there are none then.
    """
    clocked.execute("TRUNCATE clocked RESTART IDENTITY")
    writers = [clocked.connect(autocommit=False) for _ in range(3)]
    try:
        with clocked.table("clocked", patience=HURRIED) as table:
            reader = Reader(table, cursor, tmp_path)
            for number, action in plan:
                act(writers[number], action, reader, has_updates=cursor == "at")
            for writer in writers:
                writer.commit()
            reader.load()
            assert set(rows_of(clocked)) <= set(reader.seen)
            assert set(reader.seen.values()) <= {1}
            if cursor == "id":
                assert reader.seen == rows_of(clocked)
    finally:
        for writer in writers:
            writer.close()


def act(writer: psycopg.Connection, action: str, reader: Reader, *, has_updates: bool) -> None:
    match action:
        case "begin":
            writer.execute("SELECT 1")
        case "insert":
            writer.execute("INSERT INTO clocked DEFAULT VALUES")
        case "insert two":
            writer.execute("INSERT INTO clocked (label) VALUES ('a'), ('b')")
        case "update" if has_updates:
            writer.execute(
                "UPDATE clocked SET version = version + 1, at = now() WHERE id = "
                "(SELECT id FROM clocked ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)"
            )
        case "commit":
            writer.commit()
        case "rollback":
            writer.rollback()
        case "load":
            reader.load()


def test_the_clock_is_read_before_the_open_transactions(clocked: Schema) -> None:
    """A transaction that starts between the two is listed, and is later than the clock; the other order would lose it."""
    late = clocked.connect(autocommit=False)
    timer = threading.Timer(0.2, lambda: late.execute("SELECT 1"))
    timer.start()
    row = clocked.ask(f"SELECT at::timestamptz < oldest::timestamptz FROM ({ACTIVITY.replace('0.025', '0.6')}) a")[0]
    timer.join()
    assert row == (True,)
    late.close()


def test_numbers_wait_for_the_transactions_that_were_open(clocked: Schema, tmp_path: Path) -> None:
    late = clocked.connect(autocommit=False)
    late.execute("INSERT INTO clocked DEFAULT VALUES")
    clocked.execute("INSERT INTO clocked DEFAULT VALUES")
    with clocked.table("clocked", patience=HURRIED) as table:
        reader = Reader(table, "id", tmp_path)
        bound = reader.load()
        assert "waits for 1 transaction" in bound.reason
        assert not reader.seen
        assert json.loads(bound.token or "")["pending"] == "3"
        late.commit()
        late.execute(
            "INSERT INTO clocked DEFAULT VALUES"
        )  # another transaction is open: the old sample is safe all the same
        assert reader.load().value == "3"
        assert sorted(reader.seen) == [(1, 1), (2, 1)]
        late.rollback()
        clocked.execute("INSERT INTO clocked DEFAULT VALUES")
        reader.load()
        assert reader.seen == rows_of(clocked)
    late.close()


def test_a_read_waits_for_short_transactions(clocked: Schema) -> None:
    late = clocked.connect(autocommit=False)
    late.execute("INSERT INTO clocked DEFAULT VALUES")
    clocked.execute("INSERT INTO clocked DEFAULT VALUES")
    timer = threading.Timer(0.3, late.commit)
    timer.start()
    with clocked.table("clocked") as table, table.open("id") as moment:
        assert moment.bound is not None
        assert moment.bound.value == "3"
    timer.join()
    late.close()


def test_texts_and_ties(clocked: Schema, tmp_path: Path) -> None:
    clocked.execute("INSERT INTO clocked (label) VALUES ('a'), ('b'), ('b')")
    with clocked.table("clocked") as table:
        with table.open("label") as moment:
            assert moment.bound is not None
            assert moment.bound.value == "b"  # another 'b' can still come
        clocked.execute("DELETE FROM clocked WHERE id = 3", "CREATE UNIQUE INDEX ON clocked (label)")
        with table.open("label") as moment:
            assert moment.bound is not None
            landed, rows = land(moment, table, tmp_path, window=Window("label", "a", moment.bound.value))
            assert (rows.num_rows, landed.greatest_cursor) == (2, "b")


def test_the_next_text_is_next_in_every_collation(schema: Schema) -> None:
    """The server of the tests has the collations of the system; others have ICU, which ignores control characters too."""
    known = "collprovider IN ('c', 'b', 'd') AND collencoding IN (-1, 6)"
    query = f"SELECT DISTINCT quote_ident(collname) FROM pg_collation WHERE {known}"
    for (name,) in schema.ask(query):
        next_one = f"(E'b\\u0001' COLLATE {name})"
        for greater in ("b ", "b-", "ba", "B\u0301b", "bé"):
            assert schema.ask(f"SELECT 'b' < {next_one}, {next_one} < '{greater}' OR '{greater}' < 'b'") == [
                (True, True)
            ], name


def test_where_the_bound_cannot_be_known(clocked: Schema) -> None:
    clocked.execute(
        "ALTER TABLE clocked ADD n numeric DEFAULT 1, ADD c bigint",
        "CREATE SEQUENCE stocked CACHE 20 OWNED BY clocked.c",
        "ALTER TABLE clocked ALTER c SET DEFAULT nextval('stocked')",
        f"CREATE ROLE blind_{clocked.name} LOGIN",
        f"GRANT USAGE ON SCHEMA {clocked.name} TO blind_{clocked.name}",
        f"GRANT SELECT ON clocked TO blind_{clocked.name}",
        "CREATE VIEW clocked_view AS SELECT * FROM clocked",
    )
    reasons = {"local": "no time zone", "day": "no time zone", "n": "numeric", "c": "CACHE"}
    with clocked.table("clocked") as table:
        for cursor, words in reasons.items():
            _, bound, _ = table.find_news(Window(cursor), None)
            assert bound.value is None
            assert words in bound.reason
    with clocked.table("clocked_view") as table:
        assert table.find_news(Window("at"), None)[1].value is not None
    with clocked.table("clocked", "America/New_York") as table:
        assert (table.find_news(Window("local"), None)[1].value or "").count("-") == 2
        assert len(table.find_news(Window("day"), None)[1].value or "") == 10
    blind = Schema.__new__(Schema)
    blind.name, blind.uri = clocked.name, clocked.uri.replace("postgres:@", f"blind_{clocked.name}:@")
    with blind.table("clocked") as table:
        _, bound, _ = table.find_news(Window("at"), None)
        assert bound.value is None
        assert "pg_read_all_stats" in bound.reason
        clocked.execute(f"GRANT pg_read_all_stats TO blind_{clocked.name}")
        assert table.find_news(Window("at"), None)[1].value is not None
    clocked.execute(f"DROP OWNED BY blind_{clocked.name}", f"DROP ROLE blind_{clocked.name}", "DROP VIEW clocked_view")


def test_readers_of_ours_do_not_hold_the_bound(clocked: Schema) -> None:
    with clocked.table("clocked") as reading, clocked.table("clocked") as table, reading.open():
        assert table.find_news(Window("at"), None)[1].reason == "no other transaction is open"


def test_a_session_without_tracking_is_noticed(clocked: Schema) -> None:
    hidden = clocked.connect(autocommit=False)
    hidden.execute("SET track_activities = off")
    hidden.commit()
    hidden.execute("INSERT INTO clocked DEFAULT VALUES")
    with clocked.table("clocked") as table:
        bound = table.find_news(Window("at"), None)[1]
        assert bound.value is None
        assert "track_activities" in bound.reason
    hidden.close()


def test_rows_at_or_beyond_the_bound_are_news_until_they_were_read(clocked: Schema) -> None:
    """What a load that merges by key asks: a date of today, a time in the future, and a row that changed without its cursor."""
    columns = ("id", "label", "day")
    clocked.execute("INSERT INTO clocked (label) VALUES ('a'), ('b')")
    with clocked.table("clocked", zone="UTC") as table:
        today = table.find_news(Window("day"), None)[1].value
        window = Window("day", today)
        assert not table.find_news(window, None)[2], "the bound of a date is the beginning of today"

        def has_news(mark: str | None, where: str | None = None) -> bool:
            return table.find_news(window, where, None, Seen(columns, mark, is_open=True))[2]

        def mark() -> str | None:
            with table.open() as moment:
                return moment.mark(Wanted(columns, window=window))

        assert has_news(None)
        assert not has_news(None, "id < 0")
        seen = mark()
        assert not has_news(seen)
        for change in (
            "UPDATE clocked SET label = 'c' WHERE id = 1",
            "INSERT INTO clocked (day) VALUES (current_date + 9)",
            "INSERT INTO clocked (day) VALUES (NULL)",
        ):
            clocked.execute(change)
            window = replace(window, nulls=True)
            assert has_news(seen), change
            seen = mark()
            assert not has_news(seen), change
        clocked.execute("INSERT INTO clocked (label) SELECT n::text FROM generate_series(1, 10001) n")
        assert mark() is None, "too many to hash: they are read"
        assert has_news(None)
        gone = Seen((*columns, "dropped"), seen, is_open=True)
        assert table.find_news(window, None, None, gone)[2], "a column that is gone is drift, and no error"


def test_a_table_that_is_created_again_has_another_identity(schema: Schema) -> None:
    def identity() -> str | None:
        with schema.table("again") as table:
            return table.look().identity

    schema.execute("CREATE TABLE again (id int)")
    first = identity()
    schema.execute("ALTER TABLE again ADD COLUMN x int", "TRUNCATE again", "VACUUM FULL again")
    assert identity() == first is not None
    schema.execute("DROP TABLE again", "CREATE TABLE again (id int)")
    assert identity() not in {None, first}
    schema.execute("DROP TABLE again")


def test_what_waits_for_open_transactions_says_how_many_and_since_when(clocked: Schema) -> None:
    clocked.execute("INSERT INTO clocked DEFAULT VALUES")
    with clocked.table("clocked", patience=HURRIED) as table, clocked.connect(autocommit=False) as one:
        one.execute("SELECT 1")
        bound = table.find_news(Window("id"), None)[1]
        assert bound.is_held
        assert bound.reason.startswith(
            "waits for 1 transaction that was open when the greatest value was read, since 2"
        )
        assert table.find_news(Window("at"), None)[1].is_held
        one.rollback()
        assert not table.find_news(Window("at"), None)[1].is_held
