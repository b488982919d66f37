"""Signals, with real processes: the first stops, a second one or the time ends the process, and nothing else is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from penstock.cli import signals
from penstock.errors import StoppedError

HEAD = """
import signal, sys, threading, time
from penstock.cli import signals
from penstock.errors import StoppedError
signals.SECONDS = 1.0
signals.ROUND_SECONDS = 0.3

def ready():
    print("ready", flush=True)
"""

DEAF = """
with signals.stop_signals():
    say = ready
    while True:
        try:
            say()
            time.sleep(60)
        except BaseException:
            print("heard", flush=True)
            say = int
"""

LEFT_BEHIND = """
try:
    with signals.stop_signals():
        threading.Thread(target=time.sleep, args=(60,)).start()
        ready()
        time.sleep(60)
except StoppedError as stopped:
    print(stopped, flush=True)
    sys.exit(stopped.exit_code)
"""

ROUNDS = """
stop = threading.Event()
try:
    with signals.stop_signals(), signals.stop_between_rounds(stop):
        say = ready
        while not stop.is_set():
            say()
            say = int
            until = time.monotonic() + float(sys.argv[1])
            while time.monotonic() < until:
                time.sleep(0.01)
except StoppedError as stopped:
    print(stopped, flush=True)
    sys.exit(stopped.exit_code)
"""


FORKS = """
import multiprocessing

with signals.stop_signals():
    ready()
    forked = []
    def fork():
        for _ in range(2):
            forked.append(multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)))
            forked[-1].start()
    thread = threading.Thread(target=fork)  # where definitions run
    thread.start()
    thread.join()
    time.sleep(0.2)
    for child in forked:
        child.terminate()
        child.join()
    time.sleep(1.5)
    print(*(child.exitcode for child in forked))
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HEAD + program, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> tuple[int, str, float]:
    began = time.monotonic()
    with process:
        try:
            output, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert errors == ""
    return process.returncode, output, time.monotonic() - began


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_does_not_obey_is_ended(number: signal.Signals, code: int) -> None:
    process = start(DEAF)
    process.send_signal(number)
    found, output, seconds = end(process)
    assert (found, output) == (code, "heard\n")
    assert 0.5 < seconds < 5


def test_a_second_signal_ends_at_once_with_its_code() -> None:
    process = start(DEAF)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "heard\n"
    process.send_signal(signal.SIGTERM)
    code, _, seconds = end(process)
    assert code == 143
    assert seconds < 0.8


def test_a_thread_that_is_left_behind_does_not_keep_the_process_alive() -> None:
    process = start(LEFT_BEHIND)
    process.send_signal(signal.SIGTERM)
    code, output, seconds = end(process)
    assert (code, output) == (143, "stopped by SIGTERM\n")
    assert seconds < 5


@pytest.mark.parametrize(
    ("seconds", "code", "output"), [("0.1", 0, ""), ("60", 130, "stopped by Ctrl-C\n")], ids=["in time", "too long"]
)
def test_rounds_end_in_order_or_soon(seconds: str, code: int, output: str) -> None:
    process = start(ROUNDS, seconds)
    process.send_signal(signal.SIGINT)
    assert end(process)[:2] == (code, output)


def test_processes_that_user_code_forks_handle_signals_as_usual_and_alone() -> None:
    assert end(start(FORKS))[:2] == (0, "-15 -15\n")


def test_a_program_that_goes_on_after_the_command_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tests do that call the command line in their own process."""
    monkeypatch.setattr(signals, "SECONDS", 0.2)
    before = [signal.getsignal(number) for number in signals.STOPS]
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(StoppedError, match="stopped by SIGTERM"), signals.stop_signals():
        time.sleep(10)
    assert [signal.getsignal(number) for number in signals.STOPS] == before
    time.sleep(0.5)
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-signals"]


def test_outside_the_main_thread_signals_are_somebody_elses() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def run() -> None:
        with signals.stop_signals():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
