"""When the JVM or the server of a session has ended: cleaning up without errors, and one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.errors import SessionError, message_of
from penstock.model.names import DatasetName


@contextmanager
def best_effort() -> Iterator[None]:
    """Ignore errors of a clean-up: when the JVM or the server has ended, there is nothing left to clean up."""
    with suppress(Exception):
        yield


@contextmanager
def loss_of_session_named(name: DatasetName, state_folder: Path) -> Iterator[None]:
    """Turn the many errors of a lost connection into one that says that Spark ended."""
    try:
        yield
    except Exception as error:
        if is_session_lost(error):
            raise SessionError(
                f"{name}: Spark ended while it was working on this table",
                hint=f"see {state_folder}/logs/spark.log, then run again",
            ) from None
        raise


def is_session_lost(error: BaseException | None) -> bool:
    """Whether the JVM or the Connect server of a session has ended, by an error and its causes."""
    while error is not None:
        lost = {"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"}
        if type(error).__name__ in lost or "StatusCode.UNAVAILABLE" in message_of(error):
            return True
        error = error.__cause__ or error.__context__
    return False
