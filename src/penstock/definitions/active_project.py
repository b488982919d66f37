"""Which project's modules are loaded: of several projects in one process, those of the project whose code runs.

An import inside a function takes what is loaded under that name, and two projects may both have `lib.prices`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.definitions.project_modules import LOADING, REPLACED, own_modules, replace_finder

_running: list[Path] = []


@contextmanager
def project_code(folder: Path) -> Iterator[None]:
    """Run code of the project in this folder with its own modules, also if another project was loaded since.

    While code of another project runs in another thread, the loaded modules stay: they cannot be those of both.
    """
    root = folder.resolve() if REPLACED else folder
    if root in REPLACED:
        with LOADING:
            if all(other == root for other in list(_running)):
                _activate(root)
    _running.append(root)
    try:
        yield
    finally:
        _running.remove(root)


def _activate(root: Path) -> None:
    finder = REPLACED.get(root)
    if finder is None:
        return
    modules = finder.modules
    replace_finder(finder)
    for name in own_modules(finder.files):
        del sys.modules[name]
    sys.modules.update(modules)
