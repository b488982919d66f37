"""When the JVM or the server behind a session is gone: cleaning up quietly, and saying it plainly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.errors import SessionError
from penstock.model.names import DatasetName


@contextmanager
def best_effort() -> Iterator[None]:
    """Clean up without complaint: when the JVM or the server is gone, so is what was to be cleaned."""
    with suppress(Exception):
        yield


@contextmanager
def loss_of_session_named(name: DatasetName, state_folder: Path) -> Iterator[None]:
    """Say plainly that Spark is gone, instead of the many ways in which its client notices."""
    try:
        yield
    except Exception as error:
        if is_session_lost(error):
            raise SessionError(
                f"{name}: Spark ended while it worked on this table",
                hint=f"see {state_folder}/logs/spark.log, then run again",
            ) from None
        raise


def is_session_lost(error: BaseException | None) -> bool:
    """Whether the JVM or the Connect server behind a session is gone, to judge by an error and its causes."""
    while error is not None:
        lost = {"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"}
        if type(error).__name__ in lost or "StatusCode.UNAVAILABLE" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
