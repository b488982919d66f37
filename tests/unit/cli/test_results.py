"""Whatever user code does while its file is loaded: results on stdout are intact, and mistakes are its own."""

from __future__ import annotations

import json

import pytest

from projects import ProjectFolder

LOUD = """
import atexit, os, subprocess, sys, threading
from penstock import pipelines as dp

def shout():
    for _ in range(2000):
        print("THREAD")

thread = threading.Thread(target=shout)
thread.start()
os.write(1, b"DESCRIPTOR\\n")
os.system("echo SYSTEM")
subprocess.run(["echo", "PROGRAM"])
sys.__stdout__.write("DUNDER\\n")
atexit.register(print, "ATEXIT")
sys.stdout = open(os.devnull, "w")

@dp.materialized_view
def loud():
    return dp.read("staging.orders")
"""


def test_only_results_reach_stdout(shop: ProjectFolder) -> None:
    shop.define("loud.py", LOUD)
    done = shop.penstock("plan", "--json")
    assert [item["dataset"] for item in json.loads(done.stdout)["datasets"]]
    said = [word for word in ("THREAD", "DESCRIPTOR", "SYSTEM", "PROGRAM", "DUNDER", "ATEXIT") if word in done.stderr]
    assert said == ["THREAD", "DESCRIPTOR", "SYSTEM", "PROGRAM", "DUNDER", "ATEXIT"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise GeneratorExit", "a.py:1: loading this file failed with GeneratorExit"),
        ("raise KeyboardInterrupt", "a.py:1: loading this file failed with KeyboardInterrupt"),
        ("import asyncio; raise asyncio.CancelledError", "failed with CancelledError"),
        ("class E(Exception):\n def __str__(self): 1/0\nraise E", "a.py:3: loading this file failed with E"),
        ("import sys; sys.stdout.close(); 1/0", "failed with ZeroDivisionError"),
        ("import sys; sys.setrecursionlimit(len(__import__('inspect').stack()) + 12); 1/0", "a.py:1: "),
    ],
)
def test_what_a_file_does_while_it_is_loaded_is_its_own_mistake(
    code: str, said: str, shop: ProjectFolder, penstock
) -> None:
    shop.define("a.py", code)
    answer = penstock("plan")
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert "internal" not in answer.err


def test_with_a_detailed_exit_code_everything_that_is_wrong_is_one(shop: ProjectFolder, penstock) -> None:
    assert penstock("plan", "--detailed-exitcode").code == 2
    assert penstock("plan", "--detailed-exitcode", "--nosuch").code == 1
    assert penstock("plan", "--detailed-exitcode", "--select", "nosuch").code == 1
    shop.define("a.sql", "CREATE MATERIALIZED VIEW a AS SELECT a,, b")
    assert penstock("plan", "--detailed-exitcode").code == 1
    assert penstock("plan").code == 2


def test_ctrl_c_while_a_file_is_loaded_stops_the_command(shop: ProjectFolder) -> None:
    shop.define("a.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = shop.penstock("plan", check=130)
    assert "stopped by Ctrl-C" in done.stderr
