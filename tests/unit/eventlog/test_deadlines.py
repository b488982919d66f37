"""Deadlines hold for everything in a block, and for work that never returns."""

from __future__ import annotations

import os
import threading
import time

import pytest

from penstock.eventlog.deadlines import (
    DeadlinePassedError,
    extend,
    has_deadline,
    has_passed,
    in_time,
    remaining,
    within,
)
from penstock.eventlog.retry import keep_trying


def test_without_a_deadline_nothing_is_limited() -> None:
    assert remaining(30) == 30
    assert not has_deadline()
    assert not has_passed()
    assert in_time(threading.current_thread) is threading.current_thread()


def test_a_block_inside_another_cannot_have_more_time() -> None:
    with within(1):
        with within(60):
            assert remaining(100) <= 1
        with within(0.1):
            assert remaining(100) <= 0.1
        assert 0.5 < remaining(100) <= 1
    assert remaining(100) == 100


def test_progress_extends_the_blocks_around_it_except_for_hard_ones() -> None:
    extend(60)
    assert not has_deadline()
    with within(0.2):
        with within(0.1):
            extend(60)
            assert remaining(100) > 50
        assert remaining(100) > 50
    with within(0.2, is_hard=True):
        with within(0.1):
            extend(60)
            assert remaining(100) > 50
        assert remaining(100) <= 0.2
    assert not has_deadline()


def test_a_deadline_belongs_to_its_thread() -> None:
    found: list[bool] = []
    with within(1):
        thread = threading.Thread(target=lambda: found.append(has_deadline()))
        thread.start()
        thread.join()
    assert found == [False]


def test_work_gives_its_result_or_its_error() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    with within(5):
        assert in_time(lambda: 7) == 7
        with pytest.raises(ValueError, match="wrong"):
            in_time(fail)


def test_work_that_hangs_is_left_behind_and_a_late_result_is_discarded() -> None:
    released, discarded = threading.Event(), threading.Event()
    found: list[int] = []

    def hang() -> int:
        released.wait(10)
        return 7

    def discard(result: int) -> None:
        found.append(result)
        discarded.set()

    started = time.monotonic()
    with within(0.2), pytest.raises(DeadlinePassedError):
        in_time(hang, discard)
    assert time.monotonic() - started < 1
    assert found == []
    released.set()
    assert discarded.wait(5)
    assert found == [7]


def test_work_that_is_done_often_shares_threads_that_end_when_idle() -> None:
    with within(10):
        first = {in_time(threading.current_thread, often=True) for _ in range(20)}
    assert len(first) <= 2
    deadline = time.monotonic() + 10
    while any(thread.is_alive() for thread in first):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with within(10):
        assert in_time(lambda: 7, often=True) == 7


def test_a_thread_that_hangs_is_not_given_other_work() -> None:
    released = threading.Event()
    with within(0.1), pytest.raises(DeadlinePassedError):
        in_time(lambda: released.wait(10), often=True)
    with within(5):
        assert in_time(lambda: 7, often=True) == 7
    released.set()


def test_a_forked_process_has_threads_of_its_own() -> None:
    with within(10):
        in_time(lambda: 7, often=True)
        child = os.fork()
        if child == 0:
            try:
                os._exit(in_time(lambda: 7, often=True))
            finally:
                os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_attempts_end_with_the_deadline_of_the_caller() -> None:
    attempts: list[float] = []

    def fail() -> None:
        attempts.append(time.monotonic())
        raise OSError("again")

    started = time.monotonic()
    with within(0.5), pytest.raises(OSError, match="again"):
        keep_trying(fail, lambda _: True, 60)
    assert time.monotonic() - started < 0.7
    assert len(attempts) > 2
