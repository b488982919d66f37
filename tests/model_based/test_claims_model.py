"""Several builds at once in every order of steps: each partition is built once, nobody waits for ever, and readers agree.

A build may stop for ever at any step, or sleep as a zombie and go on after it was taken over. The tables are a model: one
commit per number, as with Delta's application ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.eventlog import projections
from penstock.eventlog.memory import MemoryEventLog
from penstock.model.build_history import replay
from penstock.model.clock import ManualClock, SystemClock
from penstock.model.recording import BuildRecorder
from penstock.model.status import BuildStatus, JobStatus, PartitionStatus
from penstock.run.claims.asking import Claims, LostClaimError, State, Won
from penstock.run.claims.book import ClaimBook
from penstock.run.claims.heartbeats import Heartbeats

LAPSE = 100.0
INPUTS = {
    "main.a/d=1": (),
    "main.a/d=2": (),
    "main.b": ("main.a/d=1", "main.a/d=2"),
    "main.c/d=1": ("main.a/d=1",),
    "main.c/d=2": ("main.a/d=2", "main.b"),
}


@dataclass
class Tables:
    """What is committed: one commit per partition and number, with rows or as a fence."""

    commits: dict[tuple[str, int], str] = field(default_factory=dict)

    def commit(self, ref: str, number: int, content: str) -> bool:
        return self.commits.setdefault((ref, number), content) is content

    def builders(self, ref: str) -> list[str]:
        return [content for (name, _), content in self.commits.items() if name == ref and content.startswith("rows")]


@dataclass
class World:
    log: MemoryEventLog
    tables: Tables = field(default_factory=Tables)
    now: float = 0.0

    def clock(self) -> float:
        return self.now


class Build:
    """One build, a step at a time."""

    def __init__(self, world: World, name: str, refs: list[str]) -> None:
        self.world, self.name, self.refs = world, name, refs
        self.recorder = BuildRecorder(SystemClock(), name)
        steps = (BuildStatus.RECEIVED, BuildStatus.PLANNING, BuildStatus.ANALYSIS_COMPLETED, BuildStatus.EXECUTING)
        requested = [self.recorder.partition(ref, PartitionStatus.REQUESTED) for ref in refs]
        world.log.append([*(self.recorder.build(step) for step in steps), *requested])
        self.claims = Claims(world.log, self.recorder, lapse_seconds=LAPSE, monotonic=world.clock)
        self.work: tuple[str, Won, str] | None = None
        self.fate = "alive"

    def beat(self) -> None:
        Heartbeats(self.world.log, [self.recorder]).beat()

    def step(self) -> None:
        """Do one thing that another build may come before or after."""
        try:
            self.look() if self.work is None else self.go_on(*self.work)
        except LostClaimError:
            self.fate = "lost"

    def look(self) -> None:
        built = self.world.tables.builders
        left = [ref for ref in self.refs if not built(ref)]
        if not left:
            self.fate = "done"
            self.world.log.append(self.recorder.end(BuildStatus.COMPLETED, message="", reason=""))
            return
        for ref in left:
            # Only when the inputs are ready: a build that waits holds nothing.
            if all(built(read) for read in INPUTS[ref]) and self.claims.standing(ref).state is not State.HELD:
                won = self.claims.ask([ref], ref).won
                if won is not None:
                    self.work = ref, won, "fence"
                    return

    def go_on(self, ref: str, won: Won, stage: str) -> None:
        tables = self.world.tables
        if stage == "fence":
            for number in won.fences:
                tables.commit(ref, number, "".join(("fence of ", self.name)))
            self.work = ref, won, "check"
        elif stage == "check":
            self.claims.check(won)
            self.work = ref, won, "record" if tables.builders(ref) else "commit"
        elif stage == "commit":
            if not tables.commit(ref, won.number, f"rows of {self.name}"):
                raise LostClaimError("fenced")
            self.work = ref, won, "record"
        else:
            self.record(ref, won)

    def record(self, ref: str, won: Won) -> None:
        run = won.job_run_id
        self.world.log.append(
            [
                self.recorder.job(run, JobStatus.RUNNING),
                self.recorder.partition(ref, PartitionStatus.BUILDING, job_run_id=run),
                self.recorder.job(run, JobStatus.COMPLETED),
                self.recorder.partition(ref, PartitionStatus.AVAILABLE, job_run_id=run),
            ]
        )
        self.work = None


def check_readers_agree(world: World) -> None:
    """A reader that begins now has the same claims as one that has read everything."""
    full, late = ClaimBook(0), ClaimBook(projections.quiet_position(world.log, strict=True))
    for book in (full, late):
        for entry in world.log.read(strict=True):
            book.fold(entry)
    for ref in (*INPUTS, "main.a", "main.c"):
        assert full.holder(ref) == late.holder(ref)


def end(world: World, builds: list[Build]) -> None:
    """Time goes on and everyone who is alive works; all of them end, without anybody's help."""
    for _ in range(200):
        alive = [build for build in builds if build.fate == "alive"]
        if not alive:
            return
        for build in alive:
            build.beat()
            build.step()
        world.now += LAPSE / 3
    raise AssertionError("some builds wait for ever")


def act(world: World, builds: list[Build], data: st.DataObject) -> None:
    """Let something happen: a step of a build, its sleep or death, or time that passes."""
    build = data.draw(st.sampled_from(builds), label="who")
    what = data.draw(st.sampled_from(["step"] * 6 + ["sleep"] * 3 + ["time"] * 2 + ["die", "wake"]), label="what")
    if what == "time":
        for other in builds:
            if other.fate == "alive":
                other.beat()
                other.claims.standing("main.b")
        world.now += data.draw(st.sampled_from([LAPSE / 2, LAPSE + 1]))
    elif what == "wake" and build.fate == "asleep":
        build.fate = "alive"
        build.step()  # goes on where it was, before it looks at the log
    elif build.fate == "alive" and what == "step":
        build.step()
    elif build.fate == "alive" and what == "die":
        build.fate = "dead"
    elif build.fate == "alive" and what == "sleep" and build.work is not None:
        build.fate = "asleep"


@settings(max_examples=40)
@given(data=st.data())
def test_in_any_order_of_steps_every_partition_is_built_once(data: st.DataObject) -> None:
    with MemoryEventLog(ManualClock()) as log:
        world = World(log)
        wanted = [data.draw(st.permutations(list(INPUTS))) for _ in range(3)]
        builds = [Build(world, f"b{number}", refs) for number, refs in enumerate(wanted)]
        for _ in range(data.draw(st.integers(5, 40))):
            act(world, builds, data)
            check_readers_agree(world)
        end(world, builds)
        extra = Build(world, "last", list(INPUTS))  # asks again for everything: also what a dead build holds
        end(world, [extra])
        for build in builds:
            build.fate = "alive" if build.fate == "asleep" else build.fate
        for build in [build for build in builds if build.fate == "alive"] * 5:
            if build.fate == "alive":  # without a look at the log, as long as it has something to write
                build.step()
        assert {ref: len(world.tables.builders(ref)) for ref in INPUTS} == dict.fromkeys(INPUTS, 1)
        for name, history in replay(entry.event for entry in log.read()).items():
            if name == "last" or builds[int(name[1:])].fate == "done":
                assert history.status is BuildStatus.COMPLETED
