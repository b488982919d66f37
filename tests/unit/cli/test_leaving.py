"""The end of the process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from projects import COMMAND, ProjectFolder

THREAD = """
import atexit, sys, threading, time
from penstock import pipelines as dp

def forever():
    while True:
        time.sleep(1)

threading.Thread(target=forever).start()
atexit.register(lambda: print("done at the end", file=sys.stderr))

@dp.materialized_view
def orders():
    return dp.read({name!r})
"""


@pytest.mark.parametrize(("name", "code"), [("a", 0), ("nothing", 2)])
def test_a_thread_of_user_code_does_not_keep_the_command_from_ending(name: str, code: int, tmp_path: Path) -> None:
    shop = ProjectFolder(tmp_path / "shop").configure("name: shop\n")
    shop.define("a.sql", "CREATE MATERIALIZED VIEW a AS SELECT 1 AS a")
    shop.define("orders.py", THREAD.format(name=name))
    command = [*COMMAND, "ls", "-C", str(shop.root)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, "main.orders" in run.stdout) == (code, code == 0)
    assert "done at the end" in run.stderr
