"""What is known of arguments, and names in code that need not be Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.definitions.checking import check_inputs
from penstock.errors import DefinitionError
from penstock.model.names import DatasetName

if TYPE_CHECKING:
    from conftest import Folder

HELPERS = """
import functools, sqlite3
import pyarrow.parquet as pq

def qualified(name):
    if "." not in name:
        name = f"staging.{name}"
    return dp.read(name)

def by_default(name=None):
    name = name or "staging.orders"
    return dp.read(name)

def either(name):
    if hidden():
        name = "staging.orders"
    return dp.read(name)

def looked_up(name):
    name = hidden(name)
    return dp.read(name)

def load(database, table="orders"):
    return dp.read(f"{database}.{table}")

def in_staging(fn):
    @functools.wraps(fn)
    def call(name):
        return fn(f"staging.{name}")
    return call

@in_staging
def wrapped(name):
    return dp.read(name)

staged = functools.partial(load, "staging")
of_orders = functools.partial(load, table="orders")
cached = functools.lru_cache(functools.partial(load, "staging"))
again = functools.partial(cached, "orders")
connection = sqlite3.connect(":memory:")
"""


@pytest.mark.parametrize(
    ("body", "inputs", "is_untraced"),
    [
        ('return qualified("orders")', "staging.orders", False),
        ('return qualified("main.orders")', "main.orders", False),
        ("return by_default()", "staging.orders", False),
        ('return by_default("staging.x")', "staging.x", False),
        ('return either("staging.x")', "staging.orders staging.x", False),
        ('return looked_up("orders")', "", True),
        ('return staged("orders")', "staging.orders", True),
        ("return staged(table='orders')", "staging.orders", True),
        ('return of_orders("staging")', "staging.orders", True),
        ('return of_orders("staging", table="x")', "staging.x", True),
        ("return staged()", "staging.orders", True),
        ('return cached("x")', "staging.x", True),
        ("return again()", "staging.orders", True),
        ('return wrapped("orders")', "staging.orders", False),
    ],
)
def test_arguments_are_followed_through_what_changes_them(
    body: str, inputs: str, is_untraced: bool, folder: Folder
) -> None:
    spec = folder.define(body, HELPERS)
    assert sorted(map(str, spec.inputs)) == inputs.split()
    # A function in a value, such as a partial call, can be called in other ways too.
    assert [each.code for each in spec.untraced] == ["untraced_read"] * is_untraced


OTHER = [
    "connection.table('rates')",
    "sqlite3.connect(':memory:').sql('SELECT * FROM rates')",
    "sqlite3.connect(':memory:').cursor().filter('[b')",
    "pq.ParquetFile('a').sql('SELECT FROM')",
]


@pytest.mark.parametrize("call", [*OTHER, *(f"(lambda: {call})()" for call in OTHER[:1])])
def test_methods_of_other_libraries_read_no_table(call: str, folder: Folder) -> None:
    spec = folder.define(f"other = {call}\nreturn dp.read('staging.orders')", HELPERS)
    assert list(map(str, spec.inputs)) == ["staging.orders"]
    assert not [each for each in spec.untraced if "rates" in each.text]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("source = hidden()\nsource.table('rates')", "source.table() may read rates"),
        ("hidden().sql('SELECT * FROM rates')", "hidden().sql() may read rates"),
        ("hidden().table('my rates!')", "hidden().table() may read my rates!"),
        ("hidden().sql('SELECT FROM WHERE')", "runs SQL that cannot be traced"),
        ("hidden().filter('[b')", ""),
        ("hidden().table('staging.orders')", ""),
    ],
)
def test_a_value_that_may_be_a_session_does_not_stop_the_project(body: str, text: str, folder: Folder) -> None:
    spec = folder.define(f"{body}\nreturn dp.read('staging.orders')", HELPERS)
    assert list(map(str, spec.inputs)) == ["staging.orders"]
    assert [each.text.startswith(text) for each in spec.untraced] == [True] * bool(text)
    declared = folder.define(body, HELPERS, "@dp.materialized_view(depends_on=['staging.orders'])")
    assert list(map(str, declared.inputs)) == ["staging.orders"]
    assert not declared.untraced


@pytest.mark.parametrize("holder", ["{}", "threading.local()", "contextvars.ContextVar('x')", "[hidden()]"])
@pytest.mark.parametrize("call", ["HOLDER.get().table", "HOLDER['x'].table", "HOLDER.it.table", "[HOLDER][0].table"])
def test_what_a_container_holds_may_be_a_session(holder: str, call: str, folder: Folder) -> None:
    before = f"import contextvars, threading\ndef hidden(): ...\nHOLDER = {holder}\n"
    spec = folder.define(f"return {call}('staging.orders')", before)
    assert list(map(str, spec.inputs)) == ["staging.orders"]


def test_a_condition_on_a_frame_that_grows_is_checked(folder: Folder) -> None:
    with pytest.raises(DefinitionError, match="syntax error"):
        folder.define("rows = dp.read('staging.orders')\nrows = rows.filter('a >')\nreturn rows")


@pytest.mark.parametrize(
    "session", ["dp.spark", "SparkSession.builder.getOrCreate()", "hidden().sparkSession", "dp.read('a').sparkSession"]
)
def test_what_a_session_reads_is_no_guess(session: str, folder: Folder) -> None:
    before = f"from pyspark.sql import SparkSession\n{HELPERS}"
    spec = folder.define(f"session = {session}\nreturn session.table('rates')", before)
    assert "main.rates" in map(str, spec.inputs)


def test_a_guess_that_a_definition_provides_is_an_input(folder: Folder) -> None:
    folder.write("transformations/rates.sql", "CREATE MATERIALIZED VIEW rates AS SELECT 1 AS a")
    with pytest.raises(ValueError, match="too many values"):
        folder.define("return hidden().table('rates')", HELPERS)
    orders, _ = folder.load()
    assert (list(map(str, orders.inputs)), orders.untraced) == (["main.rates"], ())


def test_a_read_in_a_branch_that_is_not_taken_says_how_to_choose(folder: Folder) -> None:
    folder.vars = {"is_new": False}
    spec = folder.define("return dp.read('staging.zzz' if dp.var('is_new') else 'staging.orders')")
    with pytest.raises(DefinitionError, match=r"main\.orders reads staging\.zzz") as caught:
        check_inputs([spec], {DatasetName("staging", "orders")})
    assert "also in a branch that is not taken" in str(caught.value.hint)


@pytest.mark.parametrize("wrap", ["functools.lru_cache({})", "pyspark.sql.functions.udf({})", "{}"])
def test_what_a_wrapped_partial_call_keeps_is_logic(wrap: str, folder: Folder) -> None:
    def fingerprint(rate: int) -> str:
        made = wrap.format(f"functools.partial(scale, {rate})")
        before = f"import functools\nimport pyspark.sql.functions\ndef scale(rate, x):\n    return x\nscaled = {made}\n"
        return folder.define("return scaled(dp.read('staging.orders'))", before).fingerprint

    assert fingerprint(2) == fingerprint(2)
    assert fingerprint(2) != fingerprint(3)
