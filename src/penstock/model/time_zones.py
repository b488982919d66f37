"""Time zones by their names in the IANA database."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.model.nearest import did_you_mean

ZONE_HINT = "use a name of the IANA database, such as Europe/Berlin"


def find_zone(name: str) -> tzinfo:
    """The time zone of a name; ValueError when there is none, with the name that may be meant."""
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        from zoneinfo import available_timezones  # reads a folder: only once something is wrong

        raise ValueError(f"unknown time zone {name!r}{did_you_mean(name, available_timezones())}") from None
