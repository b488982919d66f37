"""Expectations and tags of SQL definitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.definitions.loading import load_definitions
from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_facts import SqlStatement
from penstock.definitions.sql_files import read_sql_file
from penstock.errors import DefinitionError
from penstock.model.spec import Expectation, OnViolation

if TYPE_CHECKING:
    from conftest import Folder


def read(text: str, cache: ParseCache | None = None) -> SqlStatement:
    (statement,) = read_sql_file("t/a.sql", text, {"least": 5}, cache or ParseCache(None))
    return statement


EVERY = """
CREATE MATERIALIZED VIEW orders (
  CONSTRAINT known_status EXPECT (status IN ('placed', 'paid (by card)')),
  CONSTRAINT `has customer` EXPECT (customer_id IS NOT NULL) ON VIOLATION DROP ROW,
  constraint enough expect ((amount + 1) * 2 >= ${least} -- in euros
    AND coalesce(amount, 0) > 0) on violation fail update
)
TAGS ('core', 'nightly') COMMENT 'orders' TBLPROPERTIES (team = 'sales')
AS SELECT * FROM staging.orders
"""


def test_expectations_and_tags_are_read_and_kept_in_the_cache(tmp_path: Path) -> None:
    cache = ParseCache(tmp_path / "sql.json")
    statement = read(EVERY, cache)
    cache.save()
    assert statement.tags == ("core", "nightly")
    assert statement.expectations == (
        ("known_status", "status IN ('placed', 'paid (by card)')", "warn"),
        ("has customer", "customer_id IS NOT NULL", "drop"),
        ("enough", "(amount + 1) * 2 >= 5 -- in euros\n    AND coalesce(amount, 0) > 0", "fail"),
    )
    assert statement.table_properties == (("team", "sales"),)
    assert read(EVERY, ParseCache(tmp_path / "sql.json")) == statement


def test_a_definition_has_them_as_one_in_python_has(folder: Folder) -> None:
    folder.vars = {"least": 5}
    folder.write("transformations/orders.sql", EVERY)
    (spec,) = load_definitions(folder.project)
    assert spec.tags == ("core", "nightly")
    assert spec.expectations[1] == Expectation("has customer", "customer_id IS NOT NULL", OnViolation.DROP)


def test_a_temporary_view_can_have_tags() -> None:
    assert read("CREATE TEMPORARY VIEW a TAGS ('x') AS SELECT 1").tags == ("x",)


@pytest.mark.parametrize(
    ("head", "place", "message"),
    [
        ("(CONSTRAINT a EXPECT ())", "2:23", "the expectation 'a': the condition is empty"),
        ("(CONSTRAINT a EXPECT (x >))", "2:25", "syntax error"),
        ("(CONSTRAINT a EXPECT (\n x,, y))", "3:4", "the expectation 'a': .* nothing is before this comma"),
        ("(CONSTRAINT a EXPECT (${least} x y))", "2:34", "syntax error at 'y'"),
        ("(CONSTRAINT a EXPECT (x, y))", "2:23", "this is not one condition"),
        ("(CONSTRAINT a EXPECT (x IN (SELECT y FROM t)))", "2:23", "cannot have a subquery"),
        ("(CONSTRAINT a EXPECT (x = (SELECT max(y) FROM t)))", "2:23", "cannot have a subquery"),
        ("(CONSTRAINT a EXPECT x > 1)", "2:22", r"expected \(, not 'x'"),
        ("(CONSTRAINT a CHECK (x > 1))", "2:15", "expected EXPECT, not 'CHECK'"),
        ("(CONSTRAINT EXPECT (x > 1))", "2:20", "expected EXPECT"),
        ("(CONSTRAINT a EXPECT (x) ON VIOLATION WARN)", "2:39", "expected DROP ROW or FAIL UPDATE, not 'WARN'"),
        ("(CONSTRAINT a EXPECT (x) ON VIOLATION DROP)", "2:43", r"expected ROW, not '\)'"),
        ("(CONSTRAINT a EXPECT (x), CONSTRAINT a EXPECT (y))", "2:40", "the expectation 'a' is given twice"),
        ("(CONSTRAINT a EXPECT (x)) (CONSTRAINT b EXPECT (y))", "2:27", "constraints is given twice"),
        ("(CONSTRAINT a EXPECT (x),)", "2:26", r"expected CONSTRAINT, not '\)'"),
        ("(CONSTRAINT a EXPECT (x), id INT)", "2:27", "expected CONSTRAINT, not 'id'"),
        ("(id INT, CONSTRAINT a EXPECT (x))", "2:1", "a column list is not supported"),
        ("TAGS (core)", "2:7", "expected a tag in quotes, not 'core'"),
        ("TAGS ('a') TAGS ('b')", "2:17", "TAGS is given twice"),
    ],
)
def test_errors_name_file_line_and_column(head: str, place: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message) as caught:
        read(f"CREATE MATERIALIZED VIEW v\n{head}\nAS SELECT 1 AS x")
    assert str(caught.value.location) == f"t/a.sql:{place}"


def test_a_temporary_view_cannot_have_expectations() -> None:
    with pytest.raises(DefinitionError, match="a temporary view cannot have expectations"):
        read("CREATE TEMPORARY VIEW v (CONSTRAINT a EXPECT (x)) AS SELECT 1 AS x")
