"""All mistakes of all definitions are reported at once, each with its file, line and hint."""

from __future__ import annotations

import pytest
from tests.unit.definitions.conftest import Folder

from penstock.definitions.checking import check_inputs
from penstock.errors import DefinitionError, SeveralDefinitionsError

HEAD = "from penstock import pipelines as dp\n"


def mistakes_of(folder: Folder) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        folder.load()
    assert caught.value.exit_code == 2
    return [error.text.partition(": ")[0] for error in caught.value.parts]


def test_each_file_and_definition_says_what_is_wrong_with_it(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW a AS SELECT 1,, 2")
    folder.write("transformations/b.sql", "CREATE MATERIALIZED VIEW b AS SELECT a FROM;\nCREATE VIEW c AS SELECT 1")
    folder.write("transformations/c.py", HEAD + "1 / 0\n")
    folder.write("transformations/d.py", HEAD + "def d(:\n")
    assert mistakes_of(folder) == [
        "transformations/a.sql:1:40",
        "transformations/b.sql:1:40",
        "transformations/b.sql:2:1",
        "transformations/c.py:2",
        "transformations/d.py:2:7",
    ]


def test_every_statement_condition_and_function_is_checked(folder: Folder) -> None:
    folder.write(
        "transformations/a.sql",
        "CREATE MATERIALIZED VIEW staging.a AS SELECT 1;\nCREATE MATERIALIZED VIEW staging.b AS SELECT 1",
    )
    folder.write(
        "transformations/b.py",
        HEAD
        + "@dp.materialized_view\n@dp.expect('one', 'a >')\n@dp.expect('two', 'b b b')\ndef x(): return dp.read('y')\n"
        + "@dp.materialized_view\ndef y(a): ...\n",
    )
    assert mistakes_of(folder) == [
        "transformations/a.sql:1:1",
        "transformations/a.sql:2:1",
        "transformations/b.py:3:22",
        "transformations/b.py:4:24",
        "transformations/b.py:6",
    ]


def test_each_declaration_of_a_python_file_is_checked_and_named_by_its_own_line(folder: Folder) -> None:
    folder.write(
        "transformations/a.py",
        HEAD
        + """
        @dp.expect("x", "a > 1")
        @dp.materialized_view(tags="core")
        def a(): return dp.read("b")
        @dp.materialized_view
        @dp.expect("x", "")
        @dp.expect("y", "a > 1")
        @dp.expect("y", "a > 2")
        def b(): return dp.read("a")
        @dp.expect("y", "a > 1")
        @dp.table(
            schedule="sometimes")
        def c(): return dp.read("a")
        @dp.expect("y", "a > 1")
        @dp.table("d")
        def d(): return dp.read("a")
        @dp.expect_all(["a"])
        @dp.table(tag=["x"])
        class E: ...
        dp.create_streaming_table("f", tag=["x"])
        dp.create_auto_cdc_flow("f", "a", ["id"], "at")
        dp.load("g", None, tag="x")
        @dp.table(name="h h")
        def h(): return dp.read("a")
        """.replace("\n        ", "\n"),
    )
    folder.write("transformations/b.py", HEAD + "@dp.table(comment=1)\ndef x(): return dp.read('a')\n")
    lines = [4, 7, 8, 12, 16, 18, 19, 21, 23, 24]
    assert mistakes_of(folder) == [*(f"transformations/a.py:{line}" for line in lines), "transformations/b.py:2"]
    folder.write("transformations/b.py", HEAD + "@dp.table(comment=1)\ndef x(): ...\n1 / 0\n")
    lines.remove(12)
    lines.remove(24)  # what is defined is only checked when every file could be loaded
    places = [*(f"transformations/a.py:{line}" for line in lines), *(f"transformations/b.py:{line}" for line in (2, 4))]
    assert mistakes_of(folder) == places


def test_names_tags_and_views_are_checked_together(folder: Folder) -> None:
    view = "CREATE TEMPORARY VIEW other.v AS SELECT 1;\n"
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW a AS SELECT 1;\n" * 3 + view)
    folder.write("transformations/b.py", HEAD + "@dp.table(tags=['a b'])\ndef b(): return dp.read('a')\n")
    assert mistakes_of(folder) == [
        "transformations/a.sql:2:1",
        "transformations/a.sql:3:1",
        "transformations/a.sql:4:1",
        "transformations/b.py:2",
    ]


def test_mistakes_in_the_sql_of_python_definitions_hide_no_others(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW a AS SELECT 1,, 2")
    folder.write("transformations/c.sql", "CREATE MATERIALIZED VIEW b AS SELECT 1")
    texts = ["spark.sql('SELECT a FROM')", "spark.sql('SELECT b,, c FROM x')", "read('a').selectExpr('(a')"]
    body = "".join(f"@dp.table\ndef c{place}(): return dp.{text}\n" for place, text in enumerate(texts))
    folder.write("transformations/b.py", HEAD + body)
    places = ["a.sql:1:40", "b.py:3:41", "b.py:5:41", "b.py:7:43"]
    assert mistakes_of(folder) == [f"transformations/{place}" for place in places]
    assert (folder.project.state_folder / "cache" / "sql.json").exists()


def test_a_mistake_in_a_module_that_several_files_import_is_reported_once(folder: Folder) -> None:
    folder.write("sales/money.py", "RATE = 1 / 0\n")
    for name in "ab":
        folder.write(f"transformations/{name}.py", "from sales import money\n")
    assert mistakes_of(folder) == ["sales/money.py:1"]


def test_a_single_mistake_is_the_error_itself(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW a AS SELECT 1,, 2")
    folder.write("transformations/b.sql", "CREATE MATERIALIZED VIEW b AS SELECT 1")
    with pytest.raises(DefinitionError) as caught:
        folder.load()
    assert not isinstance(caught.value, SeveralDefinitionsError)


def test_every_unknown_input_is_named(folder: Folder) -> None:
    folder.write(
        "transformations/a.sql", "CREATE MATERIALIZED VIEW orders AS SELECT * FROM nosuch JOIN neither USING (id)"
    )
    folder.write("transformations/b.sql", "CREATE MATERIALIZED VIEW b AS SELECT * FROM order")
    with pytest.raises(SeveralDefinitionsError) as caught:
        check_inputs(folder.load(), set())
    assert str(caught.value).splitlines() == [
        "transformations/a.sql:1:50: main.orders reads main.nosuch, which is neither defined nor a raw folder",
        "transformations/a.sql:1:62: main.orders reads main.neither, which is neither defined nor a raw folder",
        "transformations/b.sql:1:45: main.b reads main.order, which is neither defined nor a raw folder",
        "hint: did you mean 'main.orders'?",
    ]
