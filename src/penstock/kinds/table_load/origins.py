"""Whether a load still reads the table that it read before: what is really read counts, not how it is reached. Pure."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from pathlib import Path

from penstock.databases.contract import Look
from penstock.kinds.table_load.progress import LoadProgress
from penstock.model.fingerprint import fingerprint

_SIZE = 12


def to_origin(look: Look | None, root: Path) -> dict[str, str]:
    """What is read, for the progress: fingerprints, because an address is nobody else's business. Empty when it is not known.

    A file in the project is known by its path there, so that a project can be moved with its files.
    """
    found = look.origin if look is not None else None
    if found is None:
        return {}
    place = found.address
    if place is not None and os.path.isabs(place):  # noqa: PTH117 - a path, or the hosts of a server
        inside = os.path.relpath(place, os.path.realpath(root))
        place = place if inside.startswith("..") else inside
    parts = {"table": found.table, "server": found.server, "address": place}
    return {name: fingerprint(part, size=_SIZE) for name, part in parts.items() if part is not None}


def is_same_source(payload: LoadProgress, declared: str, origin: Mapping[str, str]) -> bool:
    """Whether progress is that of this source. Where one of both does not say what is read, the declaration decides."""
    known = payload.origin
    if not known or not origin:
        return payload.source == declared
    if known.get("table") != origin.get("table"):
        return False
    by = "server" if known.get("server") and origin.get("server") else "address"
    return known.get(by) == origin.get(by)
