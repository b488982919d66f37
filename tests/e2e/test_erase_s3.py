"""Keys erased from raw files and change files in an object store: stopped after the files were replaced, and finished."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.test_s3 import FLOW_PY, Lake, lake

pytestmark = pytest.mark.spark
__all__ = ["lake"]

ERASER = Path(__file__).with_name("erase_in_store.py")


@pytest.mark.deep
def test_erasing_in_an_object_store(lake: Lake) -> None:
    lake.put_orders("0001", {"id": [1, 42], "customer": ["a", "b"]})
    lake.put_orders("0002", {"id": [3], "customer": ["c"]})
    lake.shop.define("flow.py", FLOW_PY)
    lines = [json.dumps({"id": id_, "city": "Rome", "ts": 1}) for id_ in (42, 7)]
    obstore.put(lake.store, "lake/feeds/1.json", "".join(f"{line}\n" for line in lines).encode())
    done = subprocess.run(
        [sys.executable, str(ERASER), str(lake.shop.root)],
        env={**os.environ, **lake.shop.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done"
    assert obstore.get(lake.store, "lake/feeds/1.json").bytes() == f"{lines[1]}\n".encode()
    content = bytes(obstore.get(lake.store, "lake/raw/orders/0001.parquet").bytes())
    assert pq.read_table(io.BytesIO(content)).equals(pa.table({"id": [1], "customer": ["a"]}))
    names = [meta["path"] for batch in obstore.list(lake.store) for meta in batch]
    assert not [name for name in names if "rewritten" in name]
    assert "Nothing to do" in lake.shop.penstock("run", JAVA_HOME="/nowhere").stdout
