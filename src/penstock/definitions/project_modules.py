"""The user's Python modules: which files belong to the project, and how they are imported.

Project modules are compiled from their text in every load, wherever they are on Python's path: its own cache trusts times in
whole seconds, so an edit right after a load could go unseen, and a table would be computed by old code under a new fingerprint.
"""

from __future__ import annotations

import ast
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from penstock.errors import DefinitionError, Location

_MOST_PROJECTS = 16
LOADING = threading.RLock()
"""The modules of a process are one table: two threads that load projects would remove each other's half-loaded modules."""
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""What is in the folder of a virtual environment."""
_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120
_LONGEST_NAME = 100
_SESSION_CALLS = frozenset({"getOrCreate", "getActiveSession", "active"})


class ProjectFiles:
    """The Python files of one project, with the text that was loaded.

    A file belongs to the project if it is below the project's folder, as its path is written or with links resolved, and in
    no environment. Every path is compared in one form, from the root: `/nb/../shop/lib/x.py` may be `lib/x.py`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.sources: dict[Path, bytes] = {}
        self.names: dict[Path, frozenset[str]] = {}
        """The names that the code of each loaded module uses, and its short texts, which may be names."""
        self._start = os.path.join(self.root, "")  # noqa: PTH118 - a text, to compare with
        self._found: dict[str, Path | None] = {}
        self._folders: dict[str, Path | None] = {}

    def is_project_file(self, file: Path | str) -> bool:
        """Tell whether the file belongs to the project."""
        return self.own_path(file) is not None

    def is_project_folder(self, folder: Path | str) -> bool:
        """Tell whether files in this folder belong to the project."""
        return self._own_folder(str(folder)) is not None

    def own_path(self, file: Path | str) -> Path | None:
        """The path of a file below the root, however it is written; None if it does not belong to the project."""
        # Asked for every module of the process, of which few are the project's: paths take ten times as long as texts.
        text = str(file)
        if text not in self._found:
            folder, _, name = text.rpartition(os.sep)
            own = self._own_folder(folder) if name != ".." else None
            self._found[text] = None if own is None else own / name
        return self._found[text]

    def _own_folder(self, folder: str) -> Path | None:
        if folder not in self._folders:
            self._folders[folder] = self._find_own_folder(folder)
        return self._folders[folder]

    def _find_own_folder(self, folder: str) -> Path | None:
        path = Path(folder)
        is_as_written = os.path.join(path, "").startswith(self._start) and ".." not in path.parts  # noqa: PTH118
        if not is_as_written:
            if not path.is_absolute() or _is_of_python(folder):
                return None
            path = Path(os.path.realpath(folder))
        if not path.is_relative_to(self.root) or "site-packages" in path.relative_to(self.root).parts:
            return None
        inner = [path, *path.parents][: len(path.parts) - len(self.root.parts)]
        return None if any((each / mark).exists() for each in inner for mark in _ENVIRONMENT) else path

    def read(self, file: Path) -> bytes:
        """The text of a file as it was loaded, else as it is on disk."""
        if file not in self.sources:
            self.sources[file] = file.read_bytes()
        return self.sources[file]

    def shown(self, file: str | Path) -> str:
        """The path to show in messages, from the root of the project."""
        path = self.own_path(file) or Path(file)
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(file)

    def module_name(self, file: Path) -> str | None:
        """The dotted name under which the file can be imported from the root, if it has one."""
        parts = list(file.relative_to(self.root).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else None

    def module_file(self, name: str) -> Path | None:
        """The file below the root behind a dotted name, if there is one."""
        return self._module_below(self.root, name)

    def module_file_on_path(self, name: str) -> Path | None:
        """The project's file behind a dotted name on another entry of Python's path."""
        here = Path.cwd()
        folders = [self._own_folder(str(here / entry)) for entry in sys.path if isinstance(entry, str)]
        found = (self._module_below(each, name) for each in dict.fromkeys(folders) if each not in {None, self.root})
        return next((file for file in found if file is not None), None)

    def _module_below(self, folder: Path, name: str) -> Path | None:
        base = folder.joinpath(*name.split("."))
        for file in (base / "__init__.py", base.with_name(base.name + ".py")):
            if file.is_file() and self.is_project_file(file):
                return file
        return None


def _is_of_python(folder: str) -> bool:
    """Tell at a glance whether a folder is Python's own or holds installed packages: resolving links takes time."""
    return "site-packages" in folder or folder.startswith(_LIBRARY)


class ProjectLoader(SourceFileLoader):
    """Compiles a project module from its text, without Python's bytecode cache."""

    files: ProjectFiles

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """Compile the module; refuses a session at module level, which would start a JVM just for a plan."""
        path = self.files.own_path(self.path) or Path(self.path)
        self.files.sources[path] = source = self.get_data(self.path)
        tree = ast.parse(source, self.path)
        check_no_session(tree, self.path)
        code: CodeType = compile(tree, self.path, "exec", dont_inherit=True)
        self.files.names[path] = frozenset(_names_in(code))
        return code


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
        elif type(constant) is str and len(constant) < _LONGEST_NAME:
            yield constant


class ProjectFinder:
    """Finds modules below the project's root before any installed module of the same name."""

    def __init__(self, files: ProjectFiles) -> None:
        self.files = files
        self.modules: dict[str, ModuleType] = {}
        """What was loaded, when another project is loaded now."""

        class Loader(ProjectLoader):
            pass

        Loader.files = files
        self._loader = Loader

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Called by Python's import; what the other finders find is given as they found it, with the project's own loader."""
        return self._find_below_root(fullname, path) or self._find_with_others(fullname, path, target)

    def _find_below_root(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        entries = [self.files.root] if path is None else [Path(entry) for entry in path]
        for entry in entries:
            if entry != self.files.root and not self.files.is_project_folder(entry):
                continue
            found = FileFinder(str(entry), (self._loader, SOURCE_SUFFIXES)).find_spec(fullname)
            if found is not None and (found.loader is not None or not _is_installed(fullname, path)):
                return found
        return None

    def _find_with_others(self, fullname: str, path: Sequence[str] | None, target: Any) -> ModuleSpec | None:
        """Another folder of the project on Python's path, or a package of it that is installed as editable."""
        for other in list(sys.meta_path):
            find = None if other is self else getattr(other, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if spec is not None:
                return self._with_own_loader(spec)
        return None

    def _with_own_loader(self, spec: ModuleSpec) -> ModuleSpec:
        if type(spec.loader) is SourceFileLoader and self.files.is_project_file(str(spec.origin)):
            spec.loader, spec.cached = self._loader(spec.name, str(spec.origin)), None
        return spec

    def load_file(self, file: Path, name: str) -> ModuleType:
        """Load a file that has no importable name, such as `01_orders.py`."""
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location(name, file, loader=self._loader(name, str(file)))
        if spec is None or spec.loader is None:
            raise DefinitionError("this file cannot be loaded", location=Location(str(file)))
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module


REPLACED: dict[Path, ProjectFinder] = {}
"""The projects that were loaded before the one that is loaded now, by their roots."""


@contextmanager
def project_imports(finder: ProjectFinder, files: ProjectFiles) -> Iterator[None]:
    """Import project modules again inside the block, with the root on Python's path.

    The finder stays afterwards, so that an import inside a function works when the function runs. One thread at a time.
    """
    with LOADING, _replaced_modules(finder, files):
        yield


@contextmanager
def _replaced_modules(finder: ProjectFinder, files: ProjectFiles) -> Iterator[None]:
    dropped = {name: module for name, module in list(sys.modules.items()) if _is_dropped(name, module, files)}
    replace_finder(finder)
    for name in dropped:
        del sys.modules[name]
    root = str(files.root)
    sys.path.insert(0, root)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(root)
        # What was imported from this folder for another purpose, such as the user's tests, stays.
        for name, module in dropped.items():
            if getattr(module, "__file__", None) and not isinstance(module.__loader__, ProjectLoader):
                sys.modules.setdefault(name, module)


def loaded_project_modules() -> list[ModuleType]:
    """The project's modules that are loaded now.

    A function of theirs reaches a Spark worker only by value, because the worker cannot import them.
    """
    return [m for m in list(sys.modules.values()) if isinstance(getattr(m, "__loader__", None), ProjectLoader)]


def replace_finder(finder: ProjectFinder) -> None:
    """Let this finder find modules; what was loaded of another project is kept, for when its code runs."""
    for other in [each for each in sys.meta_path if isinstance(each, ProjectFinder)]:
        sys.meta_path.remove(other)
        if other.files.root != finder.files.root:
            other.modules = own_modules(other.files)
            REPLACED[other.files.root] = other
    sys.meta_path.insert(0, finder)
    REPLACED.pop(finder.files.root, None)
    if len(REPLACED) > _MOST_PROJECTS:
        del REPLACED[next(iter(REPLACED))]


def own_modules(files: ProjectFiles) -> dict[str, ModuleType]:
    """What a load of this project has loaded, with its packages that have no file."""
    loaded = [(name, module) for name, module in list(sys.modules.items()) if _is_dropped(name, module, files)]
    return {
        name: module
        for name, module in loaded
        if isinstance(getattr(module, "__loader__", None), ProjectLoader) or not getattr(module, "__file__", None)
    }


def check_no_session(tree: ast.Module, file: str) -> None:
    """Refuse `SparkSession.active()` and similar calls outside functions: no session exists while definitions are loaded."""
    for node in _module_level(tree.body):
        called = node.func if isinstance(node, ast.Call) else None
        if (
            isinstance(called, ast.Attribute)
            and called.attr in _SESSION_CALLS
            and "SparkSession" in ast.unparse(called)
        ):
            raise DefinitionError(
                f"SparkSession {called.attr}() at module level: no Spark session exists while definitions are loaded",
                hint="use dp.spark, or `from penstock.pipelines import spark`, inside your functions",
                location=Location(file, node.lineno),
            )


def _module_level(body: Sequence[ast.AST]) -> Iterator[Any]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_main_block(node):
            continue
        yield node
        yield from _module_level(list(ast.iter_child_nodes(node)))


def _is_main_block(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _is_installed(fullname: str, path: Sequence[str] | None) -> bool:
    """Tell whether a folder without __init__.py would hide an installed package."""
    if path is not None:
        return False
    found = PathFinder.find_spec(fullname)
    return found is not None and found.loader is not None and found.origin is not None


def _is_dropped(name: str, module: Any, files: ProjectFiles) -> bool:
    if name == "__main__" or name.partition(".")[0] == "penstock":
        return False
    if isinstance(getattr(module, "__loader__", None), ProjectLoader):
        return True
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return files.is_project_file(file)
    # A folder without __init__.py: it may be that of another project, loaded before under the same name.
    folders = _folders_of(module)
    return bool(folders) and (
        files.root.joinpath(*name.split(".")).is_dir() or any(map(files.is_project_folder, folders))
    )


def _folders_of(module: Any) -> list[str]:
    """Where a package without a file looks for its modules; Python works it out from the parent, which may be gone."""
    try:
        return [str(folder) for folder in getattr(module, "__path__", ())]
    except (KeyError, AttributeError, TypeError):
        return []
