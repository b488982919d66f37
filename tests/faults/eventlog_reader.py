"""A process that may only read a log: asks everything, tries to change it, and reads again for every line on stdin."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable

from contract.answers_of import all_answers
from contract.events import generated_history
from penstock.errors import PenstockError
from penstock.eventlog.contract import AppendError, EventLog
from penstock.eventlog.opening import open_event_log

HISTORY = generated_history(300)
LATER = generated_history(10, seed=9)


def answers_hash(log: EventLog) -> str:
    """All answers about the history as one value."""
    return hashlib.sha256(json.dumps(all_answers(log, HISTORY), sort_keys=True).encode()).hexdigest()


def main() -> None:
    uri, user = sys.argv[1], int(sys.argv[2])
    with open_event_log("memory://") as rehearsal:  # imports everything while this process still may
        rehearsal.append(HISTORY)
        answers_hash(rehearsal)
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    try:
        log = open_event_log(uri)
    except PenstockError as error:
        _say({"error": type(error).__name__, "message": str(error), "hint": error.hint})
        return
    with log:
        _say({"answers": answers_hash(log), "uri": log.uri, "append": _append(log), **_changes(log)})
        for _ in sys.stdin:
            _say({"events": len(log.read(strict=True))})


def _append(log: EventLog) -> object:
    try:
        log.append(LATER)
    except AppendError as error:
        return {"message": str(error), "hint": error.hint, "events": len(error.events)}
    return "done"


def _changes(log: EventLog) -> dict[str, str]:
    found = {}
    changes: dict[str, Callable[[], object]] = {
        "migrate": lambda: log.migrate(1),
        "remove": lambda: log.remove([log.read()[0].position]),
    }
    for name, change in changes.items():
        try:
            change()
        except PenstockError as error:
            found[name] = f"{type(error).__name__}: {error}"
        else:
            found[name] = "done"
    return found


def _say(value: object) -> None:
    sys.stdout.write(f"{json.dumps(value)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
