"""A definition depends on the imports of its file that it can reach, not on those that only its neighbours use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Folder

FILE = """
from penstock import pipelines as dp
{imports}
{between}
@dp.table
def user():
    return {helper}(dp.read("staging.orders"))

@dp.table
def neighbour():
    return dp.read("staging.orders")
"""


def _changed(folder: Folder, imports: str, helper: str, between: str = "", more: str = "") -> set[str]:
    """Which definitions have another fingerprint after an edit of the helper."""
    folder.write("lib/__init__.py", "")
    folder.write("transformations/a.py", FILE.format(imports=imports, helper=helper, between=between))
    found = []
    for limit in (1, 2):
        folder.write("lib/helpers.py", f"LIMIT = {limit}\n{more}\ndef clean(rows):\n    return rows.limit(LIMIT)\n")
        found.append({spec.name.name: spec.fingerprint for spec in folder.load()})
    return {name for name in found[0] if found[0][name] != found[1][name]}


@pytest.mark.parametrize(
    ("imports", "helper"),
    [
        ("from lib.helpers import clean", "clean"),
        ("from lib import helpers", "helpers.clean"),
        ("import lib.helpers", "lib.helpers.clean"),
        ("import lib.helpers as h", "h.clean"),
    ],
)
def test_an_edited_helper_changes_its_users_only(imports: str, helper: str, folder: Folder) -> None:
    assert _changed(folder, imports, helper) == {"user"}


@pytest.mark.parametrize(
    "between",
    [
        "FIRST = clean",
        "print(clean)",
        "@(lambda f: clean and f)\ndef decorated(): ...",
        "def other(rows=clean): ...",
        "class Cleaner:\n    run = clean",
        "NAMES = globals()",
    ],
)
def test_what_the_file_itself_uses_may_concern_everyone(between: str, folder: Folder) -> None:
    assert _changed(folder, "from lib.helpers import clean", "clean", between) == {"user", "neighbour"}


def test_an_import_that_does_something_concerns_everyone(folder: Folder) -> None:
    changed = _changed(folder, "from lib.helpers import clean", "clean", more="import sys\nsys.marker = LIMIT")
    assert changed == {"user", "neighbour"}


def test_an_import_that_nobody_names_concerns_everyone(folder: Folder) -> None:
    imports = "import lib.helpers as unused\nfrom lib.helpers import clean"
    assert _changed(folder, imports, "clean") == {"user", "neighbour"}


def test_a_star_import_concerns_everyone(folder: Folder) -> None:
    assert _changed(folder, "from lib.helpers import *", "clean") == {"user", "neighbour"}
