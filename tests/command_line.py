"""The command line in this process: what a user types, what comes out, without starting a JVM."""

from __future__ import annotations

import contextvars
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.telemetry.logs import LOGGER


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Penstock = Callable[..., Answer]


@pytest.fixture
def penstock(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Penstock]:
    """Runs a command; what it changed in this process is put back afterwards."""
    for name in ("NO_COLOR", "FORCE_COLOR", "PENSTOCK__EVENT_LOG"):
        monkeypatch.delenv(name, raising=False)
    imports, handlers = list(sys.meta_path), LOGGER.handlers[:]

    def run(*arguments: str) -> Answer:
        with pytest.raises(SystemExit) as caught:
            contextvars.copy_context().run(main, list(arguments))
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        code = caught.value.code
        assert isinstance(code, int)
        return Answer(code, said.out, said.err)

    yield run
    sys.meta_path[:] = imports
    LOGGER.handlers[:] = handlers
