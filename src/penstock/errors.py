"""One tree of errors: every error has a code, a hint, and says whether a retry can help.

A message names what is wrong and where; it never carries a secret or a value from the user's rows.
The exit code is 2 when the command, the project file or a definition is wrong (nothing was tried), and 1 when work failed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.results import ItemResult, RunResult


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a user's file; lines and columns count from 1."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [self.file]
        if self.line is not None:
            parts.append(str(self.line))
            if self.column is not None:
                parts.append(str(self.column))
        return ":".join(parts)


def message_of(error: BaseException) -> str:
    """The message of an error; empty when the error's own code fails to give one."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever a user's exception raises in turn
        return ""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, shortened; its type when the message is empty."""
    lines = [line.strip() for line in message_of(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


class PenstockError(Exception):
    """The base of every error that a user may see."""

    code = "error"
    exit_code = 1
    retryable = False
    failed_parts: tuple[str, ...] = ()
    """The partitions that failed, where others of the same job run did not."""

    def __init__(self, message: str, *, hint: str | None = None, location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.location = location

    @property
    def text(self) -> str:
        """What is wrong and where, without the hint."""
        return f"{self.location}: {self.message}" if self.location else self.message

    @property
    def parts(self) -> tuple[PenstockError, ...]:
        """The errors to show, one by one: itself, unless it stands for several."""
        return (self,)

    def __str__(self) -> str:
        """With the hint: in a notebook, this is all that a user sees."""
        return f"{self.text}\nhint: {self.hint}" if self.hint else self.text


@contextmanager
def located(location: Location | None) -> Iterator[None]:
    """Add a place to errors of the block that have none."""
    try:
        yield
    except PenstockError as error:
        error.location = error.location or location
        raise


class UsageError(PenstockError):
    """The command asks for something that does not exist or does not make sense."""

    code = "usage"
    exit_code = 2


class ConfigError(PenstockError):
    """penstock.yml, a target or an override is wrong."""

    code = "config"
    exit_code = 2


class DefinitionError(PenstockError):
    """A definition file cannot be used: syntax, cycle, duplicate name, unknown input, exception while loading."""

    code = "definition"
    exit_code = 2


class SeveralDefinitionsError(DefinitionError):
    """Several definitions cannot be used: each of `errors` says which one, and why."""

    def __init__(self, errors: Sequence[DefinitionError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = tuple(errors)

    @property
    def parts(self) -> tuple[PenstockError, ...]:
        """The errors of the definitions."""
        return self.errors


class UserCodeError(PenstockError):
    """The user's function or query failed while running."""

    code = "user_code"


class UnplannedReadError(UserCodeError):
    """A definition read a dataset that is not one of its known inputs."""

    code = "unplanned_read"


class ExpectationError(PenstockError):
    """Rows failed an `expect_or_fail` expectation; nothing was written."""

    code = "expectation_failed"


class RawFileError(PenstockError):
    """A raw file cannot be read or does not fit its table."""

    code = "raw_file"


class FeedError(PenstockError):
    """A change feed does not have the columns that its envelope should have."""

    code = "change_feed"


class SourceError(PenstockError):
    """A table of another system cannot be reached or read, or holds what cannot be loaded exactly."""

    code = "source"

    def __init__(
        self, message: str, *, hint: str | None = None, location: Location | None = None, retryable: bool = False
    ) -> None:
        super().__init__(message, hint=hint, location=location)
        self.retryable = retryable


class StorageError(PenstockError):
    """A folder or object store cannot be read or written."""

    code = "storage"


class RewriteError(PenstockError):
    """A file cannot be written again without some of its records and everything else kept; it was left as it is."""

    code = "rewrite"


class EventLogError(PenstockError):
    """The event log cannot be opened, read or written."""

    code = "event_log"


class SessionError(PenstockError):
    """Spark cannot be started or reached, or is not configured for Delta."""

    code = "session"


class ConcurrentRunError(PenstockError):
    """Another run has locked the project, or changed the table meanwhile."""

    code = "concurrent_run"
    retryable = True


class TakenOverError(PenstockError):
    """Another build has taken over what this one was building, so that none of it may be written any more."""


class CancelledError(PenstockError):
    """The job run was cancelled, or took too long: nothing more may be written."""

    code = "cancelled"


class ChangeFlowError(PenstockError):
    """Change events cannot be applied: the flow is declared wrongly, or does not fit the source or the target."""

    code = "change_flow"

    def __init__(self, code: str, message: str, *, hint: str | None = None, location: Location | None = None) -> None:
        super().__init__(message, hint=hint, location=location)
        self.code = f"change_flow.{code}"


class BadChangesError(ChangeFlowError):
    """Rows of a batch cannot be applied; nothing was written. `samples` has a few of their keys, which no message shows."""

    def __init__(self, message: str, samples: tuple[object, ...], *, hint: str | None = None) -> None:
        super().__init__("bad_rows", message, hint=hint)
        self.samples = samples


class PlainLoadError(PenstockError):
    """A frame cannot be loaded into a table: it is of a wrong type, does not fit, or the table belongs to somebody else."""

    code = "plain_load"

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = f"plain_load.{code}"


class VerificationError(PenstockError):
    """What was written differs from what was expected; the load is reported as failed."""

    code = "verification"


class StoppedError(KeyboardInterrupt):
    """Ctrl-C or SIGTERM stopped what was running.

    Not a PenstockError: it must pass everything that keeps the failure of one dataset from the others.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped by {'Ctrl-C' if number == signal.SIGINT else signal.Signals(number).name}")
        self.exit_code = 128 + number
        self.is_told = False
        """Whether the user has been told."""
        self.items: tuple[ItemResult, ...] | None = None
        self.result: RunResult | None = None
        """What a pipeline run had done until then, and what was cancelled."""


def to_stopped(error: KeyboardInterrupt) -> StoppedError:
    """An interrupt as a value that says by what, and what was done until then."""
    return error if isinstance(error, StoppedError) else StoppedError()
