"""How a batch of partitions that failed is searched for the partitions that fail. Pure.

    search = BatchSearch(batch, error)                    # the batch failed with this error
    while (smaller := search.next_batch()) is not None:
        search.told(run(smaller))                         # None, or the error
    search.good, search.bad, search.untried

One bad partition of 90 costs at most 8 more job runs. Loss of the session and transient errors are not for this: then the whole
batch is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

P = TypeVar("P")


class _Test(StrEnum):
    """What the batch that runs now is for."""

    HALF = "half"
    """One half of a batch that fails."""
    CONFIRM = "confirm"
    """A partition that is bad by elimination only: perhaps the batch was too large."""
    REST = "rest"
    """Everything that was kept aside."""
    PROBE = "probe"
    """One partition of a rest that failed, from its far end: does everything fail?"""


@dataclass(slots=True)
class BatchSearch(Generic[P]):
    """The search for the partitions of a failed batch that fail; every good one runs successfully exactly once."""

    batch: Sequence[P]
    error: str
    """The error of the failed batch; equal errors are taken for the same cause."""
    good: list[P] = field(default_factory=list)
    bad: dict[P, str] = field(default_factory=dict)
    untried: dict[P, str] = field(default_factory=dict)
    """What was given up because everything fails alike, with the error."""
    runs: int = 0
    _suspect: Sequence[P] = ()
    """Contains a bad partition."""
    _aside: list[P] = field(default_factory=list)
    _test: _Test | None = None
    _running: Sequence[P] = ()

    def __post_init__(self) -> None:
        self._suspect = self.batch
        self._found_if_alone(self.error)

    def next_batch(self) -> Sequence[P] | None:
        """What to run next; None when the search is over."""
        if self._test is None:
            if self._suspect:
                self._test, self._running = _Test.HALF, self._suspect[: len(self._suspect) // 2]
            elif self._aside:
                self._test, self._running = _Test.REST, tuple(self._aside)
            else:
                return None
        return self._running

    def told(self, error: str | None) -> None:
        """How the batch ended: None, or its error."""
        self.runs += 1
        test, ran = self._test, self._running
        self._test, self._running = None, ()
        if error is None:
            self.good.extend(ran)
        if test is _Test.HALF:
            self._halved(ran, error)
        elif test is _Test.REST:
            self._ran_rest(ran, error)
        elif error is not None and test is _Test.PROBE and error == self.error:
            self.bad[ran[0]] = error
            self.untried = dict.fromkeys(self._suspect[:-1], error)
            self._suspect = ()
        else:
            self._ran_alone(ran[0], error)

    def _halved(self, half: Sequence[P], error: str | None) -> None:
        other = self._suspect[len(half) :]
        if error is not None:
            self.error = error
            self._aside[:0] = other  # in the order of the batch, so that a probe comes from its far end
            self._suspect = half
            self._found_if_alone(error)
            return
        self._suspect = other
        if len(other) == 1:
            if self._aside or self.bad:  # a smaller batch failed too: size was not the cause
                self._found_if_alone(self.error)
            else:
                self._test, self._running = _Test.CONFIRM, other

    def _ran_rest(self, rest: Sequence[P], error: str | None) -> None:
        self._aside.clear()
        if error is None:
            return
        self._suspect = rest
        if not self.good and error == self.error and len(rest) > 1:
            self._test, self._running = _Test.PROBE, rest[-1:]
            return
        self.error = error
        self._found_if_alone(error)

    def _ran_alone(self, one: P, error: str | None) -> None:
        """A partition that was confirmed or probed is good or bad by itself; of a rest, the others still contain a bad one."""
        if error is not None:
            self.bad[one] = error
        self._suspect = self._suspect[:-1]
        if error is not None and self._suspect:  # the rest may have failed because of this one alone
            self._aside.extend(self._suspect)
            self._suspect = ()
        elif len(self._suspect) == 1:
            self._found_if_alone(self.error)

    def _found_if_alone(self, error: str) -> None:
        if len(self._suspect) == 1:
            self.bad[self._suspect[0]] = error
            self._suspect = ()
