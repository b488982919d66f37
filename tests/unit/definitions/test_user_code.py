"""The boundary around user code: the user's file and line, and never a value from a row."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import make_spec
from penstock.definitions.user_code import UserCode, describe
from penstock.errors import ConcurrentRunError, Location, PenstockError, StoppedError, StorageError, UserCodeError

DEFINITION = Location("transformations/totals.sql", 3)


def load_function(root: Path, text: str) -> Callable[[], Any]:
    """The function `totals` of a definition file of a project."""
    file = root / "transformations" / "a.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location("a_user_file", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[], Any] = module.totals
    return function


def fail(root: Path, error: Exception | Callable[[], Any], **spec: Any) -> PenstockError:
    """What comes out of the boundary."""
    code = UserCode(root, make_spec("totals", location=DEFINITION, **spec))
    function = _raise(error) if isinstance(error, Exception) else error
    with pytest.raises(PenstockError) as caught, code.boundary("your function"):
        function()
    return caught.value


def _raise(error: Exception) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def test_an_exception_names_the_innermost_line_of_the_users_files(tmp_path: Path) -> None:
    function = load_function(
        tmp_path,
        """\
        import json

        def helper(text):
            return json.loads(text)

        def totals():
            return helper("{")
        """,
    )
    error = fail(tmp_path, function)
    assert isinstance(error, UserCodeError)
    assert str(error.location) == "transformations/a.py:4"
    assert error.message.startswith("main.totals: your function failed: JSONDecodeError: ")
    assert "\n" not in error.message


def test_the_line_is_found_when_the_project_is_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    function = load_function(tmp_path / "link", "def totals():\n    return 1 / 0\n")
    assert str(fail(tmp_path / "link", function).location) == "transformations/a.py:2"


def test_installed_packages_below_the_project_are_not_the_users_code(tmp_path: Path) -> None:
    library = tmp_path / ".venv/lib/site-packages/library.py"
    library.parent.mkdir(parents=True)
    library.write_text("raise ValueError('inside')\n")
    text = f"import runpy\n\ndef totals():\n    runpy.run_path({str(library)!r})\n"
    assert str(fail(tmp_path, load_function(tmp_path, text)).location) == "transformations/a.py:4"


@pytest.mark.parametrize(
    ("message", "spec", "line", "column"),
    [
        ("Syntax error at or near 'x'. (line 1, pos 7)", {"sql": "SELECT", "query_line": 5, "query_column": 3}, 5, 10),
        ("No type TEXT. == SQL (line 1, position 8) ==", {"sql": "SELECT", "query_line": 5, "query_column": 3}, 5, 10),
        ("Column not found; line 3 pos 2", {"sql": "SELECT", "query_line": 5, "query_column": 9}, 7, 3),
        ("Syntax error at or near 'x'. (line 1, pos 7)", {"sql": "SELECT", "query_line": 5}, 5, None),
        ("Column not found; line 3 pos 2", {"sql": "SELECT", "query_line": 5}, 7, None),
        ("nothing about a place", {"sql": "SELECT", "query_line": 5}, 3, None),
        ("(line 3, pos 2)", {"sql": "SELECT"}, 3, None),
        ("(line 3, pos 2)", {"function": lambda: None, "query_line": 5}, 3, None),
    ],
)
def test_a_position_inside_the_sql_becomes_a_line_of_the_file(
    message: str, spec: dict[str, Any], line: int, column: int | None, tmp_path: Path
) -> None:
    assert fail(tmp_path, RuntimeError(message), **spec).location == Location(
        "transformations/totals.sql", line, column
    )


def test_a_position_inside_a_condition_is_none_of_the_query(tmp_path: Path) -> None:
    spec = replace(make_spec("totals"), sql="SELECT", query_line=5, query_column=3)
    with pytest.raises(PenstockError) as caught, UserCode(tmp_path, spec).boundary("an expectation", is_query=False):
        raise RuntimeError("Column not found; line 1 pos 0")
    assert caught.value.location == Location("transformations/totals.sql", 1)


def test_errors_of_the_engine_stay_what_they_are_and_gain_the_line(tmp_path: Path) -> None:
    error = fail(tmp_path, StorageError("disk full"))
    assert isinstance(error, StorageError)
    assert (error.message, error.location) == ("disk full", DEFINITION)
    known = StorageError("disk full", location=Location("other.py", 1))
    assert fail(tmp_path, known).location == Location("other.py", 1)


def test_another_run_is_not_the_users_mistake(tmp_path: Path) -> None:
    assert fail(tmp_path, ConcurrentRunError("meanwhile")).location is None


def test_an_interrupt_passes(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), UserCode(tmp_path, make_spec("totals")).boundary("the query"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "raised", ["sys.exit(3)", "raise SystemExit(3)", "raise KeyboardInterrupt", "raise BaseException"]
)
def test_an_exit_or_interrupt_that_user_code_raises_is_its_error(tmp_path: Path, raised: str) -> None:
    """It runs in a thread, where the interrupt of Ctrl-C never comes."""
    function = load_function(tmp_path, f"import sys\n\ndef totals():\n    {raised}\n")
    with ThreadPoolExecutor() as pool:
        error = pool.submit(fail, tmp_path, function).result()
    assert isinstance(error, UserCodeError)
    assert str(error.location) == "transformations/a.py:4"
    assert error.message.startswith("main.totals: your function failed: ")


@pytest.mark.parametrize("error", [StoppedError(), GeneratorExit()])
def test_what_stops_penstock_passes_in_every_thread(tmp_path: Path, error: BaseException) -> None:
    def run() -> None:
        with UserCode(tmp_path, make_spec("totals")).boundary("the query"):
            raise error

    with ThreadPoolExecutor() as pool, pytest.raises(type(error)):
        pool.submit(run).result()


HIDDEN = " while computing rows; the full message is in .penstock/logs/spark.log"


def spark_error(name: str, message: str, module: str = "pyspark.errors.exceptions.captured") -> Exception:
    """An exception as Spark raises it; its own classes need a JVM to be made."""
    kind = type(name, (Exception,), {"__module__": module})
    error = kind(message)
    assert isinstance(error, Exception)
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("first\nsecond"), "ValueError: first"),
        (ValueError(), "ValueError"),
        (ValueError("\n\n  inside  \n"), "ValueError: inside"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 388),
        (spark_error("AnalysisException", "column 'id' is missing\nat java"), "column 'id' is missing"),
        (spark_error("NumberFormatException", "value 'Jane Doe' and \"secret\""), "NumberFormatException" + HIDDEN),
        (spark_error("Py4JJavaError", "value 4711", "py4j.protocol"), "Py4JJavaError" + HIDDEN),
        (spark_error("DeltaConcurrentModification", "'v'", "delta.exceptions"), "DeltaConcurrentModification" + HIDDEN),
        (
            spark_error("ParseException", "\nSyntax error at 'x'.\n(line 1, pos 2)\n\n== SQL =="),
            "Syntax error at 'x'. (line 1, pos 2)",
        ),
        (spark_error("SparkException", ""), "SparkException" + HIDDEN),
        (
            spark_error(
                "Py4JJavaError", "calling o1.\n[OUTER] x\n[DIVIDE_BY_ZERO] of 'Jane'\nat java", "py4j.protocol"
            ),
            "[DIVIDE_BY_ZERO]" + HIDDEN,
        ),
    ],
)
def test_an_exception_is_told_in_one_line_without_values_from_rows(error: Exception, text: str) -> None:
    assert describe(error) == text
