"""The boundary around user code: exceptions inside it become errors with the user's file and line."""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.definitions.active_project import project_code
from penstock.definitions.project_modules import ProjectFiles
from penstock.definitions.user_output import user_output
from penstock.errors import ConcurrentRunError, Location, PenstockError, StoppedError, UserCodeError, message_of
from penstock.model.spec import DatasetSpec

_CODED = re.compile(r"\[[A-Z][A-Z0-9_.]+\][^\n]*")
_LONGEST = 400
_POSITION = re.compile(r"line (\d+),? pos(ition)? (\d+)")
"""Spark counts lines from 1, what it calls `pos` from 0, and what it calls `position` from 1."""


@dataclass(frozen=True, slots=True)
class UserCode:
    """The boundary for one definition of one project."""

    root: Path
    spec: DatasetSpec

    @contextmanager
    def boundary(self, doing: str, *, is_query: bool = True) -> Iterator[None]:
        """Turn any exception of the block into an error with the user's line; errors of the engine only get the line added.

        If the block runs other SQL than the query, a position in its message says nothing about the file.
        """
        try:
            with user_output(str(self.spec.name)), project_code(self.root):
                yield
        except ConcurrentRunError:
            raise
        except PenstockError as error:
            if error.location is None:
                error.location = self._find_line(error, is_query=is_query)
            raise
        except BaseException as error:
            if is_interrupt(error) and not (isinstance(error, GeneratorExit) and self._find_frames(error)):
                raise
            raise UserCodeError(
                f"{self.spec.name}: {doing} failed: {describe(error)}",
                location=self._find_line(error, is_query=is_query),
            ) from error

    def _find_frames(self, error: BaseException) -> list[traceback.FrameSummary]:
        """The frames of the project's own files."""
        files = ProjectFiles(self.root)
        return [frame for frame in traceback.extract_tb(error.__traceback__) if files.is_project_file(frame.filename)]

    def _find_line(self, error: BaseException, *, is_query: bool) -> Location:
        """The innermost line of the project's own files, or a position inside the SQL, or the definition."""
        frames = self._find_frames(error)
        if frames:
            return Location(ProjectFiles(self.root).shown(frames[-1].filename), frames[-1].lineno)
        spec = self.spec
        match = _POSITION.search(message_of(error)) if spec.sql is not None and is_query else None
        if match is None or spec.location.line is None or spec.query_line is None:
            return Location(spec.location.file, spec.location.line)
        line, column = int(match[1]), int(match[3]) + (0 if match[2] else 1)
        place = None if spec.query_column is None else column + (spec.query_column - 1 if line == 1 else 0)
        return Location(spec.location.file, spec.query_line + line - 1, place)


def is_interrupt(error: BaseException) -> bool:
    """Whether the user stops Penstock, or Python a generator. An exit or an interrupt that user code raises is its error.

    Python raises the interrupt of Ctrl-C only in the main thread.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, GeneratorExit | StoppedError) or (isinstance(error, KeyboardInterrupt) and is_main)


def describe(error: BaseException) -> str:
    """One line about an exception, without values from rows.

    Spark's analysis errors contain only names and types; errors while computing rows quote values, so they are hidden.
    """
    lines = [line.strip() for line in message_of(error).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    name = type(error).__name__
    if not type(error).__module__.startswith(("pyspark", "py4j", "delta")):
        return f"{name}: {first}"[:_LONGEST] if first else name
    coded = _CODED.findall(message_of(error))
    words = coded[-1] if coded else first
    if "Analysis" not in name and "Parse" not in name:
        code = words.split("]", 1)[0] + "]" if coded else name
        return f"{code} while computing rows; the full message is in .penstock/logs/spark.log"
    if name == "ParseException" and len(lines) > 1:
        words = " ".join(lines[:2])
    return words[:_LONGEST] or name
