"""Loading a project's definitions, and every way in which that can be refused."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.definitions.checking import check_cycles, check_inputs
from penstock.definitions.definition_files import find_definition_files
from penstock.definitions.project_modules import loaded_project_modules
from penstock.errors import DefinitionError
from penstock.model.names import DatasetName
from penstock.model.spec import DatasetKind, OnViolation
from penstock.pipelines.registry import use_reader

if TYPE_CHECKING:
    from conftest import Folder

HEAD = "from penstock import pipelines as dp\n"


def test_sql_and_python_definitions_become_specs(folder: Folder) -> None:
    folder.vars = {"limit": 3}
    folder.write(
        "transformations/sub/a.sql",
        "CREATE MATERIALIZED VIEW totals COMMENT 'x' PARTITIONED BY (d) AS\nSELECT rand() FROM orders LIMIT ${limit};",
    )
    folder.write(
        "transformations/b.py",
        HEAD
        + """
@dp.expect_or_drop("paid", "amount > 0")
@dp.table(name="shop.Orders", tags=["x"], depends_on=["other"], cluster_by=["id"])
def anything():
    return dp.read("staging.orders").limit(dp.var("limit"))
""",
    )
    folder.write("transformations/notes.txt", "not a definition")
    folder.write("transformations/.hidden/c.py", "raise ValueError")
    python, sql = folder.load()
    assert str(sql.name) == "main.totals"
    assert (sql.kind, sql.sql) == (DatasetKind.MATERIALIZED_VIEW, "SELECT rand() FROM orders LIMIT 3")
    assert (str(sql.location), sql.layout.comment) == ("transformations/sub/a.sql:1:1", "x")
    assert [(u.code, str(u.location)) for u in sql.untraced] == [("not_deterministic", "transformations/sub/a.sql:2:8")]
    assert sql.inputs == (DatasetName("main", "orders"),)
    assert str(python.name) == "shop.orders"
    assert (python.kind, python.tags, str(python.location)) == (DatasetKind.TABLE, ("x",), "transformations/b.py:3")
    assert python.inputs == (DatasetName("staging", "orders"), DatasetName("main", "other"))
    assert python.layout.cluster_by == ("id",)
    assert [(e.name, e.on_violation) for e in python.expectations] == [("paid", OnViolation.DROP)]
    assert python.untraced == ()


def test_functions_run_with_reader_and_variables_in_any_thread(folder: Folder) -> None:
    folder.vars = {"limit": 3}
    folder.write("lib/late.py", "def double(x):\n    return 2 * x\n")
    spec = folder.define("from lib.late import double\nreturn dp.read('t'), double(dp.var('limit'))")
    found: list[Any] = []

    class Reader:
        session = None

        def read(self, name: str) -> str:
            return f"rows of {name}"

    def run() -> None:
        assert spec.function is not None
        with use_reader(Reader()):
            found.append(spec.function())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [("rows of t", 6)]


@pytest.mark.parametrize(
    ("libraries", "names"),
    [
        (("transformations/**",), ["a.py", "sub/b.sql"]),
        (("transformations/**/",), ["a.py", "sub/b.sql"]),
        (("transformations/**/*.sql",), ["sub/b.sql"]),
        (("transformations/*.py", "transformations/a.*"), ["a.py"]),
        (("nothing/**",), []),
    ],
)
def test_globs_name_the_files(folder: Folder, libraries: tuple[str, ...], names: list[str]) -> None:
    for name in ("a.py", "sub/b.sql", "sub/c.md", "__pycache__/d.py", "venv/pyvenv.cfg", "venv/e.py"):
        folder.write(f"transformations/{name}", "")
    folder.libraries = libraries
    found = [
        file.relative_to(folder.root / "transformations").as_posix() for file in find_definition_files(folder.project)
    ]
    assert found == names


@pytest.mark.parametrize("pattern", ["../**", "/etc/*"])
def test_globs_stay_in_the_project(folder: Folder, pattern: str) -> None:
    folder.libraries = (pattern,)
    with pytest.raises(DefinitionError, match="leaves the project"):
        folder.load()


@pytest.mark.parametrize("pattern", [".", ""])
def test_what_is_no_glob_is_an_error(folder: Folder, pattern: str) -> None:
    folder.libraries = (pattern,)
    with pytest.raises(DefinitionError, match="is not a glob"):
        folder.load()


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("x = 1\ndef f(:\n    pass\n", "a.py:2:7", "Python syntax error"),
        ("x = 1\ny = 1 / 0\n", "a.py:2", "failed with ZeroDivisionError: division by zero"),
        ("import lib.broken\n", "lib/broken.py:2", "failed with KeyError: 'x'"),
        ("import lib.wrong\n", "lib/wrong.py:1:", "Python syntax error"),
        ("\nimport no_such_module\n", "a.py:2", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys\nsys.exit(3)\n", "a.py:2", "failed with SystemExit: 3"),
        ("import json\njson.loads('{')\n", "a.py:2", "failed with JSONDecodeError"),
        (HEAD + "dp.read('x')\n", "a.py:2", "only inside a definition"),
        (HEAD + "dp.spark.table('x')\n", "a.py:2", "only inside a definition"),
        (HEAD + "\ndp.var('x')\n", "a.py:3", "no variable 'x'"),
        ("class SparkSession: ...\nspark = SparkSession.builder.getOrCreate()\n", "a.py:2", "no Spark session exists"),
        ("class SparkSession: ...\nif True:\n    s = SparkSession.active()\n", "a.py:3", "no Spark session exists"),
        (HEAD + "@dp.table\nclass Orders: ...\n", "a.py:2", "must decorate a function, not the class"),
        (HEAD + "@dp.table\ndef orders(day): ...\n", "a.py:2", "needs a value for day"),
        (HEAD + "@dp.table\ndef orders(*, day): ...\n", "a.py:2", "needs a value for day"),
        (HEAD + "@dp.table\ndef orders():\n    yield 1\n", "a.py:2", "is a generator"),
        (HEAD + "@dp.table\nasync def orders(): ...\n", "a.py:2", "is asynchronous"),
        (HEAD + "@dp.table(name='a b')\ndef orders(): ...\n", "a.py:2", "'a b' is not a dataset name"),
        (HEAD + "dp.table(lambda: 1)\n", "a.py:2", "'<lambda>' is not a dataset name"),
        (HEAD + "@dp.table(name='staging.x')\ndef orders(): ...\n", "a.py:2", "'staging' holds"),
        (HEAD + "@dp.table(schema='a int')\ndef orders(): ...\n", "a.py:2", "does not support schema"),
        (HEAD + "@dp.expect('a', 'b')\ndef orders(): ...\n", "a.py:2", "not a dataset"),
        (HEAD + "@dp.table(depends_on=['a.b.c'])\ndef orders(): ...\n", "a.py:2", "reads 'a.b.c'"),
        (HEAD + "@dp.table\ndef x(): ...\n\n@dp.table(name='X')\ndef y(): ...\n", "a.py:5",
         "defined twice: at .*:2 and at .*:5"),
    ],
)  # fmt: skip
def test_wrong_python_files_are_refused_with_their_line(folder: Folder, text: str, place: str, message: str) -> None:
    folder.write("lib/broken.py", "\n{}['x']\n")
    folder.write("lib/wrong.py", "def\n")
    folder.write("transformations/a.py", text)
    with pytest.raises(DefinitionError, match=message) as caught:
        folder.load()
    prefix = "" if place.startswith("lib/") else "transformations/"
    assert str(caught.value.location).startswith(prefix + place)
    assert str(folder.root) not in str(caught.value)
    assert str(folder.root) not in sys.path


def test_a_session_at_module_level_is_refused_with_the_way_out(folder: Folder) -> None:
    folder.write("transformations/a.py", "from x import SparkSession\nspark = SparkSession.getActiveSession()\n")
    with pytest.raises(DefinitionError) as caught:
        folder.load()
    assert caught.value.hint is not None
    assert "dp.spark" in caught.value.hint
    folder.write("transformations/a.py", "if __name__ == '__main__':\n    SparkSession.builder.getOrCreate()\n")
    assert folder.load() == ()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("from penstock import pipelines as dp\n@dp.materialised_view\ndef a(): ...\n", "materialized_view"),
        ("from penstock.pipelines import materialised_view\n", "materialized_view"),
        ("import penstock.pipelines\npenstock.pipelines.expect_or_dropp\n", "expect_or_drop"),
        ("import os\nos.pathh\n", None),
        ("from penstock import pipelines as dp\ndp.nothing_like_this\n", None),
    ],
)
def test_a_misspelled_name_of_the_module_has_the_nearest_one_as_a_hint(
    folder: Folder, text: str, hint: str | None
) -> None:
    folder.write("transformations/a.py", text)
    with pytest.raises(DefinitionError, match=r"AttributeError|ImportError") as caught:
        folder.load()
    assert caught.value.hint == (hint and f"did you mean {hint!r}?")


def test_a_name_defined_in_sql_and_python_is_refused(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE TEMPORARY VIEW orders AS SELECT 1")
    folder.write("transformations/b.py", HEAD + "@dp.table\ndef orders(): ...\n")
    with pytest.raises(DefinitionError, match=r"a\.sql:1:1 and at transformations/b\.py:2"):
        folder.load()


def test_a_quarantine_table_cannot_be_defined(folder: Folder) -> None:
    folder.write(
        "transformations/b.py",
        HEAD + "@dp.table\ndef a__quarantine(): ...\n\n@dp.expect_or_drop('x', 'y')\n@dp.table\ndef a(): ...\n",
    )
    with pytest.raises(DefinitionError, match="is the quarantine table of"):
        folder.load()


def test_unreadable_sql_is_refused(folder: Folder) -> None:
    folder.write("transformations/a.sql", "")
    (folder.root / "transformations/a.sql").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DefinitionError, match="not UTF-8"):
        folder.load()


def test_unknown_inputs_are_refused_with_the_nearest_name(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW totals AS SELECT * FROM staging.ordrs")
    specs = folder.load()
    known = {DatasetName("staging", "orders"), DatasetName("staging", "people")}
    with pytest.raises(DefinitionError, match=r"a\.sql:1:50: main\.totals reads staging\.ordrs") as caught:
        check_inputs(specs, known)
    assert caught.value.hint == "did you mean 'staging.orders'?"
    check_inputs(specs, {DatasetName("staging", "ordrs")})


def test_an_unknown_input_that_is_like_no_other_says_first_what_to_do(folder: Folder) -> None:
    specs = [folder.define("return dp.read('staging.unheard_of')")]
    with pytest.raises(DefinitionError) as caught:
        check_inputs(specs, {DatasetName("staging", "people")})
    assert str(caught.value.hint).startswith("correct the name, define the table, or add its raw folder.")


def test_the_same_name_in_another_database_is_suggested(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW totals AS SELECT * FROM orders")
    with pytest.raises(DefinitionError) as caught:
        check_inputs(folder.load(), {DatasetName("staging", "orders")})
    assert caught.value.hint == "did you mean 'staging.orders'?"


def test_cycles_are_refused_with_each_place(folder: Folder) -> None:
    folder.write(
        "transformations/a.sql",
        """CREATE MATERIALIZED VIEW a AS SELECT * FROM b;
CREATE MATERIALIZED VIEW b AS SELECT * FROM c;
CREATE MATERIALIZED VIEW c AS SELECT * FROM a;
CREATE MATERIALIZED VIEW d AS SELECT * FROM a;
""",
    )
    specs = folder.load()
    with pytest.raises(DefinitionError, match="in a circle") as caught:
        check_cycles(specs)
    for place in ("main.a (transformations/a.sql:1:1)", "main.b (transformations/a.sql:2:1)", "main.c ("):
        assert place in caught.value.message
    assert "main.d" not in caught.value.message
    check_cycles([spec for spec in specs if spec.name.name != "c"])


def test_a_definition_that_reads_itself_is_a_cycle(folder: Folder) -> None:
    with pytest.raises(DefinitionError, match="in a circle"):
        check_cycles([folder.define("return dp.read('orders')")])


def test_a_second_load_sees_edits_of_the_same_length_and_second(folder: Folder) -> None:
    folder.write("lib/__init__.py", "")
    results = []
    for value in (1, 2):
        folder.write("lib/settings.py", f"LIMIT = {value}\n")
        spec = folder.define("return LIMIT", "from lib.settings import LIMIT")
        assert spec.function is not None
        results.append(spec.function())
    assert results == [1, 2]
    assert not list(folder.root.rglob("*.pyc"))


def test_files_may_import_each_other_and_have_any_name(folder: Folder) -> None:
    folder.write("transformations/01_orders.py", HEAD + "from transformations.b import base\n@dp.table\ndef a(): ...\n")
    folder.write("transformations/b.py", HEAD + "from .c import one\n@dp.table\ndef base(): return one\n")
    folder.write("transformations/c.py", "one = 1\n")
    assert [spec.name.name for spec in folder.load()] == ["a", "base"]
    assert {module.__name__ for module in loaded_project_modules()} == {
        "_definitions_transformations_01_orders_py",
        "transformations.b",
        "transformations.c",
    }


def test_two_projects_in_one_process_do_not_mix(folder: Folder) -> None:
    top = folder.root
    for name in ("x", "y", "x"):
        folder.root = top / name
        folder.write("lib/names.py", f"NAME = {name!r}\n")
        folder.write("transformations/a.py", HEAD + "from lib.names import NAME\n@dp.table(name=NAME)\ndef f(): ...\n")
        assert folder.one().name.name == name


def test_loading_needs_neither_spark_nor_an_unchanged_files_parser(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW a AS SELECT * FROM staging.t")
    folder.write("transformations/b.py", HEAD + "@dp.table\ndef b(): return dp.spark.sql('SELECT * FROM a')\n")
    folder.load()
    code = f"""
import sys
from pathlib import Path
from penstock.definitions.loading import load_definitions
from penstock.model.project import Project
root = Path({str(folder.root)!r})
specs = load_definitions(Project(root=root, file=root / "penstock.yml", name="shop", storage="x"))
print(len(specs), [m for m in ("pyspark", "sqlglot", "pydantic") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2 []"


@pytest.mark.parametrize("tag", ["my team", "a,b", "", "a+", "\t"])
@pytest.mark.parametrize("is_sql", [True, False])
def test_tags_that_no_selector_can_name_are_refused(tag: str, is_sql: bool, folder: Folder) -> None:
    view = "CREATE MATERIALIZED VIEW {} TAGS ('{}') AS SELECT 1 AS a;"
    sql = f"{view.format('good', 'team:sales')}\n{view.format('t', tag)}"
    python = f"{HEAD}\n@dp.table(tags=['good', {tag!r}])\ndef t(): ...\n"
    folder.write(f"transformations/a.{'sql' if is_sql else 'py'}", sql if is_sql else python)
    with pytest.raises(DefinitionError, match=r"main\.t has the tag .*, which no selector can name") as caught:
        folder.load()
    assert str(caught.value.location).startswith(f"transformations/a.{'sql:2' if is_sql else 'py:3'}")
