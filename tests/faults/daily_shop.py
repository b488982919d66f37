"""A project with one table of 60 days, builds of it in processes of their own, and what the table says about who built what."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from penstock.eventlog.opening import open_event_log
from penstock.lake.delta_log import FENCED
from penstock.model.events import Event
from tests.projects import COMMAND, ProjectFolder
from tests.servers import process_tree

DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(60)]
ROWS_PER_DAY = 3
HOLD_SECONDS = 60
DEFINITION = f"""
import os
from pathlib import Path
from penstock import pipelines as dp


@dp.table(partition_by=dp.daily("{DAYS[0]}", "{DAYS[-1]}"))
def daily(ctx):
    day, maker, calls = ctx.partition.value, os.getpid(), Path("CALLS")
    rows = dp.spark.range({ROWS_PER_DAY}).selectExpr(f"DATE '{{day}}' AS date", "id", f"{{maker}} AS maker")
    seen = len(list(calls.glob(f"{{maker}}.*")))
    (calls / f"{{maker}}.{{day}}").touch()
    if seen >= int(os.environ.get("HOLD_AFTER", 1000)):  # then the Spark job that writes the day takes a minute
        rows = rows.where("id > 0 OR reflect('java.lang.Thread', 'sleep', {HOLD_SECONDS}000L) IS NOT NULL")
    return rows
"""
SETTINGS = """
name: daily
threads: 2
event_log: "LOG"
spark: {master: "local[1]"}
configuration: {spark.driver.memory: 768m, spark.sql.shuffle.partitions: 1}
"""


def wait_until(holds: Callable[[], object], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.1)


@dataclass(frozen=True)
class Replaced:
    """A commit that replaced days: by Delta's log and by the progress manifest that it names."""

    version: int
    application: str
    build_request_id: str
    days: tuple[str, ...]


@dataclass
class Build:
    """`penstock build` in a process of its own, with a JVM of its own."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    def finish(self, code: int = 0, seconds: float = 480) -> dict[str, Any]:
        """Wait for its end; gives the result that it printed."""
        self.process.wait(seconds)
        said = self.errors.read_text()
        assert self.process.returncode == code, self.output.read_text() + said
        assert "Traceback" not in said
        result: dict[str, Any] = json.loads(self.output.read_text())
        return result

    def kill(self) -> None:
        """End it and its JVM at once, as a machine does that loses its power."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)  # so that its list of children stays true
            for each in list(process_tree(self.process.pid)):
                os.kill(each, signal.SIGKILL)
            self.process.wait(20)


@dataclass
class DailyShop:
    """The project, its builds and its table."""

    root: Path
    log: str
    builds: list[Build] = field(default_factory=list)

    @property
    def project(self) -> ProjectFolder:
        return ProjectFolder(self.root)

    @property
    def table(self) -> Path:
        return self.root / "storage" / "main" / "daily"

    @property
    def calls(self) -> Path:
        """Has a file for each call of the definition: `<process>.<day>`."""
        return self.root / "calls"

    def make(self) -> DailyShop:
        self.project.configure(SETTINGS.replace("LOG", self.log))
        self.calls.mkdir()
        self.project.define("daily.py", DEFINITION.replace("CALLS", str(self.calls)))
        return self

    def start(self, first: int, last: int, *options: str, **environment: str) -> Build:
        """Ask for the days with these numbers, both included."""
        name = f"build{len(self.builds)}"
        output, errors = self.root / f"{name}.out", self.root / f"{name}.err"
        asked = ["build", f"main.daily/date={DAYS[first]}..{DAYS[last]}", "--json", *options]
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                [*COMMAND, *asked],
                cwd=self.root,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self.builds.append(Build(process, output, errors))
        return self.builds[-1]

    def called(self, build: Build) -> list[str]:
        """The days that a build has begun to compute."""
        return sorted(file.name.partition(".")[2] for file in self.calls.glob(f"{build.process.pid}.*"))

    def events(self) -> list[Event]:
        with open_event_log(self.log) as log:
            return [entry.event for entry in log.read(strict=True)]

    def commits(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """The actions of every commit of the table."""
        for file in sorted((self.table / "_delta_log").glob("*.json")):
            yield int(file.stem), [json.loads(line) for line in file.read_text().splitlines()]

    def begun(self) -> list[str]:
        """The days that loads have begun to write, by their progress manifests; some may never be committed."""
        manifests = [json.loads(file.read_text()) for file in sorted((self.table / "_penstock").glob("*.json"))]
        return [day for manifest in manifests for day in manifest["payload"]["partitions"]["added"]]

    def replaced(self) -> list[Replaced]:
        """The commits that have rows. What a commit added is what its manifest says, and nothing else."""
        found = []
        for version, actions in self.commits():
            days = sorted({a["add"]["partitionValues"]["date"] for a in actions if "add" in a})
            if not days:
                continue
            (transaction,) = [a["txn"] for a in actions if "txn" in a]
            number = transaction["version"]
            manifest = json.loads((self.table / "_penstock" / f"{number:020d}.json").read_text())
            assert days == sorted(manifest["payload"]["partitions"]["added"])
            found.append(Replaced(version, transaction["appId"], manifest["build_request_id"], tuple(days)))
        return found

    def removed(self) -> list[int]:
        """The versions that removed rows."""
        return [version for version, actions in self.commits() if any("remove" in action for action in actions)]

    def fences(self) -> list[str]:
        """The application ids that can no longer commit."""
        found = [action["txn"] for _, actions in self.commits() for action in actions if "txn" in action]
        return [each["appId"] for each in found if each["version"] == FENCED]

    def check_built_once(self, days: list[date]) -> dict[str, str]:
        """Every day was replaced by exactly one commit, under an application id of its own; gives the build of each day."""
        replaced = self.replaced()
        assert Counter(day for each in replaced for day in each.days) == Counter(map(str, days))
        assert self.removed() == []
        assert len({each.application for each in replaced}) == len(replaced) == len(days)
        rows = self.project.rows("main.daily")
        assert sorted((str(row[0]), row[1]) for row in rows) == [(str(d), n) for d in days for n in range(ROWS_PER_DAY)]
        assert len({(row[0], row[2]) for row in rows}) == len(days), "the rows of a day come from one process"
        return {day: each.build_request_id for each in replaced for day in each.days}
