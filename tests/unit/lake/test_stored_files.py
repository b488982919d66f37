"""A data file that is gone or damaged: its table is named, and how to get it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConcurrentRunError, StorageError, UserCodeError
from penstock.lake.stored_files import stored_files_named
from penstock.model.names import DatasetName
from penstock.storage.local import LocalFiles

READER = DatasetName("main", "totals")


@pytest.mark.parametrize(
    "said",
    [
        "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file {root}/staging/orders/part-1.parquet. File",
        "[DELTA_FILE_NOT_FOUND_DETAILED] File {root}/staging/orders/part-1.parquet referenced in the log cannot be found",
        "java.io.FileNotFoundException: {root}/staging/orders/part-1.parquet (No such file or directory)",
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {root}/staging/orders/part-1.parquet",
    ],
)
def test_the_table_of_a_lost_file_is_named(said: str, tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    cause = RuntimeError(said.format(root=f"file://{tmp_path}"))
    for name, reads in ((READER, "main.totals reads staging.orders: "), (DatasetName("staging", "orders"), "")):
        with pytest.raises(StorageError) as caught, stored_files_named(name, files):  # noqa: PT012
            try:
                raise cause
            except RuntimeError as error:
                raise UserCodeError("the query failed") from error
        assert caught.value.message == (
            f"{reads}the data file part-1.parquet of staging.orders is missing or damaged; nothing was written"
        )
        assert "penstock rebuild staging.orders" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[FAILED_READ_FILE.NO_HINT] while reading file /elsewhere/staging/orders/part-1.parquet"),
        RuntimeError("ROOT/staging/orders/part-1.parquet is a fine file"),
        ConcurrentRunError("[FAILED_READ_FILE.NO_HINT] ROOT/staging/orders/part-1.parquet"),
    ],
)
def test_other_errors_pass(error: Exception, tmp_path: Path) -> None:
    told = type(error)(str(error).replace("ROOT", str(tmp_path)))
    with pytest.raises(type(error)) as caught, stored_files_named(READER, LocalFiles(tmp_path)):
        raise told
    assert caught.value is told


def test_a_log_that_hadoop_refuses_is_named_with_the_file_that_does_not_fit(tmp_path: Path) -> None:
    """Hadoop keeps a checksum beside each local file: if only that is damaged, everybody else can read the log."""
    said = (
        f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {tmp_path}/main/totals/_delta_log/0001.json."
    )
    with pytest.raises(StorageError) as caught, stored_files_named(READER, LocalFiles(tmp_path)):
        raise RuntimeError(said)
    assert caught.value.message == "Spark cannot read _delta_log/0001.json of main.totals; nothing was written"
    assert "main/totals/_delta_log/.0001.json.crc" in (caught.value.hint or "")
