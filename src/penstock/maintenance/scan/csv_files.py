"""CSV files with a header: the cells of declared columns are compared, and cells that are JSON are looked into."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence

from penstock.maintenance.scan.columns import Values
from penstock.maintenance.scan.findings import Findings
from penstock.maintenance.scan.json_text import JsonScan
from penstock.maintenance.scan.sources import IN_MEMORY, Source, blocks
from penstock.maintenance.scan.text_files import open_text, text_lines

_DELIMITERS = ",;\t|"
_EXTENSIONS = (".csv", ".tsv", ".psv")


def scan_csv(source: Source, findings: Findings) -> bool:
    """Compare the declared columns of a CSV file; false when it is not one.

    Writers escape a quote by another one, or by a backslash, as Spark does: a file with backslashes is read both ways.
    """
    with open_text(source) as stream:
        header = next(text_lines(stream), "").rstrip("\r\n")
    if not findings.columns.declared or header.lstrip()[:1] in {"{", "["}:
        return False
    csv.field_size_limit(IN_MEMORY)
    delimiter = max(_DELIMITERS, key=header.count)
    names = next(csv.reader([header], delimiter=delimiter), [])
    wanted = {place: values for place, name in enumerate(names) if (values := _columns_at(name, findings))}
    if not wanted and not source.name.lower().endswith(_EXTENSIONS):
        return False
    with source.open() as stream:
        has_backslashes = any(b"\\" in block for _, block, _ in blocks(stream, 0))
    for escape in (None, "\\") if has_backslashes else (None,):
        with open_text(source) as stream:
            rows = csv.reader(
                text_lines(stream), delimiter=delimiter, escapechar=escape, doublequote=escape is None, strict=False
            )
            _compare(rows, names, wanted, findings)
    return True


def _columns_at(name: str, findings: Findings) -> tuple[Values, ...]:
    return findings.columns.at(tuple(part.strip().lower() for part in name.split(".")))


def _compare(
    rows: Iterable[Sequence[str]], names: Sequence[str], wanted: Mapping[int, Sequence[Values]], findings: Findings
) -> None:
    scan = JsonScan(findings, "")
    for row in rows:
        for place, columns in wanted.items():
            for values in columns if place < len(row) else ():
                findings.add_values(f"column {names[place]}", values.find(row[place]))
        for place, cell in enumerate(row):
            if cell[:1] in {"{", "["}:
                name = names[place] if place < len(names) else str(place + 1)
                scan.where = f"column {name}"
                scan.scan(cell, (name,))
