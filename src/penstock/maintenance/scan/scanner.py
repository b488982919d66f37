"""The residue scan: lists every file of every place, searches them in parallel, and says what was found and how."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

from penstock.errors import PenstockError, StorageError, UsageError
from penstock.maintenance.scan.columns import DeclaredColumns
from penstock.maintenance.scan.delta_columns import find_aliases
from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.formats import Task, scan_file
from penstock.maintenance.scan.names import Names
from penstock.maintenance.scan.needles import NOBODY, Needle, Role, Survivors
from penstock.maintenance.scan.places import Entry, Place, PostgresPlace, list_entries, place_exists
from penstock.maintenance.scan.postgres import scan_postgres
from penstock.maintenance.scan.report import Report
from penstock.maintenance.scan.results import Progress, ScanResult, Search
from penstock.maintenance.scan.search import Searcher
from penstock.maintenance.scan.sources import UnreadableError, stored_file
from penstock.storage.local import LocalFiles

OnProgress = Callable[[Progress], None]

_FEWEST_REMOTE = 8
"""Threads for an object store, which wait for the network more than they compute."""
_IN_ADVANCE = 4
"""Tasks per thread that are handed out in advance."""
_DATABASE = "database"


def scan_for_residue(
    needles: Sequence[Needle],
    places: Sequence[Place],
    survivors: Survivors = NOBODY,
    *,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> ScanResult:
    """Search every file of these places for these values; `results.check_no_residue` raises when one is found.

    `workers` is the number of threads, by default one per core. `on_progress` is called after every file.
    """
    began = time.monotonic()
    if len({place.name for place in places}) < len(places):
        raise UsageError("two places of a scan have the same name", hint="give each place its own name")
    shared = frozenset(
        n for n, each in enumerate(needles) if each.role == Role.PERSONAL and each.text in survivors.shared
    )
    searcher = Searcher(needles, shared, survivors)
    entries, unlisted, missing = _list(places)
    threads = workers or _count_workers(entries)
    aliases = find_aliases(entries, threads) if any(needle.columns for needle in needles) else frozenset()
    declared = DeclaredColumns(needles, shared, searcher.searched, aliases)
    names = Names(searcher, declared)
    report = Report(names, names.search(entries))
    for place, path, problem in unlisted:
        report.add_unreadable(place, path, problem)
    jobs = sorted(_make_jobs(entries, places), key=lambda job: -job.size)  # large files first: none is left for the end
    run = _Run(searcher, declared, report, on_progress, jobs)
    run.finish(threads)
    searches = tuple(_search_of(number, needle, searcher, shared) for number, needle in enumerate(needles))
    return report.to_result([place.name for place in places], missing | run.missing, searches, time.monotonic() - began)


@dataclass(frozen=True)
class _Job:
    """One file, or one database."""

    place: str
    path: str
    size: int
    scan: Callable[[Findings], Sequence[Task]]


def _list(places: Sequence[Place]) -> tuple[list[Entry], list[tuple[str, str, str]], frozenset[str]]:
    """All files and folders, what cannot be listed and why, and the places that do not exist. A file is listed once."""
    entries: dict[str, Entry] = {}
    unlisted, missing = [], set()
    for place in places:
        if isinstance(place, PostgresPlace):
            continue
        try:
            found = list(list_entries(place))
        except StorageError as error:
            unlisted.append((place.name, "", f"cannot be listed ({error.code})"))
            continue
        if not found and not place_exists(place):
            missing.add(place.name)
        for entry in found:
            if entry.problem is not None:
                unlisted.append((entry.place, entry.path, entry.problem))
            entries.setdefault(entry.address, entry)
    return list(entries.values()), unlisted, frozenset(missing)


def _make_jobs(entries: Sequence[Entry], places: Sequence[Place]) -> Iterator[_Job]:
    for place in places:
        if isinstance(place, PostgresPlace):
            yield _Job(place.name, _DATABASE, 0, partial(_scan_database, place.uri))
    for entry in entries:
        if not entry.is_folder and entry.problem is None:
            yield _Job(entry.place, entry.path, entry.size, partial(_scan_entry, entry))


def _scan_entry(entry: Entry, findings: Findings) -> Sequence[Task]:
    return scan_file(stored_file(entry.files, entry.path, entry.size), findings)


def _scan_database(uri: str, findings: Findings) -> Sequence[Task]:
    searched = scan_postgres(uri, findings)
    if searched is not None:
        findings.methods["PostgreSQL"] += searched
    return ()


def _count_workers(entries: Sequence[Entry]) -> int:
    cores = os.cpu_count() or 1
    return cores if all(isinstance(entry.files, LocalFiles) for entry in entries) else max(cores, _FEWEST_REMOTE)


def _search_of(number: int, needle: Needle, searcher: Searcher, shared: frozenset[int]) -> Search:
    if number in shared:
        return Search.SHARED
    if number in searcher.searched:
        return Search.BYTES
    return Search.COLUMNS if needle.columns else Search.NOTHING


class _Run:
    """The jobs of a scan on a pool of threads. Only the calling thread adds up results."""

    def __init__(
        self,
        searcher: Searcher,
        declared: DeclaredColumns,
        report: Report,
        on_progress: OnProgress | None,
        jobs: Sequence[_Job],
    ) -> None:
        self._searcher, self._declared, self._report, self._on_progress = searcher, declared, report, on_progress
        self._jobs = jobs
        self._total = sum(job.size for job in jobs)
        self._parts: dict[_Job, int] = {}
        """How many parts of a job are not done."""
        self._done = self._bytes = 0
        self.missing: frozenset[str] = frozenset()

    def finish(self, workers: int) -> None:
        """Do all jobs, and what follows from them."""
        waiting: list[tuple[_Job, Callable[[Findings], Sequence[Task] | None]]] = [
            (job, job.scan) for job in self._jobs
        ]
        waiting.reverse()
        self._parts = dict.fromkeys(self._jobs, 1)
        running: dict[Future[_Outcome], _Job] = {}
        with ThreadPoolExecutor(workers, thread_name_prefix="penstock-scan") as pool:
            try:
                while waiting or running:
                    while waiting and len(running) < workers * _IN_ADVANCE:
                        job, scan = waiting.pop()
                        columns = self._declared.of_file(job.place, job.path)
                        running[pool.submit(_attempt, scan, Findings(self._searcher, columns))] = job
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        job = running.pop(future)
                        outcome = future.result()
                        waiting += [(job, task) for task in outcome.tasks]
                        self._add(job, outcome)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _add(self, job: _Job, outcome: _Outcome) -> None:
        report = self._report
        report.add(job.place, job.path, outcome.findings)
        if outcome.problem is not None:
            report.add_unreadable(job.place, job.path, outcome.problem)
        elif outcome.is_gone:
            report.add_undecoded(job.place, job.path, "removed while the scan ran")
        elif job.path == _DATABASE and not outcome.findings.methods:
            self.missing |= {job.place}
        self._parts[job] += len(outcome.tasks) - 1
        if not self._parts[job]:
            self._done += 1
            self._bytes += job.size
            if self._on_progress is not None:
                self._on_progress(Progress(self._done, len(self._jobs), self._bytes, self._total))


@dataclass(frozen=True)
class _Outcome:
    findings: Findings
    tasks: Sequence[Task] = ()
    problem: str | None = None
    is_gone: bool = False


def _attempt(scan: Callable[[Findings], Sequence[Task] | None], findings: Findings) -> _Outcome:
    """Search one file. An error names no value: only its type is kept."""
    try:
        return _Outcome(findings, scan(findings) or ())
    except FileNotFoundError:
        return _Outcome(findings, is_gone=True)
    except UnreadableError as error:
        return _Outcome(findings, problem=str(error))
    except OSError as error:
        return _Outcome(findings, problem=f"cannot be read ({error.strerror or type(error).__name__})")
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001 - a file that breaks the scan must be named, and its content not shown
        return _Outcome(findings, problem=f"the scan failed ({type(error).__name__})")
