"""Which event log the tables of a storage belong to: claims mean nothing between builds that record them in different logs.

The storage names a build, and its log is the one that knows this build. A copy of the log knows it too, so a log can be moved. A
log that only one machine can see may be left for another; one that machines share may not: the numbers of tables still keep
rows right, but two builds would do the same work, and fail.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import asdict, dataclass

from penstock.errors import ConfigError
from penstock.eventlog import projections
from penstock.eventlog.contract import EventLog
from penstock.storage.files import Files
from penstock.storage.local import LocalFiles, is_misplaced

PLACE = "_penstock/event_log.json"
_LOCAL = ("sqlite:", "memory:")
_LOGGER = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class Owner:
    """The log of a storage, without credentials, and a build that it knows."""

    event_log: str
    build_request_id: str
    format: int = 1


def check_log(storage: Files, log: EventLog) -> None:
    """ConfigError when the storage belongs to another log that machines share; writes nothing."""
    with suppress(_UnreadableError):
        owner = _read(storage)
        if owner is not None:
            _refuse_other(storage, log, owner)


def take_ownership(storage: Files, log: EventLog, build_request_id: str) -> None:
    """Record that the storage belongs to this log, if nobody has; ConfigError when another build has just done so.

    When it cannot be read whose it is, it belongs to this log from now on: rows are right in any case, and no table must wait.
    """
    ours = Owner(log.uri, build_request_id)
    try:
        owner = _read(storage) or _write(storage, ours)
    except _UnreadableError:
        _LOGGER.warning("%s/%s could not be read: the tables belong to %s from now on", storage.uri, PLACE, log.uri)
        _replace(storage, ours)
        return
    if owner is None or _knows(log, owner):
        return
    _refuse_other(storage, log, owner)
    if not log.uri.startswith("memory:"):
        text = "the tables in %s belonged to the event log %s until now; its builds are not seen here"
        _LOGGER.warning(text, storage.uri, owner.event_log)
        _replace(storage, ours)


def _refuse_other(storage: Files, log: EventLog, owner: Owner) -> None:
    if not owner.event_log.startswith(_LOCAL) and not _knows(log, owner):
        raise ConfigError(
            f"the tables in {storage.uri} belong to the event log {owner.event_log}, and this run uses {log.uri}",
            hint=f"use that log, or move it with `penstock log copy`; if it is gone, remove {PLACE} from the storage",
        )


def _knows(log: EventLog, owner: Owner) -> bool:
    return projections.build_state(log, owner.build_request_id, strict=True) is not None


class _UnreadableError(Exception):
    """What is in the place of the file does not name a log."""


def _write(storage: Files, owner: Owner) -> Owner | None:
    """Record the owner; gives the one that was recorded just before, if there is one."""
    try:
        storage.create(PLACE, json.dumps(asdict(owner)).encode())
    except FileExistsError:
        return _read(storage)
    return None


def _replace(storage: Files, owner: Owner) -> None:
    """Record the owner in place of another; of two builds that do so at once, either may win."""
    if isinstance(storage, LocalFiles) and storage.is_folder(PLACE):
        storage.remove_folder(PLACE)
    else:
        storage.remove(PLACE)
    with suppress(FileExistsError):
        storage.create(PLACE, json.dumps(asdict(owner)).encode())


def _read(storage: Files) -> Owner | None:
    try:
        value = json.loads(storage.read(PLACE))
        return Owner(str(value["event_log"]), str(value["build_request_id"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if not is_misplaced(error):
            raise
        raise _UnreadableError from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _UnreadableError from None
