"""The output of `penstock log`: plain columns, or JSON on request. Commands never print; this module does.

JSON is the same on every backend; positions appear only on request.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from penstock import log_access as answers
from penstock.cli.log_columns import to_lines
from penstock.cli.results import results
from penstock.log_access import (
    Activity,
    BuildDetails,
    BuildPage,
    BuildState,
    Entry,
    JobState,
    PartitionDetails,
    PartitionState,
    to_fields,
    to_text,
)

_DETAILS = 90


class LogOutput(Protocol):
    """What the commands of `penstock log` can show."""

    def events(self, entries: Sequence[Entry], *, positions: bool) -> None: ...
    def line(self, entry: Entry, *, positions: bool) -> None: ...
    def builds(self, page: BuildPage) -> None: ...
    def build(self, found: BuildDetails) -> None: ...
    def partitions(self, partitions: Sequence[PartitionState]) -> None: ...
    def partition(self, found: PartitionDetails) -> None: ...
    def jobs(self, jobs: Sequence[JobState]) -> None: ...
    def activity(self, activity: Activity) -> None: ...
    def facts(self, facts: dict[str, Any]) -> None: ...


class JsonLogOutput:
    """One JSON value on stdout; one per line when following."""

    def events(self, entries: Sequence[Entry], *, positions: bool) -> None:
        _print_json([answers.entry_json(entry, position=positions) for entry in entries])

    def line(self, entry: Entry, *, positions: bool) -> None:
        _print_line(to_text(answers.entry_json(entry, position=positions)))

    def builds(self, page: BuildPage) -> None:
        _print_json(answers.page_json(page))

    def build(self, found: BuildDetails) -> None:
        value = answers.build_json(found.build)
        _print_json(
            {**value, "jobs": list(map(answers.job_json, found.jobs)), "events": list(map(_event, found.events))}
        )

    def partitions(self, partitions: Sequence[PartitionState]) -> None:
        _print_json(list(map(answers.partition_json, partitions)))

    def partition(self, found: PartitionDetails) -> None:
        value = answers.partition_json(found.partition)
        active = list(map(answers.active_json, found.active_builds))
        _print_json({**value, "active_builds": active, "events": list(map(_event, found.events))})

    def jobs(self, jobs: Sequence[JobState]) -> None:
        _print_json(list(map(answers.job_json, jobs)))

    def activity(self, activity: Activity) -> None:
        _print_json(answers.activity_json(activity))

    def facts(self, facts: dict[str, Any]) -> None:
        _print_json(facts)


class TextLogOutput:
    """Columns for people; times in UTC."""

    def events(self, entries: Sequence[Entry], *, positions: bool) -> None:
        head = ("position",) if positions else ()
        _print_table((*head, "time", "build", "type", "what"), [_event_row(e, positions=positions) for e in entries])

    def line(self, entry: Entry, *, positions: bool) -> None:
        _print_line("  ".join(_event_row(entry, positions=positions)))

    def builds(self, page: BuildPage) -> None:
        _print_table(("build", "status", "created", "updated", "time", "message"), map(_build_row, page.builds))
        _print_line(f"{len(page.builds)} of {page.total} build requests")

    def build(self, found: BuildDetails) -> None:
        build = found.build
        times = {"created_at": _time(build.created_at), "updated_at": _time(build.updated_at)}
        self.facts({**answers.build_json(build), **times})
        self.jobs(found.jobs)
        self.events(found.events, positions=False)

    def partitions(self, partitions: Sequence[PartitionState]) -> None:
        _print_table(("partition", "status", "available", "updated", "build"), map(_partition_row, partitions))

    def partition(self, found: PartitionDetails) -> None:
        partition = found.partition
        times = {"updated_at": _time(partition.updated_at)}
        if partition.available_at is not None:
            times["available_at"] = _time(partition.available_at)
        self.facts({**answers.partition_json(partition), **times})
        active = found.active_builds
        rows = [(a.build_request_id, a.partition_status.name, "yes" if a.claimed else "no") for a in active]
        _print_table(("active build", "status", "claimed"), rows)
        self.events(found.events, positions=False)

    def jobs(self, jobs: Sequence[JobState]) -> None:
        _print_table(("job run", "label", "status", "created", "updated", "time", "message"), map(_job_row, jobs))

    def activity(self, activity: Activity) -> None:
        value = answers.activity_json(activity)
        self.facts({name: value[name] for name in value if not name.startswith("recent_")})
        _print_table(
            ("build", "status", "created", "updated", "time", "message"), map(_build_row, activity.recent_builds)
        )
        self.partitions(activity.recent_partitions)

    def facts(self, facts: dict[str, Any]) -> None:
        width = max(map(len, facts))
        for name, value in facts.items():
            lines = [_short(each) for each in value] if isinstance(value, list | tuple) else [_short(value)]
            for label, line in zip((name, *[""] * len(lines)), lines or ["none"], strict=False):
                _print_line(f"{label:<{width}}  {line}")


def make_log_output(*, as_json: bool) -> LogOutput:
    """The output that the user asked for."""
    return JsonLogOutput() if as_json else TextLogOutput()


def _event(entry: Entry) -> dict[str, Any]:
    return answers.entry_json(entry)


def _event_row(entry: Entry, *, positions: bool) -> tuple[str, ...]:
    event = entry.event
    fields = {name: value for name, value in to_fields(event.payload).items() if value not in ("", None, [])}
    status = fields.pop("status_name", None)
    fields.pop("status_code", None)
    what = " ".join([*([status] if status else []), *(f"{name}={_short(value)}" for name, value in fields.items())])
    row = (_time(event.timestamp), event.build_request_id, str(event.event_type), _cut(what))
    return (str(entry.position), *row) if positions else row


def _build_row(build: BuildState) -> tuple[str, ...]:
    times = (_time(build.created_at), _time(build.updated_at), _duration(build.created_at, build.updated_at))
    return (build.build_request_id, build.status.name, *times, _cut(build.message))


def _partition_row(partition: PartitionState) -> tuple[str, ...]:
    available = "invalidated" if partition.invalidated_reason is not None else "no"
    available = "yes" if partition.is_available else available
    shown = (partition.partition_ref, partition.status.name, available)
    return (*shown, _time(partition.updated_at), partition.build_request_id)


def _job_row(job: JobState) -> tuple[str, ...]:
    times = (_time(job.created_at), _time(job.updated_at), _duration(job.created_at, job.updated_at))
    return (job.job_run_id, job.job_label, job.status.name, *times, _cut(job.message))


def _time(nanoseconds: int) -> str:
    whole = datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{nanoseconds % 1_000_000_000 // 1_000_000:03d}Z"


def _duration(start: int, end: int) -> str:
    """How long it took so far, as people say it."""
    seconds = max(0, end - start) / 1_000_000_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _short(value: object) -> str:
    return value if isinstance(value, str) else to_text(value)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _DETAILS else line[: _DETAILS - 1] + "…"


def _print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    room = shutil.get_terminal_size().columns if results().isatty() else None
    for line in to_lines(head, rows, room):
        _print_line(line)


def _print_json(value: object) -> None:
    _print_line(json.dumps(value, indent=2))


def _print_line(text: str) -> None:
    results().write(text + "\n")
    results().flush()
