"""What builds that share tables should do, one step after another: plain Python without threads, events or a log.

A unit is an item of a build's plan: references of one table that one thread builds. It is worked off in pieces when other
builds have some of its references. `Plain` is told each step that a test lets happen, and says how everything stands after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LAPSE = 100.0
DELAY = 10.0
AT_WORK = ("begin", "poll", "load", "checked", "committed")
"""Where a unit that a thread works on can stand: before its claim, waiting for another build, and in its load."""
BAD = ("error", "skip", "cancelled")


Final = tuple[str, dict[str, str], list[tuple[tuple[str, ...], str, int]]]
"""The statuses of a build, its partitions, and its job runs with what they asked for and how often they were begun."""


@dataclass(eq=False)
class Run:
    """A job run: what it asked for, how it ended, how often it was begun."""

    refs: tuple[str, ...]
    status: str = "RUNNING"
    tries: int = 1
    is_fenced: bool = False


@dataclass(eq=False, repr=False)
class Unit:
    """One item of a plan; `reads` names units or tables of the same plan."""

    id: str
    table: str
    refs: tuple[str, ...]
    reads: tuple[str, ...] = ()
    is_alone: bool = True
    stage: str = "waiting"
    tries: int = 0
    due: float = 0.0
    left: tuple[str, ...] = ()
    """What is still to be done, with the piece at work."""
    piece: tuple[str, ...] = ()
    run: Run | None = None
    is_shared: bool = False
    """Other builds have, or had, everything that is left."""
    has_tried_again: bool = False
    is_parked: bool = False
    """It waits for its turn: another unit of the table was at work when it could have started."""
    has_built: bool = False
    """This attempt has built something."""

    def __post_init__(self) -> None:
        self.left = self.refs

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(f"{self.id} ({self.stage})")


@dataclass(eq=False)
class Build:
    """A build request: its units in the order of the plan."""

    name: str
    units: list[Unit]
    threads: int
    attempts: int
    began: float
    sign: float
    """When it last gave a sign of life."""
    is_dead: bool = False
    is_lost: bool = False
    """Another build has ended it, because it gave no sign of life; it records nothing any more."""
    is_cancelled: bool = False
    runs: list[Run] = field(default_factory=list)
    partitions: dict[str, str] = field(default_factory=dict)
    recorded: Final | None = None
    """How the build was ended by another one."""

    @property
    def is_over(self) -> bool:
        return self.is_dead or not any(unit.stage in ("waiting", *AT_WORK) for unit in self.units)

    @property
    def at_work(self) -> list[Unit]:
        return [] if self.is_dead else [unit for unit in self.units if unit.stage in AT_WORK]

    @property
    def status(self) -> str:
        """How a build that is over ended."""
        if self.is_dead:
            return "FAILED"
        if self.is_cancelled:
            return "CANCELLED"
        return "FAILED" if any(unit.stage in ("error", "cancelled") for unit in self.units) else "COMPLETED"


@dataclass(eq=False)
class Plain:
    """Everything: what is built, who holds what, and how the last claim on each reference ended."""

    now: float = 0.0
    builds: dict[str, Build] = field(default_factory=dict)
    built: dict[str, str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    """built, flaky (trying again can help), fatal or given up."""

    def add(self, name: str, units: list[Unit], threads: int, attempts: int) -> None:
        """A build begins."""
        build = Build(name, units, threads, attempts, self.now, self.now)
        build.partitions = {ref: "REQUESTED" for unit in units for ref in unit.refs}
        self.builds[name] = build
        self._start(build)

    def unit(self, build: str, unit_id: str) -> Unit:
        """One unit of a build."""
        return next(unit for unit in self.builds[build].units if unit.id == unit_id)

    def stages(self, build: str) -> dict[str, str]:
        """How the units of a build stand."""
        return {unit.id: unit.stage for unit in self.builds[build].units}

    # What a test lets happen.

    def go(self, name: str, unit: Unit, word: str = "go") -> None:
        """A unit goes on from where it stands; in its load, the word says how."""
        build, unit_stage = self.builds[name], unit.stage
        if unit_stage == "begin":
            self._begin(build, unit)
        elif unit_stage == "poll":
            self._look(build, unit)
        elif word in ("flaky", "fatal"):
            self._fail(build, unit, word)
        elif unit_stage == "load":
            if build.is_lost:
                self._fail(build, unit, "fatal")
            else:
                unit.stage = "checked"
        elif unit_stage == "checked":
            self._commit(build, unit)
        else:
            self._piece_done(build, unit)
        self._settle(build, [unit])

    def cancel(self, name: str, unit: Unit | None) -> None:
        """Somebody cancels a unit or the build: nothing of it starts any more; a commit that was made counts."""
        build = self.builds[name]
        build.is_cancelled = build.is_cancelled or unit is None
        ended = build.units if unit is None else [unit]
        for each in ended:
            if each.stage == "committed" or self._has_committed_before(build, each):
                outcome = "pass" if each.stage == "committed" else "no-op"
                self._built(build, each)
                each.stage = "cancelled" if each.left else outcome
            elif each.stage in ("waiting", *AT_WORK):
                self._end(build, each, "cancelled")
        self._settle(build, ended)

    def crash(self, name: str) -> None:
        """The process of a build ends at once."""
        self.builds[name].is_dead = True

    def close_dead(self) -> None:
        """Somebody on the same machine sees which processes have ended."""
        for build in self.builds.values():
            if build.is_dead:
                self._take_over(build)

    def pass_time(self, seconds: float, silent: set[str]) -> None:
        """Time passes; builds that are alive and not silent give signs of life."""
        self.now += seconds
        for build in self.builds.values():
            if not build.is_dead and build.name not in silent:
                build.sign = self.now
            if not build.is_over:
                self._start(build)

    def beat(self, name: str) -> None:
        """A build gives a sign of life."""
        self.builds[name].sign = self.now

    # The rules.

    def _has_committed_before(self, build: Build, unit: Unit) -> bool:
        """Whether another attempt is about to see that the one before has committed everything, and failed afterwards."""
        is_again = unit.stage == "begin" and unit.run is not None and not build.is_lost
        return is_again and all(ref in self.built for ref in unit.piece)

    def _settle(self, build: Build, moved: list[Unit]) -> None:
        """Skip what cannot run, and start what can; where a unit has left its table, the next one has its turn."""
        for each in moved:
            parked = [unit for unit in build.units if unit.is_parked and unit.stage == "waiting"]
            beside = [unit for unit in parked if unit.table == each.table]
            if each.stage not in AT_WORK and beside:
                beside[0].is_parked = False
        for _ in build.units:
            for unit in build.units:
                if unit.stage == "waiting" and any(each.stage in BAD for each in self._inputs(build, unit)):
                    unit.stage = "skip"
        self._start(build)

    def _start(self, build: Build) -> None:
        """In the order of the plan; first what does not only wait for other builds."""
        for unit in sorted(build.units, key=lambda unit: self._is_elsewhere(build, unit)):
            if len(build.at_work) == build.threads or not self._is_ready(build, unit):
                continue
            if unit.is_alone and any(each.table == unit.table for each in build.at_work):
                unit.is_parked = True
                continue
            unit.stage = "begin"
            unit.tries += 1
            unit.has_built = False
            if unit.run is not None:
                unit.run.tries += 1
                build.sign = self.now  # another attempt is recorded, which is a sign of life

    def _is_ready(self, build: Build, unit: Unit) -> bool:
        is_due = unit.stage == "waiting" and unit.due <= self.now and not unit.is_parked
        return is_due and all(each.stage in ("pass", "no-op") for each in self._inputs(build, unit))

    def _is_elsewhere(self, build: Build, unit: Unit) -> bool:
        return all(self.holders.get(ref) not in (None, build.name) for ref in unit.refs)

    def _inputs(self, build: Build, unit: Unit) -> list[Unit]:
        return [each for each in build.units if each.id in unit.reads or each.table in unit.reads]

    def _begin(self, build: Build, unit: Unit) -> None:
        if unit.run is not None:  # another attempt
            unit.piece = tuple(ref for ref in unit.piece if ref not in self.built)
            if build.is_lost:
                self._fail(build, unit, "fatal")
            elif not unit.piece:  # the attempt before has committed it, and failed afterwards
                self._piece_done(build, unit, is_noop=True)
            else:
                unit.stage = "load"
        elif unit.is_shared:
            self._look(build, unit, is_new=True)
        else:
            self._take(build, unit)

    def _take(self, build: Build, unit: Unit) -> None:
        """Claim what nobody holds; the rest is delegated."""
        if build.is_lost:
            self._end(build, unit, "error")
            return
        theirs = {ref: holder for ref in unit.left if (holder := self.holders.get(ref)) not in (None, build.name)}
        for holder in set(theirs.values()):
            if holder is not None and self._has_lapsed(build, self.builds[holder]):
                self._take_over(self.builds[holder])
        wanted = tuple(ref for ref in unit.left if self.holders.get(ref) in (None, build.name))
        build.partitions |= {ref: "DELEGATED" for ref in unit.left if ref not in wanted}
        unit.is_shared = True
        if not wanted:
            unit.stage = "poll"
            return
        rest = tuple(ref for ref in unit.left if ref not in wanted)
        unit.run = Run(wanted)
        build.runs.append(unit.run)
        self.holders |= dict.fromkeys(wanted, build.name)
        unit.piece = tuple(ref for ref in wanted if ref not in self.built)
        for ref in wanted:
            if ref not in unit.piece:
                self._release(build, ref, "given up")
                build.partitions[ref] = "DELEGATED"
        if not unit.piece:
            unit.run.status, unit.run.tries = "SKIPPED", 0
            unit.run, unit.left = None, rest
            self._next_piece(build, unit)
            return
        build.partitions |= dict.fromkeys(unit.piece, "BUILDING")
        unit.stage = "load"
        for other in self.builds.values():
            if other.is_lost or other.is_dead:
                for run in other.runs:
                    run.is_fenced = run.is_fenced or bool({*run.refs} & {*wanted})

    def _look(self, build: Build, unit: Unit, *, is_new: bool = False) -> None:
        """Do about the first reference that is left what the build that had it makes necessary."""
        if is_new:
            unit.has_tried_again = False
        ref = unit.left[0]
        holder = self.holders.get(ref)
        if holder is not None and not self._has_lapsed(build, self.builds[holder]):
            unit.stage = "poll"
            return
        end = self.ends.get(ref, "given up") if holder is None else "given up"
        if end == "built":
            unit.left = unit.left[1:]
            self._next_piece(build, unit)
        elif end == "fatal" or (end == "flaky" and unit.has_tried_again):
            build.partitions[ref] = "FAILED"
            self._end(build, unit, "error")
        else:
            unit.has_tried_again = unit.has_tried_again or end == "flaky"
            self._take(build, unit)

    def _commit(self, build: Build, unit: Unit) -> None:
        assert unit.run is not None
        if unit.run.is_fenced:
            self._fail(build, unit, "fatal")
            return
        for ref in unit.piece:
            assert ref not in self.built, "the model itself builds it twice"
            self.built[ref] = build.name
        unit.stage = "committed"

    def _piece_done(self, build: Build, unit: Unit, *, is_noop: bool = False) -> None:
        self._built(build, unit)
        unit.has_built = unit.has_built or not is_noop
        self._next_piece(build, unit)

    def _built(self, build: Build, unit: Unit) -> None:
        """The job run of a unit has built its piece."""
        assert unit.run is not None
        for ref in unit.run.refs:
            if build.partitions[ref] == "BUILDING":
                build.partitions[ref] = "AVAILABLE"
                self._release(build, ref, "built")
        unit.left = tuple(ref for ref in unit.left if ref not in unit.run.refs)
        unit.run.status, unit.run = "COMPLETED", None

    def _next_piece(self, build: Build, unit: Unit) -> None:
        if unit.left:
            self._look(build, unit, is_new=True)
        else:
            unit.stage = "pass" if unit.has_built else "no-op"

    def _fail(self, build: Build, unit: Unit, word: str) -> None:
        if word == "flaky" and unit.tries < build.attempts:
            unit.stage, unit.due = "waiting", self.now + DELAY * 2 ** (unit.tries - 1)
        else:
            self._end(build, unit, "error", word)

    def _end(self, build: Build, unit: Unit, stage: str, how: str = "fatal") -> None:
        """A unit ends without success; what was claimed for it is given back."""
        unit.stage = stage
        if unit.run is not None:
            unit.run.status = "CANCELLED" if stage == "cancelled" else "FAILED"
            for ref in unit.run.refs:
                if build.partitions[ref] == "BUILDING":
                    build.partitions[ref] = "FAILED"
                    self._release(build, ref, "given up" if stage == "cancelled" else how)
            unit.run = None

    def _release(self, build: Build, ref: str, end: str) -> None:
        if self.holders.get(ref) == build.name:  # otherwise it was taken over: what it says changes nothing
            del self.holders[ref]
            self.ends[ref] = end

    def _has_lapsed(self, build: Build, other: Build) -> bool:
        return self.now - max(other.sign, build.began) > LAPSE

    def _take_over(self, other: Build) -> None:
        if other.recorded is None:
            other.recorded = "FAILED", *self._states(other)
        other.is_lost = True
        for ref in [ref for ref, holder in self.holders.items() if holder == other.name]:
            del self.holders[ref]
            self.ends[ref] = "given up"

    # How it ends.

    def final(self, name: str) -> Final:
        """What is recorded of a build that is over."""
        build = self.builds[name]
        return build.recorded or (build.status, *self._states(build))

    def _states(self, build: Build) -> tuple[dict[str, str], list[tuple[tuple[str, ...], str, int]]]:
        """Of partitions and job runs, if everything that is open ended now."""
        partitions = {
            ref: "FAILED" if status in ("REQUESTED", "BUILDING") else status for ref, status in build.partitions.items()
        }
        runs = [(run.refs, "FAILED" if run.status == "RUNNING" else run.status, run.tries) for run in build.runs]
        return partitions, sorted(runs)
