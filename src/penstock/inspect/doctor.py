"""Checking the machine and the project: each check says what it found and, if something is wrong, how to fix it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from penstock.definitions.loading import load_definitions
from penstock.errors import PenstockError, StorageError
from penstock.eventlog.opening import open_event_log
from penstock.lake.data_reading import find_unreadable
from penstock.lake.delta_log import find_version
from penstock.lake.log_checks import find_false_pointer
from penstock.model.names import QUARANTINE_SUFFIX, DatasetName
from penstock.model.project import Project
from penstock.model.wording import counted
from penstock.session.jars import find_cached_jars, find_jars
from penstock.session.java import find_java
from penstock.storage.files import Files, open_files
from penstock.storage.local import LocalFiles

_TESTED = {"pyspark": "4.2.0", "delta-spark": "4.4.0"}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "detail": self.detail, "fix": self.fix}


def check_java() -> Check:
    """Whether Spark can start a JVM here."""

    def look() -> str:
        java = find_java()
        return f"Java {java.version} at {java.home}"

    return _run_check("java", look)


def check_spark() -> Check:
    """Whether the tested versions of Spark and Delta's Python packages are installed."""
    found = []
    for package, tested in _TESTED.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            return Check("spark", False, f"{package} is not installed", "pip install penstock")
        found.append(f"{package} {installed}")
        if installed != tested:
            fix = f"pip install {package}=={tested}"
            return Check("spark", False, f"{package} {installed} is not the tested {tested}", fix)
    return Check("spark", True, ", ".join(found))


def check_jars(project: Project | None) -> Check:
    """Whether Delta's jars are available."""
    if project is not None and project.spark.remote:
        return Check("delta jars", True, "on the Spark Connect server")
    if project is not None and project.spark.jars:
        folder = project.spark.jars
        return _run_check("delta jars", lambda: f"{len(find_jars(folder))} jars in {folder}")
    cached = find_cached_jars("delta")
    if cached is None:
        return Check("delta jars", True, "not fetched yet; the first run fetches them (13 MB) by package name")
    return Check("delta jars", True, f"{len(cached)} jars in {cached[0].parent}")


def check_storage(project: Project) -> Check:
    """Whether the storage can be written: a small file is created and, locally, removed again."""

    def look() -> str:
        files = open_files(project.storage, project.configuration)
        probe = f"_penstock_doctor/{uuid.uuid4().hex}"
        files.create(probe, b"")
        files.read(probe)
        files.remove(probe)
        if isinstance(files, LocalFiles):
            (files.root / "_penstock_doctor").rmdir()
        return f"{project.storage} can be written"

    return _run_check("storage", look)


def check_event_log(project: Project) -> Check:
    """Whether the event log opens."""

    def look() -> str:
        with open_event_log(project.event_log) as log:
            return f"{log.uri} opens"

    return _run_check("event log", look)


def check_project(load: Callable[[], Project]) -> tuple[Check, Project | None]:
    """Whether there is a project with a valid project file."""
    try:
        project = load()
    except PenstockError as error:
        return Check("project", False, error.text, error.hint), None
    return Check("project", True, f"{project.name} at {project.file}"), project


def check_raw(project: Project) -> Check:
    """Whether the raw folder exists; a project that loads tables of databases may have none."""
    path = project.raw.path if project.raw else ""
    if "://" not in path and not Path(path).exists() and _has_loads(project):
        return Check("raw", True, f"{path} does not exist: the project has loads, and no raw files")
    if "://" not in path and not Path(path).is_dir():
        return Check("raw", False, f"{path} is not a folder", "create the folder, or set `raw` in penstock.yml")
    return Check("raw", True, path)


def _has_loads(project: Project) -> bool:
    try:
        return any(spec.load is not None for spec in load_definitions(project))
    except PenstockError:  # a plan says what is wrong with a definition
        return bool(project.loads)


def check_data(project: Project) -> list[Check]:
    """Every table below the storage, its data files read to their end: one finding for all, or one for each that is not well."""
    files = open_files(project.storage, project.configuration)
    names = (DatasetName(database, name) for database in files.folders("") for name in files.folders(database))
    tables = [name for name in names if find_version(files, name.path) is not None]
    checks = [_check_table(files, table) for table in tables]
    bad = [check for check in checks if not check.ok]
    return bad or [Check("data", True, f"every data file of {counted(len(tables), 'table')} can be read")]


def _check_table(files: Files, table: DatasetName) -> Check:
    def look() -> str:
        damage = find_unreadable(files, table.path)
        if damage is None:
            if pointer := find_false_pointer(files, table.path):
                raise StorageError(f"{pointer}; some programs cannot open the table", hint="remove that file")
            return str(table)
        name = str(table).removesuffix(QUARANTINE_SUFFIX)
        fix = f"restore it from a backup, or write the table again: penstock rebuild {name}"
        raise StorageError(f"{table}: {damage.text}", hint=fix)

    return _run_check("data", look)


def run_checks(found: Check, project: Project | None, *, reads_data: bool = False) -> list[Check]:
    """Every check that applies: those of the project only if there is one; the data files of its tables only if asked for."""
    checks = [check_java(), check_spark(), check_jars(project), found]
    if project is not None:
        checks += [check_raw(project), check_storage(project), check_event_log(project)]
        checks += check_data(project) if reads_data else []
    return checks


def _run_check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except PenstockError as error:
        return Check(name, False, error.text, error.hint)
    except OSError as error:
        return Check(name, False, f"{type(error).__name__}: {error.strerror or error}", "check path and permissions")
