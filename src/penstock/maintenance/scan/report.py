"""Adds up what was found in all files to the result of a scan; every path goes through the names, which mask values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.names import Names
from penstock.maintenance.scan.results import Hit, MethodCount, Note, PlaceCount, ScanResult, Search


class Report:
    """What is known so far."""

    def __init__(self, names: Names, hits: Sequence[Hit]) -> None:
        self._names = names
        self._hits = list(hits)
        self._inside: list[Hit] = []
        self._unreadable: list[Note] = []
        self._undecoded: list[Note] = []
        self._methods: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._places: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, place: str, path: str, findings: Findings) -> None:
        """What was found in a file, or in a part of it."""
        label = self._names.label(place, path)
        self._hits += [Hit(place, label, where, needle, form) for (where, needle), form in findings.hits.items()]
        self._inside += [Hit(place, label, where, needle, form) for (where, needle), form in findings.inside.items()]
        self._undecoded += [Note(place, label, reason) for reason in dict.fromkeys(findings.undecoded)]
        for method, count in findings.methods.items():
            for total in (self._methods[method], self._places[place]):
                total[0] += 1
                total[1] += count

    def add_unreadable(self, place: str, path: str, reason: str) -> None:
        """A file or folder of which nothing is known."""
        self._unreadable.append(Note(place, self._names.label(place, path), reason))

    def add_undecoded(self, place: str, path: str, reason: str) -> None:
        """A file of which something is not known."""
        self._undecoded.append(Note(place, self._names.label(place, path), reason))

    def _count(self, place: str) -> tuple[int, int]:
        files, size = self._places[place]
        return files, size

    def to_result(
        self, places: Sequence[str], missing: frozenset[str], needles: tuple[Search, ...], seconds: float
    ) -> ScanResult:
        """The result, in an order that does not depend on threads."""
        return ScanResult(
            hits=tuple(sorted(self._hits, key=_order)),
            inside=tuple(sorted(self._inside, key=_order)),
            unreadable=tuple(sorted(self._unreadable, key=_order_of_note)),
            undecoded=tuple(sorted(self._undecoded, key=_order_of_note)),
            places=tuple(PlaceCount(name, *self._count(name), exists=name not in missing) for name in places),
            methods=tuple(
                MethodCount(method, counts[0], counts[1]) for method, counts in sorted(self._methods.items())
            ),
            needles=needles,
            names=self._names.count,
            seconds=seconds,
        )


def _order(hit: Hit) -> tuple[str, str, str, int, str]:
    return hit.place, hit.file, hit.where, hit.needle, hit.form


def _order_of_note(note: Note) -> tuple[str, str, str]:
    return note.place, note.file, note.reason
