"""Rows of a database, read by SQL: texts are searched, declared columns compared, like columns of a file."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.maintenance.scan.arrow_columns import ArrowScan
from penstock.maintenance.scan.findings import Findings

ROWS_AT_ONCE = 5000


def scan_rows(table: str, names: Sequence[str], rows: Sequence[Sequence[object]], findings: Findings) -> int:
    """Search some rows of a table; gives how many bytes of text they had."""
    arrow = ArrowScan(findings)
    searched = 0
    for place, name in enumerate(names):
        path, where = (table.lower(), name.lower()), f"table {table}, column {name}"
        values = [row[place] for row in rows if row[place] is not None]
        texts = [value.encode(errors="surrogatepass") for value in values if isinstance(value, str)]
        texts += [bytes(value) for value in values if isinstance(value, bytes | bytearray | memoryview)]
        searched += sum(map(len, texts))
        if texts:
            arrow.scan_leaf(pa.array(texts, pa.large_binary()), path, where)
        declared = findings.columns.at(path)
        for value in (
            {value for value in values if not isinstance(value, str | bytes | list | dict)} if declared else ()
        ):
            for column in declared:
                findings.add_values(where, column.find(value))
    return searched
