"""Short ways to scan a folder in tests."""

from __future__ import annotations

from pathlib import Path

from penstock.maintenance.scan.needles import NOBODY, Column, Needle, Role, Survivors, parse_column
from penstock.maintenance.scan.places import FolderPlace
from penstock.maintenance.scan.results import ScanResult
from penstock.maintenance.scan.scanner import scan_for_residue
from penstock.storage.local import LocalFiles

ANN = "ann.miller@example.org"
PLACE = "storage"


def needle(text: str, *values: object, columns: tuple[str | Column, ...] = (), role: Role = Role.KEY) -> Needle:
    """A needle whose columns are given by name."""
    declared = tuple(parse_column(column) if isinstance(column, str) else column for column in columns)
    return Needle(text, values, declared, role)


def scan(folder: Path, *needles: Needle | str, survivors: Survivors = NOBODY, workers: int | None = 2) -> ScanResult:
    """Scan a folder for needles; a plain text is a key without columns."""
    given = [each if isinstance(each, Needle) else needle(each) for each in needles]
    return scan_for_residue(given, [FolderPlace(PLACE, LocalFiles(folder))], survivors, workers=workers)


def found_in(result: ScanResult) -> set[tuple[str, int]]:
    """The files with a hit, and the needle of each."""
    return {(hit.file, hit.needle) for hit in result.hits}


def check_readable(result: ScanResult) -> None:
    """Everything was read and decoded."""
    assert result.unreadable == ()
    assert result.undecoded == ()
