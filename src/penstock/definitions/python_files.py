"""Loads Python definition files; errors in them are reported with the user's file and line."""

from __future__ import annotations

import importlib
import inspect
import re
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import TYPE_CHECKING

from penstock import pipelines
from penstock.definitions.project_modules import ProjectFiles, ProjectFinder
from penstock.definitions.user_output import user_output
from penstock.errors import DefinitionError, Location, StoppedError, message_of
from penstock.model.nearest import nearest_hint
from penstock.pipelines.registry import Definition

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_SESSION = "no Spark session exists while definitions are loaded: move this into your function and use dp.spark"
_NO_SESSION_TYPE = "; declare UDF types as objects, such as T.StringType(), not as text"


def load_python_file(file: Path, files: ProjectFiles, finder: ProjectFinder) -> None:
    """Run a definition file, so that its decorators register; raises DefinitionError for any failure."""
    name = files.module_name(file)
    with user_code(files, file):
        if name is not None:
            module = importlib.import_module(name)
            if Path(getattr(module, "__file__", None) or "") == file:
                return
        # Another module has this name, or it cannot be imported: load the file under a unique name.
        shown = files.shown(file)
        finder.load_file(file, "_definitions_" + re.sub(r"\W", "_", shown))


@contextmanager
def user_code(files: ProjectFiles, file: Path) -> Iterator[None]:
    """Turn an exception of the user's code into a DefinitionError with the innermost line of the project."""
    try:
        with user_output(files.shown(file)), _recursion_limit_kept():
            yield
    except DefinitionError as error:
        raise shown_error(error, files, file) from error
    except SyntaxError as error:
        place = Path(error.filename or "")
        if not files.is_project_file(place):
            raise _failed(error, files, file) from error
        location = Location(files.shown(place), error.lineno, error.offset or None)
        raise DefinitionError(f"Python syntax error: {error.msg}", location=location) from error
    except BaseException as error:
        if _is_stop(error):
            raise
        raise _failed(error, files, file) from error


def _is_stop(error: BaseException) -> bool:
    """Whether it is what Ctrl-C raises: where another handler than Python's own is in place, that is a StoppedError."""
    is_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(error, StoppedError) or (is_python and isinstance(error, KeyboardInterrupt))


@contextmanager
def _recursion_limit_kept() -> Iterator[None]:
    """Put back a limit that user code made too low for the rest of the process; a higher one stays."""
    before = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(max(before, sys.getrecursionlimit()))


def shown_error(error: DefinitionError, files: ProjectFiles, file: Path) -> DefinitionError:
    """The same error with the path that users know."""
    location = error.location
    if location is None or not files.is_project_file(Path(location.file)):
        location = _last_line(error.__traceback__, files) or Location(str(file))
    location = Location(files.shown(location.file), location.line, location.column)
    return DefinitionError(error.message, hint=error.hint, location=location)


def check_callable(definition: Definition, location: Location) -> None:
    """Raise when the engine could not call the function and get a DataFrame."""
    function = inspect.unwrap(definition.function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problem = "is a generator: it must return a DataFrame, not yield"
    elif inspect.iscoroutinefunction(function):
        problem = "is asynchronous: write `def`, not `async def`"
    elif len(required := _required_parameters(definition)) > int(definition.partitions is not None):
        called = "without arguments" if definition.partitions is None else "with one argument, the partitions"
        problem = f"needs a value for {', '.join(required)}: a definition is called {called}"
    elif definition.partitions is not None and not inspect.signature(function).parameters:
        problem = "is partitioned and has no parameter: write `def name(ctx)`, and compute the rows of ctx.partition"
    else:
        return
    name = function.__name__
    raise DefinitionError(f"the function {name!r} {problem}", location=location)


def _required_parameters(definition: Definition) -> list[str]:
    variadic = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    parameters = inspect.signature(definition.function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]


def _failed(error: BaseException, files: ProjectFiles, file: Path) -> DefinitionError:
    location = _last_line(error.__traceback__, files) or Location(str(file))
    text = message_of(error).strip().partition("\n")[0]
    name = type(error).__name__
    if "OUTSIDE_OF_DECLARATIVE_PIPELINE" in text:
        return DefinitionError(
            "this file uses the pipelines of pyspark, which only Spark's own runner knows",
            hint="import Penstock's, which have the same names: from penstock import pipelines as dp",
            location=Location(files.shown(location.file), location.line),
        )
    return DefinitionError(
        f"loading this file failed with {name}: {text}" if text else f"loading this file failed with {name}",
        hint=_NO_SESSION + _NO_SESSION_TYPE if _comes_from_spark(error) else _nearest_of_ours(error),
        location=Location(files.shown(location.file), location.line),
    )


def _nearest_of_ours(error: BaseException) -> str | None:
    """What was meant by a name that `penstock.pipelines` does not have: `dp.materialised_view`, or an import of it."""
    if isinstance(error, AttributeError) and error.obj is pipelines:
        name = str(error.name)
    elif isinstance(error, ImportError) and error.name == pipelines.__name__:
        name = "".join(re.findall(r"cannot import name '(\w+)'", str(error)))
    else:
        return None
    return nearest_hint(name, pipelines.__all__).strip() or None


def _last_line(traceback: TracebackType | None, files: ProjectFiles) -> Location | None:
    places = [
        Location(frame.f_code.co_filename, line)
        for frame, line in walk_tb(traceback)
        if files.is_project_file(Path(frame.f_code.co_filename))
    ]
    return places[-1] if places else None


def _comes_from_spark(error: BaseException) -> bool:
    frames = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1]).partition(".")[0] in {"pyspark", "py4j", "delta"}
