"""Errors of Spark while it reads raw files, as errors that name the file and say what to do. Never imports Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from penstock.errors import PenstockError, RawFileError, first_line
from penstock.kinds.staging.culprits import Stop, find_culprit, find_unloadable
from penstock.lake.hadoop_sums import fits_sums
from penstock.model.names import DatasetName
from penstock.model.text_files import is_text_file
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles

_READING = re.compile(r"FAILED_READ_FILE|CANNOT_READ_FILE|ParquetDecodingException|parquet\.io|is not a Parquet file")
_CODE = re.compile(r"\[(FAILED_READ_FILE[A-Z_.]*|CANNOT_READ_FILE[A-Z_.]*)\]")
_OTHER_FILE = re.compile(r"/_delta_log/|/\S+\.(?:parquet|bin)\b")
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+[.])*([\w$]+)", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z_]+(?:[.][A-Z_]+)*)\]")
_SPARKS = ("pyspark", "py4j")
_HINT = "replace the file, write it with another compression or encoding, or move it out of raw; then run again"


@contextmanager
def raw_files_named(
    name: DatasetName,
    raw: Files,
    paths: Sequence[str],
    stops: Mapping[str, Stop],
    can_load: Callable[[Sequence[str]], bool] = lambda _: True,
) -> Iterator[None]:
    """Turn an error about a raw file, or about a value in one, into one with its name; other errors pass.

    `stops` are the values that stop a query, by what Spark says then. `can_load` tries to read some of the files: Spark has too
    many ways to fail at a file to know them all, so after an error that is not known, the files are tried.
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        said = str(error)
        for found, stop in stops.items():
            if found in said:
                raise _name_value(name, raw, paths, stop) from None
        if _READING.search(said):
            named = _name_file(name, raw, paths, said)
        else:
            named = _find_file(name, paths, error, can_load) if type(error).__module__.startswith(_SPARKS) else None
        if named is None:
            raise
        raise named from error


def _find_file(
    name: DatasetName, paths: Sequence[str], error: Exception, can_load: Callable[[Sequence[str]], bool]
) -> RawFileError | None:
    """The error of the raw file that Spark fails at; None when it can read all of them, or nothing at all any more."""
    if not can_load(()):
        return None
    path = find_unloadable(paths, can_load)
    causes = _CAUSE.findall(str(error)) or _CONDITION.findall(str(error))
    reason = f" ({causes[-1]})" if causes else ""
    return RawFileError(f"{name}: Spark cannot load raw file {path}{reason}", hint=_HINT) if path is not None else None


def _name_value(name: DatasetName, raw: Files, paths: Sequence[str], stop: Stop) -> RawFileError:
    culprit = find_culprit(raw, paths, stop)
    where = f"raw file {culprit.path}: column {culprit.column!r}" if culprit else "a raw file"
    return RawFileError(f"{name}: {where} has {stop.what}", hint=stop.hint)


def _name_file(name: DatasetName, raw: Files, paths: Sequence[str], said: str) -> RawFileError | None:
    """The error of the raw file that cannot be read; None when Spark names another file, such as one of a table."""
    code = _CODE.search(said)
    reason = f" ({code[1]})" if code else ""
    plain = unquote(said)
    for path in sorted(paths, key=len, reverse=True):  # the name of one file may be the beginning of another's
        if raw.spark_path(path).removeprefix("file://") in plain:
            return _find_false_sums(name, raw, path) or RawFileError(
                f"{name}: Spark cannot read raw file {path}{reason}", hint=_HINT
            )
    if _OTHER_FILE.search(plain):
        return None
    for path in paths:
        broken = _find_damage(raw, path)
        if broken is not None:
            return RawFileError(f"{name}: raw file {path} is damaged ({broken})", hint=_HINT)
    return RawFileError(f"{name}: Spark cannot read one of {len(paths)} raw files{reason}", hint=_HINT)


def _find_false_sums(name: DatasetName, raw: Files, path: str) -> RawFileError | None:
    """The error of a file that has Hadoop's checksum of another beside it: to replace the file does not help."""
    if not isinstance(raw, LocalFiles) or fits_sums(raw, path):
        return None
    sums = f".{path.rpartition('/')[2]}.crc"
    return RawFileError(
        f"{name}: Spark does not read raw file {path}, since {sums} beside it, Hadoop's checksum, is of other bytes",
        hint=f"if the file is right, remove {sums}; otherwise replace both; then run again",
    )


def _find_damage(raw: Files, path: str) -> str | None:
    """Why a Parquet file cannot be read to its end; None when it can."""
    if is_text_file(path):
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with raw.open(path) as stream:
            for _ in pq.ParquetFile(stream).iter_batches():
                pass
    except (pa.ArrowException, OSError) as error:
        return first_line(error)
    return None
