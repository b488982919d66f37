"""What an error shows: what is wrong, where, and what to do."""

from __future__ import annotations

from penstock.errors import ChangeFlowError, Location, PenstockError, first_line


def test_the_text_of_an_error_has_its_hint_since_a_notebook_shows_nothing_else() -> None:
    error = ChangeFlowError("target", "wrong", hint="do this", location=Location("a.py", 3))
    assert str(error) == "a.py:3: wrong\nhint: do this"
    assert (error.text, error.message, first_line(error)) == ("a.py:3: wrong", "wrong", "a.py:3: wrong")
    assert str(PenstockError("wrong")) == "wrong"
