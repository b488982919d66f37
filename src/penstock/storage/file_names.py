"""Names that Spark cannot take: of raw files, of their columns, and of fields within these."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import RawFileError
from penstock.model.changes import INTERNAL_COLUMNS
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

OWN = "__penstock_"
"""What the names of columns that Penstock itself adds to rows start with."""
_LONGEST = 10_000
"""The most characters of a column's name: Spark reads the columns of a table from JSON, where it takes 50,000."""
_SHOWN = 100


def check_path(files: Files, path: str) -> None:
    """RawFileError when Spark could not read a file of this name."""
    if show_path(path) != path:
        raise RawFileError(
            f"raw file {show_path(path)}: Spark cannot read a file whose name is not UTF-8", hint="rename the file"
        )
    if ":" in path and isinstance(files, LocalFiles):
        raise RawFileError(
            f"raw file {path}: Spark cannot read a local file with a colon in its name", hint="rename the file"
        )


def show_path(path: str) -> str:
    """The path for messages: bytes that are not UTF-8 as \\xff."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def check_names(names: Iterable[str], path: str, within: str | None = None) -> None:
    """RawFileError when two columns of a file, or two fields within a column, have one name: case does not matter."""
    seen: dict[str, str] = {}
    what = "column" if within is None else f"column {shorten(within)!r}: field"
    for name in names:
        check_name(name, path)
        key = name.lower() if within is None else _fold(name)
        if key in seen:
            twice = f"{what} {name!r} appears twice"
            by_case = f"{what}s {seen[key]!r} and {name!r} differ only by case"
            raise RawFileError(
                f"raw file {path}: {twice if seen[key] == name else by_case}", hint="rename one of them at the source"
            )
        seen[key] = name


def check_name(name: str, path: str) -> None:
    """RawFileError for the name of a column that no table can have: too long, or of a column that Penstock adds."""
    if len(name) > _LONGEST:
        raise RawFileError(
            f"raw file {path}: a column is called {shorten(name)!r}, a name of {len(name):,} characters, "
            f"{_LONGEST:,} are allowed",
            hint="rename it at the source",
        )
    if name.lower() in INTERNAL_COLUMNS:
        raise RawFileError(
            f"raw file {path}: column {name!r} has a name that Spark uses itself, and would be read with other values",
            hint="rename it at the source",
        )
    if name.lower().startswith(OWN):
        raise RawFileError(
            f"raw file {path}: column {name!r} has a name that Penstock uses itself, as all that start with {OWN}",
            hint="rename it at the source",
        )


def shorten(name: str) -> str:
    """A name for messages."""
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."


def _fold(name: str) -> str:
    """The name as Java compares those of fields: by capitals too, so that dotless i is i, character by character."""
    if name.isascii():
        return name.lower()
    capitals = (each.upper() if len(each.upper()) == 1 else each for each in name)
    return "".join(each.lower()[0] for each in capitals)
