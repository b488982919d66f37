"""Errors of raw files: whatever goes wrong while one is read, the message names the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import RawFileError, StorageError


@contextmanager
def problems_named(path: str, say_damage: Callable[[Exception], str]) -> Iterator[None]:
    """Turn errors of reading a raw file into a RawFileError that names it.

    `say_damage` says what is wrong with a file whose content cannot be read; it follows the file's name.
    """
    import pyarrow as pa

    try:
        yield
    except StorageError as error:
        raise RawFileError(f"raw file {path} cannot be read: {error.message}", hint=error.hint) from None
    except FileNotFoundError:
        raise RawFileError(f"raw file {path} was removed while it was being read", hint="run again") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise RawFileError(
            f"raw file {path} {say_damage(error)}",
            hint="replace the file or move it out of the raw folder, then run again",
        ) from None
