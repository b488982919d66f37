"""What a Python definition depends on: a fingerprint of its logic, the datasets it reads, and what cannot be traced.

The fingerprint covers the function's text, the values it closes over, the functions and classes of the project that it
uses, and every project module that they can reach by imports. It is the same in every process and on every machine; it
holds no line numbers and no absolute paths. In doubt, a definition is reported as untraced and recomputed on every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.project_modules import ProjectFiles
from penstock.definitions.trace_extensions import find_extensions
from penstock.definitions.trace_findings import Extensions, Trace
from penstock.definitions.trace_held import own_defaults
from penstock.definitions.trace_sources import Sources
from penstock.definitions.trace_walk import Walk
from penstock.definitions.trace_wrappers import plain_function
from penstock.errors import DefinitionError, Location, PenstockError
from penstock.model.project import Scalar


class Tracer:
    """Traces the definitions of one load."""

    def __init__(self, files: ProjectFiles, variables: Mapping[str, Scalar], cache: ParseCache) -> None:
        self.sources = Sources(files)
        self.variables = variables
        self.cache = cache
        self._walks: dict[int, Walk] = {}

    @cached_property
    def extensions(self) -> Extensions:
        """What code of the project added to classes of packages; known when all files are loaded."""
        return find_extensions(self.sources.files)

    def follow_all(self, functions: Iterable[Callable[..., Any]]) -> None:
        """Load what these definitions import inside functions, before any of them is judged.

        What one of them loads may add methods to the classes that another uses, or be what another imports.
        """
        functions = waiting = list(functions)
        while waiting:
            loaded = len(self.sources.files.names)
            for function in waiting:
                with suppress(Exception):  # reported by `trace`
                    self._walks[id(function)] = self._follow(function)
            if len(self.sources.files.names) == loaded:
                return
            self.sources.forget_imports()
            is_extended = self._search_again()
            waiting = [each for each in functions if is_extended or self._needs_more(each)]

    def trace(self, function: Callable[..., Any], *, has_depends_on: bool = False) -> Trace:
        """Trace one definition; `has_depends_on` means that the user declared the reads that cannot be traced."""
        try:
            walk = self._walks.pop(id(function), None) or self._follow(function)
            return walk.finish(has_depends_on)
        except PenstockError:
            raise
        except Exception as error:
            # A user's value may raise anything when it is inspected; a plan must not end in a stack trace.
            place = plain_function(function)
            line = place.__code__.co_firstlineno if place is not None else None
            file = self.sources.files.shown(place.__code__.co_filename) if place is not None else ""
            raise DefinitionError(
                f"this definition cannot be traced ({type(error).__name__})",
                hint="a value that it uses may not be readable: use plain values or a simpler object",
                location=Location(file, line),
            ) from error

    def _follow(self, function: Callable[..., Any]) -> Walk:
        walk = Walk(self.sources, self.variables, self.cache, self.extensions)
        walk.follow(function, own_defaults(function))
        return walk

    def _needs_more(self, function: Callable[..., Any]) -> bool:
        walk = self._walks.get(id(function))
        return walk is None or walk.imports.has_found_more()

    def _search_again(self) -> bool:
        """Look for added methods again, after more was loaded; tells whether there are others."""
        before = self.__dict__.pop("extensions", {})
        with suppress(Exception):
            return _identities(before) != _identities(self.extensions)
        return False


def _identities(extensions: Extensions) -> dict[str, list[int]]:
    return {name: [id(each) for each in (*found.pieces, *found.given)] for name, found in extensions.items()}
