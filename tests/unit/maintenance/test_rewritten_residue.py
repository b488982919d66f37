"""The residue scan finds nothing of a person in a rewritten file, in whatever form it was written."""

from __future__ import annotations

import gzip
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.parquet_files import find_ids
from tests.scanning import ANN, check_readable, found_in, scan

from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.replacing import replace
from penstock.maintenance.files.text import rewrite_text
from penstock.maintenance.files.text_format import TextFormat
from penstock.storage.local import LocalFiles

OTHERS = [f"someone{number}@example.org" for number in range(60)]
PEOPLE = [*OTHERS[:30], ANN, *OTHERS[30:]]
FORMS: dict[str, dict[str, Any]] = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "version 2 and page index": {"data_page_version": "2.0", "write_page_index": True},
    "small pages": {"data_page_size": 64, "use_dictionary": False, "write_page_index": True},
    "bloom filter": {"bloom_filter_options": {"id": {"ndv": 100}}},
    "delta": {"use_dictionary": False, "column_encoding": {"id": "DELTA_BYTE_ARRAY"}},
}


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("form", FORMS)
def test_parquet(raw: LocalFiles, form: str, codec: str) -> None:
    categories = pa.array(PEOPLE).dictionary_encode()
    rows = pa.table({"id": PEOPLE, "also": categories, "tags": [[each] for each in PEOPLE]})
    pq.write_table(rows, raw.root / "a.parquet", row_group_size=20, compression=codec, **FORMS[form])
    assert found_in(scan(raw.root, ANN)) == {("a.parquet", 0)}
    replace(raw, rewrite_parquet(raw, "a.parquet", ["id"], find_ids(ANN)))
    result = scan(raw.root, ANN)
    assert found_in(result) == set()
    check_readable(result)


def test_text(raw: LocalFiles) -> None:
    content = "".join(f'{{"id": "{each}"}}\n' for each in PEOPLE).encode()
    (raw.root / "a.json.gz").write_bytes(gzip.compress(content))
    assert found_in(scan(raw.root, ANN)) == {("a.json.gz", 0)}
    replace(raw, rewrite_text(raw, "a.json.gz", TextFormat(), lambda row: row["id"] == ANN))
    assert found_in(scan(raw.root, ANN)) == set()
