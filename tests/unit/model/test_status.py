from __future__ import annotations

import itertools

import pytest

from penstock.model import status
from penstock.model.status import BuildStatus, IllegalMoveError, JobStatus, PartitionStatus


@pytest.mark.parametrize(
    "path",
    [
        "RECEIVED PLANNING ANALYSIS_COMPLETED EXECUTING COMPLETED",
        "RECEIVED FAILED",
        "RECEIVED PLANNING CANCELLED",
        "RECEIVED PLANNING ANALYSIS_COMPLETED EXECUTING FAILED",
    ],
)
def test_a_build_goes_this_way(path: str) -> None:
    steps = [None, *(BuildStatus[name] for name in path.split())]
    for before, after in itertools.pairwise(steps):
        assert after is not None
        status.check_move("build b", before, after)


def test_a_final_build_stays() -> None:
    for before, after in itertools.product(status.FINAL_BUILD, BuildStatus):
        assert before.is_final
        with pytest.raises(IllegalMoveError) as caught:
            status.check_move("build b7", before, after)
        assert "build b7" in str(caught.value)
        assert caught.value.hint == "that status is final"


def test_every_build_that_is_not_final_can_fail_or_be_cancelled() -> None:
    for before in set(BuildStatus) - status.FINAL_BUILD - {BuildStatus.UNKNOWN}:
        status.check_move("build b", before, BuildStatus.FAILED)
        status.check_move("build b", before, BuildStatus.CANCELLED)


def test_the_moves_of_a_partition() -> None:
    legal = {
        (before, after)
        for before, after in itertools.product([None, *PartitionStatus], PartitionStatus)
        if _is_legal(lambda b, a: status.check_move("partition p", b, a), before, after)
    }
    s = PartitionStatus
    assert legal == {
        (None, s.REQUESTED),
        (s.REQUESTED, s.SCHEDULED),
        (s.REQUESTED, s.DELEGATED),
        (s.REQUESTED, s.FAILED),
        (s.SCHEDULED, s.BUILDING),
        (s.SCHEDULED, s.DELEGATED),
        (s.SCHEDULED, s.FAILED),
        (s.BUILDING, s.AVAILABLE),
        (s.BUILDING, s.FAILED),
        (s.BUILDING, s.SCHEDULED),
        (s.DELEGATED, s.SCHEDULED),
        (s.DELEGATED, s.FAILED),
    }
    assert {value for value in s if value.is_final} == {s.AVAILABLE, s.FAILED, s.DELEGATED}


def test_the_moves_of_a_job_run() -> None:
    legal = {
        (before, after)
        for before, after in itertools.product([None, *JobStatus], JobStatus)
        if _is_legal(lambda b, a: status.check_move("job run r", b, a), before, after)
    }
    s = JobStatus
    assert legal == {
        (None, s.SCHEDULED),
        (s.SCHEDULED, s.RUNNING),
        (s.SCHEDULED, s.SKIPPED),
        (s.SCHEDULED, s.CANCELLED),
        (s.RUNNING, s.RUNNING),
        (s.RUNNING, s.COMPLETED),
        (s.RUNNING, s.FAILED),
        (s.RUNNING, s.CANCELLED),
    }
    assert {value for value in s if value.is_final} == {s.COMPLETED, s.FAILED, s.CANCELLED, s.SKIPPED}


def test_the_error_says_what_is_possible() -> None:
    with pytest.raises(IllegalMoveError) as caught:
        status.check_move("job run r1", None, JobStatus.RUNNING)
    assert caught.value.text == "job run r1 has no status yet and cannot become RUNNING"
    assert caught.value.hint == "from here it can become SCHEDULED"


def _is_legal(check, before, after) -> bool:  # type: ignore[no-untyped-def]
    try:
        check(before, after)
    except IllegalMoveError:
        return False
    return True
