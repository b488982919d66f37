"""Which datasets a command selects: `--select` and `--exclude`, with the selector syntax of dbt.

    orders              the dataset of that name in the project's database, else in any other
    staging.orders      with its database
    +orders  orders+    with all it reads, with all that reads it; `2+orders`, `orders+1` go that many steps
    tag:nightly         all with the tag
    path:sales          all that are defined in this file or below this folder, or in files that a glob names
    stg_*  staging.*    globs, over names or over database.name
    a b                 a and b; so do two arguments
    a,b                 only what both a and b select

A selector that selects nothing is an error: a typo must not look like "nothing to do".
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from penstock.errors import UsageError
from penstock.model.dataset import NO_TABLE
from penstock.model.graph import downstream, upstream
from penstock.model.names import DatasetName, match_names, to_dataset_name
from penstock.model.nearest import nearest_names

_SELECTOR = re.compile(
    r"(?P<up>[0-9]{0,6}\+)?(?:(?P<method>[A-Za-z_]+):)?(?P<body>[^+:,]+(?::[^+:,]+)*)(?P<down>\+[0-9]{0,6})?\Z"
)
_ANY_FOLDERS = re.compile(r"(?:(?<=/)|^)\*\*/")
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Definitions:
    """What selectors need to know of definitions."""

    files: Mapping[DatasetName, str]
    """Their files, from the project's folder."""
    root: Path
    """That folder."""
    views: Mapping[DatasetName, str] = field(default_factory=dict)
    """Those without a table, each with what to select instead."""


def select_datasets(
    graph: Mapping[DatasetName, frozenset[DatasetName]],
    tags: Mapping[DatasetName, frozenset[str]],
    select: Sequence[str],
    exclude: Sequence[str],
    default_database: str,
    selected_by: str = "--select",
    definitions: Definitions | None = None,
) -> frozenset[DatasetName]:
    """Return the datasets that `--select` names (all, if it names none) without those that `--exclude` names.

    `selected_by` is what the user typed before the names; `definitions` says where they are.
    """
    scope = _Scope(graph, tags, default_database.lower(), definitions or Definitions({}, Path()))
    chosen = scope.union(selected_by, select) if select else frozenset(graph)
    return chosen - scope.union("--exclude", exclude)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What selectors select from."""

    graph: Mapping[DatasetName, frozenset[DatasetName]]
    tags: Mapping[DatasetName, frozenset[str]]
    default_database: str
    definitions: Definitions

    def union(self, option: str, arguments: Sequence[str]) -> frozenset[DatasetName]:
        found: frozenset[DatasetName] = frozenset()
        for argument in arguments:
            words = argument.split()
            if not words:
                raise UsageError(f"{option} is empty", hint="name a dataset, or remove the option")
            for word in words:
                found |= self._intersection(option, word)
        return found

    def _intersection(self, option: str, word: str) -> frozenset[DatasetName]:
        parts = word.split(",")
        if not all(parts):
            raise UsageError(
                f"{option} {word}: a selector is missing next to the comma",
                hint="a comma without spaces selects what both sides select; a space selects what either selects",
            )
        found = frozenset.intersection(*(self._one(option, part) for part in parts))
        if not found:
            raise UsageError(f"{option} {word}: no dataset is selected by all of {', '.join(parts)}")
        return found

    def _one(self, option: str, text: str) -> frozenset[DatasetName]:
        match = _SELECTOR.match(text)
        if match is None:
            raise UsageError(
                f"{option} {text}: not a valid selector",
                hint="use name, database.name, +name, name+, 2+name, tag:name, path:folder, a glob such as staging.*",
            )
        start = self._matching(option, text, match["method"], match["body"])
        found = start
        if match["up"]:
            found |= upstream(self.graph, start, _depth(match["up"]))
        if match["down"]:
            found |= downstream(self.graph, start, _depth(match["down"]))
        return found

    def _matching(self, option: str, text: str, method: str | None, body: str) -> frozenset[DatasetName]:
        if method not in {None, "tag", "path"}:
            raise UsageError(f"{option} {text}: unknown method `{method}:`", hint="the methods are `tag:` and `path:`")
        if method == "path":
            found, what, hint = (
                self._below(body),
                "is defined there",
                "`penstock show NAME` says where a dataset is",
            )
        elif method == "tag":
            found, what, hint = self._tagged(body), "has this tag", f"tags: {', '.join(self._all_tags()) or 'none'}"
        else:
            found, what, hint = self._named(body), "has this name", "`penstock ls` lists the datasets"
        if not found:
            if method is None:
                self._refuse_view(f"{option} {text}", body)
            near = self._near(body, method) if method != "path" else ""
            raise UsageError(f"{option} {text}: no dataset {what}{near}", hint=hint)
        return found

    def _refuse_view(self, shown: str, body: str) -> None:
        """UsageError for the name of a temporary view."""
        with suppress(ValueError):
            for name in match_names(body, self.definitions.views, self.default_database):
                raise UsageError(f"{shown}: {name} {NO_TABLE}", hint=self.definitions.views[name])

    def _from_root(self, body: str) -> str:
        """A path as files are called here: from the project's folder."""
        if PurePath(body).is_absolute():
            place, root = Path(body).resolve(), self.definitions.root.resolve()
            return place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)
        return posixpath.normpath(body)

    def _below(self, body: str) -> frozenset[DatasetName]:
        is_named = _to_test(self._from_root(body))
        return frozenset(name for name, file in self.definitions.files.items() if name in self.graph and is_named(file))

    def _tagged(self, pattern: str) -> frozenset[DatasetName]:
        return frozenset(
            name for name in self.graph if any(fnmatchcase(tag, pattern) for tag in self.tags.get(name, frozenset()))
        )

    def _named(self, body: str) -> frozenset[DatasetName]:
        pattern = body.lower()
        if _WILDCARD.search(pattern):
            whole = "." in pattern
            return frozenset(n for n in self.graph if fnmatchcase(str(n) if whole else n.name, pattern))
        try:
            exact = to_dataset_name(body, self.default_database)
        except ValueError:
            return frozenset()
        if exact in self.graph:
            return frozenset({exact})
        return frozenset() if "." in body else frozenset(n for n in self.graph if n.name == exact.name)

    def _near(self, body: str, method: str | None) -> str:
        known = self._all_tags() if method else [known for n in sorted(self.graph) for known in (n.name, str(n))]
        prefix = f"{method}:" if method else ""
        near = " or ".join(f"`{prefix}{name}`" for name in nearest_names(body, known))
        return f"; did you mean {near}?" if near else ""

    def _all_tags(self) -> list[str]:
        return sorted({tag for name in self.graph for tag in self.tags.get(name, frozenset())})


def _to_test(place: str) -> Callable[[str], bool]:
    """Whether a file is this one, below this folder, or named by this glob, in which `**/` stands for any folders or none."""
    parts = _ANY_FOLDERS.split(place)
    return lambda file: place in {file, "."} or file.startswith(f"{place}/") or _is_named(file, parts)


def _is_named(file: str, parts: Sequence[str]) -> bool:
    """Whether a glob that is split at `**/` names a file: each part ends before a folder, the last one at the end."""
    folders = [0, *(match.end() for match in re.finditer("/", file))]
    starts = [0]
    for part in parts[:-1]:
        ends = [end for end in folders if any(fnmatchcase(file[at:end], part) for at in starts if at <= end)]
        starts = folders[folders.index(ends[0]) :] if ends else []
    return any(fnmatchcase(file[at:], parts[-1]) for at in starts)


def _depth(sign: str) -> int | None:
    """The number next to a `+`; without one there is no limit."""
    digits = sign.strip("+")
    return int(digits) if digits else None
