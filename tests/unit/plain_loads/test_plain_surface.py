"""What `import penstock` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock
from penstock.errors import PenstockError, SessionError

FUNCTIONS = {"apply_changes", "full_refresh_with_swap", "incremental_by_timestamp", "process_cdc_events"}


def test_the_public_names_are_listed_and_there() -> None:
    assert set(dir(penstock)) >= FUNCTIONS | {"pipelines", "testing"}
    assert set(penstock.__all__) <= set(dir(penstock))
    assert all(getattr(penstock, name) is not None for name in penstock.__all__)
    assert penstock.PenstockError is PenstockError
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = penstock.nothing


def test_the_import_brings_neither_spark_nor_pandas() -> None:
    heavy = "pyspark", "pandas", "pyarrow", "deltalake"
    code = f"import sys, penstock; dir(penstock); sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_a_session_the_error_says_how_to_get_one() -> None:
    with pytest.raises(SessionError, match="no active Spark session") as error:
        penstock.full_refresh_with_swap([{"a": 1}], "lake/shop/orders")
    assert "DeltaSparkSessionExtension" in str(error.value.hint)


def test_a_rule_for_missing_cursors_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PenstockError, match="'fail', 'reload', 'skip'"):
        penstock.incremental_by_timestamp([], "at", "lake/shop/orders", null_cursor="drop")
