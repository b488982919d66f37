"""Making frozen values fast: reading a log makes two of them per event, and that was half of the time.

The constructor of a frozen dataclass sets each field with a call of `object.__setattr__`. A draft has the same fields but
is not frozen, so that they are simply assigned; then the same object becomes the value:

    draft = EventDraft()
    draft.event_id = ...                # every field: a draft knows no defaults
    draft.__class__ = Event             # from here on it is an `Event`, and frozen

A value made this way cannot be told from one made by its constructor.
"""

from __future__ import annotations

from typing import Any


def draft_of(kind: type[Any]) -> Any:
    """The class of drafts of a frozen dataclass with slots; a class that cannot be made this way is refused here."""
    draft = type(f"{kind.__name__}Draft", (), {"__slots__": kind.__slots__})
    draft().__class__ = kind
    return draft
