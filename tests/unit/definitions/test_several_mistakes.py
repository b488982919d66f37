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
