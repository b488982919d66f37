"""CPU seconds of one plan over many staging tables, in a process of its own that imports no Spark.

    python benchmarks/staging_planning.py PROJECT        prints what `Engine.plan` cost there, as JSON

`benchmarks/staging.py` makes the projects and asks this for each of them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "benchmarks")]

from staging_data import make_batch, make_project, write_batch  # noqa: E402

from penstock.engine import open_engine  # noqa: E402
from penstock.model.names import DatasetName  # noqa: E402
from penstock.model.progress import RawFile  # noqa: E402
from penstock.storage.local import LocalFiles  # noqa: E402

ROWS = 10
"""A plan reads footers, whose length does not depend on the number of rows."""


def make_new_files(root: Path, tables: int, files: int) -> None:
    """A project in which every file of every table is new."""
    make_project(root)
    sample = write_batch(root, "t0000", "0000", make_batch(ROWS, 0))
    for table in range(tables):
        folder = root / "raw" / f"t{table:04}"
        folder.mkdir(exist_ok=True)
        for batch in range(files):
            if folder / f"{batch:04}.parquet" != sample:
                shutil.copyfile(sample, folder / f"{batch:04}.parquet")


class _ListedOnce(LocalFiles):
    """Raw files that do not change meanwhile: one listing serves all tables."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._by_folder: dict[str, list[RawFile]] = {}
        for file in super().walk(""):
            self._by_folder.setdefault(file.path.split("/")[0], []).append(file)
        self.folder = ""

    def walk(self, prefix: str) -> list[RawFile]:  # noqa: ARG002 - the one table that is being loaded
        return self._by_folder[self.folder]


def load_everything(root: Path) -> None:
    """Give every table what a run would have left behind, without Spark: a Delta commit, and the manifest it names."""
    from tests.builders import load_raw

    storage, raw = LocalFiles(root / "storage"), _ListedOnce(root / "raw")
    for table in raw.folders(""):
        raw.folder = table
        load_raw(storage, raw, DatasetName("staging", table), [file.path for file in raw.walk("")])


def measure_plan(root: Path) -> dict[str, Any]:
    """What a plan costs in this process, and what it says."""
    engine = open_engine(root, environment={})
    begun, begun_cpu = time.perf_counter(), time.process_time()
    plan = engine.plan()
    cpu, seconds = time.process_time() - begun_cpu, time.perf_counter() - begun
    assert "pyspark" not in sys.modules, "a plan must not import Spark"
    actions = Counter(dataset.action.value for dataset in plan.items)
    return {"cpu": cpu, "seconds": seconds, "actions": dict(actions)}


def measure_in_subprocess(root: Path) -> dict[str, Any]:
    """The same in a fresh process, as each command starts one."""
    done = subprocess.run([sys.executable, __file__, str(root)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(measure_plan(Path(sys.argv[1]))))
