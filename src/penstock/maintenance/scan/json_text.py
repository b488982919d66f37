"""JSON texts: needles as values of declared columns, and truncated statistics of Delta's log, at any depth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from penstock.maintenance.scan.columns import Path
from penstock.maintenance.scan.findings import Findings

_STATISTICS = frozenset({"minValues", "maxValues"})
_MOST_NESTED = 4
_KEY = re.compile(rb'"\s*:')


def is_wanted(findings: Findings) -> bool:
    """Whether parsing JSON can find what a search of its text does not."""
    return bool(findings.columns.declared or findings.searcher.beginnings)


def may_hold(findings: Findings, block: bytes) -> bool:
    """Whether texts in a block can be JSON with something that only parsing finds."""
    if not is_wanted(findings) or not _KEY.search(block):
        return False
    if findings.searcher.beginnings and b"Values" in block:
        return True
    lower = block.lower()
    return any(name.encode() in lower for name in findings.columns.names)


class JsonScan:
    """Looks into the objects of JSON texts."""

    def __init__(self, findings: Findings, where: str) -> None:
        self._findings = findings
        self._depth = 0
        self._decoder = json.JSONDecoder(object_hook=self._see)
        self.where = where

    def scan(self, text: str, path: Path = ()) -> bool:
        """Look into a text; false when it is not JSON. A text that is the value of a column has its path."""
        try:
            value = self._decoder.decode(text)
        except (ValueError, RecursionError):
            return False
        for name in reversed(path):
            value = {name: value}
            self._findings.add_values(self.where, self._findings.columns.find_in_object(value))
        return True

    def _see(self, record: dict[str, Any]) -> dict[str, Any]:
        """Called for every object, the inner ones first."""
        findings = self._findings
        if findings.columns.declared:
            findings.add_values(self.where, findings.columns.find_in_object(record))
        if findings.searcher.beginnings:
            for name in _STATISTICS & record.keys():
                for statistic in _texts(record[name]):
                    findings.check_statistic(f"{self.where}, statistics", statistic)
        for name, value in record.items():
            if isinstance(value, str) and value[:1] in {"{", "["} and self._depth < _MOST_NESTED:
                self._depth += 1
                self.scan(value, (name,))
                self._depth -= 1
        return record


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for below in value.values():
            yield from _texts(below)
    elif isinstance(value, list):
        for below in value:
            yield from _texts(below)
