"""Orchestration as a model: random graphs, failures, retries, timeouts, cancels and crashes, against a few plain lines.

The driver runs the real dispatcher and the real recorder on a log in memory; after a crash, the next build knows only the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import make_item
from penstock.eventlog.memory import MemoryEventLog
from penstock.model.build_history import BuildHistory, find_illegal_moves, replay
from penstock.model.clock import ManualClock
from penstock.model.plan import Item, Plan, Problem
from penstock.model.recording import BuildRecorder
from penstock.model.results import ItemResult, LoadResult, Outcome, RunResult
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.dead_builds import close_build
from penstock.run.dispatch import Dispatch, Limits, RetryRule, Stage, Task, Verdict
from penstock.run.recording import RunRecorder

TIMEOUT = 100.0
VERDICTS = {"ok": Verdict.SUCCEEDED, "fatal": Verdict.FAILED, "flaky": Verdict.RETRYABLE, "hang": Verdict.RETRYABLE}


@dataclass(frozen=True)
class Graph:
    """Tasks, and what each of their attempts will do: the last word is repeated."""

    tasks: tuple[Task, ...]
    scripts: tuple[tuple[str, ...], ...]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    tasks, scripts = [], []
    for number in range(draw(st.integers(1, 7))):
        group = f"main.g{draw(st.integers(0, 2))}_{number // 3}"
        name = f"{group}/date={number}"
        complete = [task.group for task in tasks if not task.group.endswith(f"_{number // 3}")]
        before = [task.id for task in tasks] + complete
        reads = draw(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
        limits = Limits(RetryRule(draw(st.integers(1, 3)), 10.0), TIMEOUT)
        tasks.append(Task(name, group, tuple(reads), draw(st.booleans()), limits))
        scripts.append(tuple(draw(st.lists(st.sampled_from(list(VERDICTS)), min_size=1, max_size=3))))
    return Graph(tuple(tasks), tuple(scripts))


@dataclass
class Plain:
    """What should happen, without counters and queues: every question looks at every task."""

    graph: Graph
    stages: dict[str, str] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)

    def begin_build(self) -> None:
        """A new build: only what succeeded counts."""
        self.stages = {
            task.id: "succeeded" if self.stages.get(task.id) == "succeeded" else "waiting" for task in self.graph.tasks
        }
        self.tries, self.due = dict.fromkeys(self.stages, 0), dict.fromkeys(self.stages, 0.0)

    def inputs(self, task: Task) -> list[str]:
        return [self.stages[t.id] for t in self.graph.tasks for name in task.upstream if name in (t.id, t.group)]

    def may_start(self, task: Task, now: float) -> bool:
        beside = [t for t in self.graph.tasks if t.group == task.group and self.stages[t.id] == "running"]
        is_free = all(t.is_parallel for t in beside) if task.is_parallel else not beside
        is_due = self.stages[task.id] == "waiting" and self.due[task.id] <= now
        return is_due and is_free and all(stage == "succeeded" for stage in self.inputs(task))

    def end(self, task: Task, word: str, now: float) -> None:
        if word in {"flaky", "hang"} and self.tries[task.id] < task.limits.retry.attempts:
            self.stages[task.id] = "waiting"
            self.due[task.id] = now + 10.0 * 2 ** (self.tries[task.id] - 1)
            return
        self.stages[task.id] = {"ok": "succeeded", "stopped": "cancelled"}.get(word, "failed")
        self.skip()

    def skip(self) -> None:
        for _ in self.graph.tasks:
            for task in self.graph.tasks:
                if self.stages[task.id] == "waiting" and {"failed", "skipped", "cancelled"} & set(self.inputs(task)):
                    self.stages[task.id] = "skipped"


@dataclass
class Run:
    """One build after another until everything has ended, as the drawn choices say."""

    graph: Graph
    data: st.DataObject
    log: MemoryEventLog
    clock: ManualClock = field(default_factory=ManualClock)
    now: float = 0.0
    builds: int = 0

    def __post_init__(self) -> None:
        self.items = {task.id: _to_item(task) for task in self.graph.tasks}
        self.scripts = dict(zip(self.items, self.graph.scripts, strict=True))
        self.plain = Plain(self.graph)
        self.crashes = self.data.draw(st.integers(0, 2), label="crashes")

    def go(self) -> None:
        is_over = False
        while not is_over:
            self.begin()
            is_over = self.build()

    def begin(self) -> None:
        """A new process: what is available is read from the log, builds that died are closed."""
        self.builds += 1
        name = f"b{self.builds}"
        done = _available(self.log)
        for number in range(1, self.builds):
            close_build(self.log, self.clock, f"b{number}", name)
        self.dispatch = Dispatch(self.graph.tasks)
        self.recorder = RunRecorder(self.log, BuildRecorder(self.clock, name))
        self.recorder.received("")
        self.recorder.planned(Plan("p", None, tuple(item for key, item in self.items.items() if key not in done)))
        assert self.dispatch.settle(dict.fromkeys(done, True)) == []
        self.plain.begin_build()
        assert {key for key, stage in self.plain.stages.items() if stage == "succeeded"} == done

    def build(self) -> bool:
        """Run until the build has ended (True), or its process dies (False)."""
        is_cancelled = False
        while True:
            self.start(self.data.draw(st.integers(1, 3), label="free"))
            if not self.dispatch.running and self.dispatch.next_look() is None:
                break
            choices = ["finish"] * 6 + ["cancel one", "cancel all"] + ["crash"] * bool(self.crashes)
            match self.data.draw(st.sampled_from(choices), label="next"):
                case "crash":
                    self.crashes -= 1
                    return False
                case "cancel all" | "cancel one" as which:
                    is_cancelled = True
                    self.cancel(None if which == "cancel all" else self.data.draw(st.sampled_from(list(self.items))))
                case _:
                    self.finish()
        self.check_end(is_cancelled=is_cancelled)
        return True

    def start(self, free: int) -> None:
        for task in self.dispatch.start(self.now, free - len(self.dispatch.running)):
            assert self.plain.may_start(task, self.now)
            self.plain.stages[task.id] = "running"
            self.plain.tries[task.id] += 1
            self.recorder.started(self.items[task.id])
        if len(self.dispatch.running) < free:
            parked = {task.group for task in self.graph.tasks if self.plain.stages[task.id] == "running"}
            left = [t for t in self.graph.tasks if self.plain.may_start(t, self.now) and t.group not in parked]
            assert left == [], "something could run and does not"

    def finish(self) -> None:
        running = sorted(self.dispatch.running)
        chosen = self.data.draw(st.sampled_from(running)) if running else None
        word = None if chosen is None else self.word(chosen)
        if chosen is None or word == "hang":  # time goes on until something is due
            due = self.dispatch.next_look()
            assert due is not None
            self.now = max(self.now, due)
            for task in self.dispatch.overdue(self.now):
                self.end(task.id, "hang")
            return
        assert word is not None
        self.end(chosen, word)

    def word(self, name: str) -> str:
        script = self.scripts[name]
        return script[min(self.dispatch.attempts(name), len(script)) - 1]

    def end(self, name: str, word: str) -> None:
        task, item = self.dispatch.tasks[name], self.items[name]
        verdict = Verdict.CANCELLED if word == "stopped" else VERDICTS[word]
        if not self.dispatch.will_retry(name, verdict):
            self.recorder.ended(_to_result(item, word))
        skips = self.dispatch.finish(name, verdict, self.now)
        self.plain.end(task, word, self.now)
        self.record_skips(skips)

    def record_skips(self, skips: list[object]) -> None:
        for skip in skips:
            assert skip.because  # type: ignore[attr-defined]
            item = self.items[skip.task.id]  # type: ignore[attr-defined]
            self.recorder.ended(ItemResult(item.id, item.dataset, item.action, Outcome.SKIP))

    def cancel(self, name: str | None) -> None:
        cancelled, skips = self.dispatch.cancel(None if name is None else [name])
        for task in cancelled:
            self.plain.stages[task.id] = "cancelled"
            self.recorder.ended(_to_result(self.items[task.id], "stopped"))
        self.plain.skip()
        self.record_skips(skips)  # type: ignore[arg-type]
        for running in sorted(self.dispatch.running if name is None else self.dispatch.running & {name}):
            # A commit made before the stop counts.
            self.end(running, self.data.draw(st.sampled_from(["stopped", "ok"])))
        if name is None:
            assert self.dispatch.start(self.now, 10) == [], "nothing starts after a cancel"

    def check_end(self, *, is_cancelled: bool) -> None:
        stages = {task.id: stage.value for task, stage in self.dispatch}
        assert stages == self.plain.stages
        assert all(stage.is_final for _, stage in self.dispatch)
        result = RunResult(f"b{self.builds}", (), 0.0, "cancelled by a person" if is_cancelled else None)
        if is_cancelled:
            self.recorder.cancelled(result, 10)
        elif Stage.FAILED in {stage for _, stage in self.dispatch}:
            self.recorder.failed("")
        else:
            self.recorder.finished(result)
        events = [entry.event for entry in self.log.read()]
        assert find_illegal_moves(events) == []
        builds = replay(events)
        assert builds[f"b{self.builds}"] == self.recorder.events.history
        assert {name for name, stage in stages.items() if stage == "succeeded"} == _available(self.log)
        self.check_builds(builds, stages, is_cancelled=is_cancelled)

    def check_builds(self, builds: dict[str, BuildHistory], stages: dict[str, str], *, is_cancelled: bool) -> None:
        for build in builds.values():
            assert build.status is not None
            assert build.status.is_final
            assert all(status.is_final for status in build.partitions.values())
            assert all(job.status.is_final for job in build.jobs.values())
        last = builds[f"b{self.builds}"]
        expected = {"succeeded": JobStatus.COMPLETED, "failed": JobStatus.FAILED, "cancelled": JobStatus.CANCELLED}
        if is_cancelled:
            assert last.status is BuildStatus.CANCELLED
        for job in last.jobs.values():
            (name,) = job.targets
            assert job.attempts == self.plain.tries[name]
            if stages[name] in expected:
                assert job.status is expected[stages[name]]


def _to_item(task: Task) -> Item:
    return make_item(task.group.removeprefix("main."), partition=task.id.partition("/")[2])


def _to_result(item: Item, word: str) -> ItemResult:
    if word == "ok":
        return ItemResult(item.id, item.dataset, item.action, Outcome.PASS, load=LoadResult(1, 1))
    if word == "stopped":
        return ItemResult(item.id, item.dataset, item.action, Outcome.CANCELLED)
    return ItemResult(item.id, item.dataset, item.action, Outcome.ERROR, problem=Problem("user_code", word))


def _available(log: MemoryEventLog) -> set[str]:
    builds = replay(entry.event for entry in log.read())
    return {
        ref
        for build in builds.values()
        for ref, status in build.partitions.items()
        if status is PartitionStatus.AVAILABLE
    }


@settings(max_examples=80)
@given(graph=graphs(), data=st.data())
def test_every_build_ends_as_the_model_says_and_the_log_alone_says_the_same(graph: Graph, data: st.DataObject) -> None:
    with MemoryEventLog(ManualClock()) as log:
        Run(graph, data, log).go()
