"""Errors while Spark reads raw files name the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from builders import NAME, sums_of, write_raw
from penstock.errors import ConcurrentRunError, RawFileError
from penstock.kinds.staging.culprits import EQUAL_KEYS, NANOSECONDS, OTHER_TEXT, Stop, find_culprit
from penstock.kinds.staging.read_errors import raw_files_named
from penstock.storage.local import LocalFiles

PATHS = ["orders/1.parquet", "orders/1.parquet.parquet", "orders/a b.parquet", "orders/x.csv"]
SAID = "these are nanoseconds"


def _damage_page(file: Path) -> None:
    """Garble the data behind a good footer."""
    content = bytearray(file.read_bytes())
    content[4:40] = b"\xff" * 36
    file.write_bytes(bytes(content))


@pytest.fixture
def files(raw: LocalFiles) -> LocalFiles:
    for path in PATHS[:3]:
        write_raw(raw.root / path, {"id": list(range(1000))})
    return raw


def _fail(raw: LocalFiles, error: Exception) -> RawFileError:
    with pytest.raises(RawFileError) as caught, raw_files_named(NAME, raw, PATHS, {SAID: NANOSECONDS}):
        raise error
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("path", PATHS)
def test_the_file_that_spark_names_is_told(path: str, files: LocalFiles) -> None:
    shown = files.spark_path(path).replace(" ", "%20")
    said = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {shown}. SQLSTATE: KD001"
    assert _fail(files, RuntimeError(said)).message == (
        f"staging.orders: Spark cannot read raw file {path} (FAILED_READ_FILE.NO_HINT)"
    )


def test_a_checksum_of_other_bytes_beside_the_file_is_what_is_wrong(files: LocalFiles) -> None:
    """To replace the file, as other errors advise, would not help."""
    file = files.root / PATHS[0]
    beside = file.with_name(f".{file.name}.crc")
    said = RuntimeError(f"[FAILED_READ_FILE.NO_HINT] while reading file {files.spark_path(PATHS[0])}")
    for content, is_false in ((file.read_bytes(), False), (file.read_bytes()[1:], True)):
        beside.write_bytes(sums_of(content))
        found = _fail(files, said)
        assert (beside.name in found.message, beside.name in str(found.hint)) == (is_false, is_false)


def test_a_damaged_page_behind_a_good_footer_is_found(files: LocalFiles) -> None:
    _damage_page(files.root / PATHS[2])
    message = _fail(files, RuntimeError("org.apache.parquet.io.ParquetDecodingException: no")).message
    assert message.startswith("staging.orders: raw file orders/a b.parquet is damaged (")
    _damage_page(files.root / PATHS[0])
    assert "orders/1.parquet is damaged" in _fail(files, RuntimeError("[FAILED_READ_FILE]")).message


def test_when_no_file_can_be_blamed_it_is_still_a_raw_file(files: LocalFiles) -> None:
    assert "one of 4 raw files (FAILED_READ_FILE)" in _fail(files, RuntimeError("[FAILED_READ_FILE]")).message


def test_nanoseconds_and_other_errors(files: LocalFiles) -> None:
    assert "nanoseconds" in _fail(files, RuntimeError(f"[USER_RAISED_EXCEPTION] {SAID}")).message
    table = RuntimeError("[FAILED_READ_FILE.NO_HINT] while reading file:///storage/staging/orders/part-1.parquet")
    said = "[FAILED_READ_FILE.NO_HINT] while reading file:///storage/staging/orders/"
    logs = (RuntimeError(f"{said}_delta_log/{1:020d}.json"), RuntimeError(f"{said}deletion_vector_1.bin"))
    for error in (RuntimeError("something else"), ConcurrentRunError("FAILED_READ_FILE"), table, *logs):
        with pytest.raises(type(error)), raw_files_named(NAME, files, PATHS, {SAID: NANOSECONDS}):
            raise error


class SparkError(Exception):
    """As those of pyspark: by the name of its module."""

    __module__ = "pyspark.errors"


SAID_BY_SPARK = (
    "[TASK_WRITE_FAILED] Task failed.\nCaused by: a.b.SparkException: x\n\tat y\nCaused by: java.lang.Npe: 'secret'\n"
)


@pytest.mark.parametrize("bad", [*PATHS, None])
def test_after_an_unknown_error_the_files_are_tried(bad: str | None, files: LocalFiles) -> None:
    tried = []

    def can_load(paths: Sequence[str]) -> bool:
        tried.append(tuple(paths))
        return bad not in paths

    error = SparkError(SAID_BY_SPARK)
    wanted = RawFileError if bad is not None else SparkError
    with pytest.raises(wanted) as caught, raw_files_named(NAME, files, PATHS, {}, can_load):
        raise error
    if bad is not None:
        assert str(caught.value.message) == f"staging.orders: Spark cannot load raw file {bad} (Npe)"
    assert len(tried) <= 6


def test_no_file_is_blamed_when_nothing_works(files: LocalFiles) -> None:
    for error, works in ((SparkError("the session is gone"), False), (RuntimeError("not of Spark"), True)):
        with (
            pytest.raises(type(error)),
            raw_files_named(NAME, files, PATHS, {}, lambda paths, w=works: w and not paths),
        ):
            raise error


MAPS = pa.array([[(1, "a")], [(2, "b"), (2, "c")]], pa.map_(pa.int32(), pa.string()))
NOT_TEXT = pa.array([b"ok", b"\xff"]).view(pa.string())
FAR_DAYS = pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())


def _map(keys: pa.Array) -> pa.Array:
    """One map with these keys."""
    return pa.MapArray.from_arrays(pa.array([0, len(keys)], pa.int32()), keys, pa.array(range(len(keys))))


@pytest.mark.parametrize(
    ("stop", "sound", "column"),
    [
        (NANOSECONDS, pa.array([1000, None], pa.timestamp("ns")), pa.array([1000, -1], pa.timestamp("ns"))),
        (EQUAL_KEYS, pa.array([[(1, "a")]], MAPS.type), MAPS),
        (EQUAL_KEYS, pa.array([1]), pa.StructArray.from_arrays([MAPS], ["m"])),
        (EQUAL_KEYS, _map(NOT_TEXT), _map(pa.concat_arrays([NOT_TEXT, NOT_TEXT]))),
        (EQUAL_KEYS, _map(FAR_DAYS), _map(pa.concat_arrays([FAR_DAYS, FAR_DAYS]))),
        (EQUAL_KEYS, _map(pa.array([0.0, 1.0])), _map(pa.array([0.0, -0.0]))),
        (OTHER_TEXT, NOT_TEXT, pa.StructArray.from_arrays([NOT_TEXT], ["s"])),
        (OTHER_TEXT, pa.array([["a"]]), pa.ListArray.from_arrays([0, 2], NOT_TEXT)),
    ],
)
def test_the_file_and_column_of_a_value_are_found(
    stop: Stop, sound: pa.Array, column: pa.Array, raw: LocalFiles
) -> None:
    write_raw(raw.root / "orders/1.parquet", pa.table({"sound": sound}))
    assert find_culprit(raw, ["orders/1.parquet"], stop) is None
    write_raw(raw.root / "orders/2.parquet", pa.table({"n": pa.array([1] * len(column)), "bad": column}))
    found = find_culprit(raw, ["orders/none.parquet", "orders/1.parquet", "orders/x.csv", "orders/2.parquet"], stop)
    assert found is not None
    assert (found.path, found.column) == ("orders/2.parquet", "bad")
