"""The nearest known name, so that an error about a typo can suggest what was meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_names(name: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """Find the known names that look most like this one, best first; case does not matter."""
    from difflib import get_close_matches  # only needed once something is wrong

    by_lower_case: dict[str, str] = {}
    for candidate in known:
        by_lower_case.setdefault(candidate.lower(), candidate)
    return [by_lower_case[match] for match in get_close_matches(name.lower(), by_lower_case, limit, 0.6)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: `; did you mean `storage`?`, or nothing when no known name is near."""
    matches = nearest_names(name, known, limit=1)
    return f"; did you mean `{matches[0]}`?" if matches else ""


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return the start of a hint: `did you mean 'orders'? `, or nothing when no known name is near."""
    matches = nearest_names(name, known, limit=1)
    return f"did you mean {matches[0]!r}? " if matches else ""
