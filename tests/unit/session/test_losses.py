"""How the end of a Spark session is told from other errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import SessionError, UserCodeError
from penstock.model.names import DatasetName
from penstock.session.losses import is_session_lost, loss_of_session_named

NAME = DatasetName("main", "totals")


class SilentError(Exception):
    """A user's exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_cause_that_cannot_be_shown_leaves_the_error_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UserCodeError, match="totals failed") as caught, loss_of_session_named(NAME, tmp_path):
        raise UserCodeError("totals failed") from SilentError()
    assert caught.value.code == "user_code"


def test_a_lost_session_is_found_among_the_causes(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="Spark ended"), loss_of_session_named(NAME, tmp_path):
        raise UserCodeError("totals failed") from ConnectionRefusedError()
    assert is_session_lost(RuntimeError("StatusCode.UNAVAILABLE"))
