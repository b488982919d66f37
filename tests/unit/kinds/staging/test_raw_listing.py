"""Which raw files belong to which staging table."""

from __future__ import annotations

import os

import pytest

from penstock.errors import StorageError
from penstock.kinds.staging.raw_files import RawListing, hash_content, list_raw
from penstock.storage.local import LocalFiles

BY_TABLE = "{table}/{batch}.parquet"
BY_BATCH = "{batch}/{table}.parquet"


def _list(raw: LocalFiles, layout: str, paths: str) -> RawListing:
    for path in paths.split():
        file = raw.root / path
        if path.endswith("/"):
            file.mkdir(parents=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x")
    return list_raw(raw, layout)


@pytest.mark.parametrize(
    ("layout", "paths", "tables"),
    [
        (BY_TABLE, "", {}),
        (BY_TABLE, "orders/2.parquet orders/1.parquet", {"orders": "orders/1.parquet orders/2.parquet"}),
        (BY_TABLE, "b/1.parquet a/1.parquet", {"a": "a/1.parquet", "b": "b/1.parquet"}),
        (BY_TABLE, "empty/", {"empty": ""}),
        (BY_TABLE, "orders/notes.txt orders/1.xml", {"orders": ""}),
        (BY_TABLE, "t/1.csv t/2.CSV.GZ t/3.tsv.zst t/.4.csv", {"t": "t/1.csv t/2.CSV.GZ t/3.tsv.zst"}),
        (BY_TABLE, "t/1.jsonl t/2.ndjson.bz2 t/3.json", {"t": "t/1.jsonl t/2.ndjson.bz2 t/3.json"}),
        (BY_BATCH, "1/a.csv 2/a.parquet 2/.csv", {"a": "1/a.csv 2/a.parquet"}),
        (BY_TABLE, "Orders/1.parquet", {"orders": "Orders/1.parquet"}),
        (BY_BATCH, "", {}),
        (BY_BATCH, "1/a.parquet 2/a.parquet 2/b.parquet", {"a": "1/a.parquet 2/a.parquet", "b": "2/b.parquet"}),
        (BY_BATCH, "empty/", {}),
        (BY_BATCH, "2024-01-01/orders.parquet", {"orders": "2024-01-01/orders.parquet"}),
        (BY_BATCH, "1/a.parquet.crc 1/_SUCCESS", {}),
        # hidden at any level: what a writer has not finished
        (BY_TABLE, ".git/1.parquet _tmp/1.parquet", {}),
        (BY_TABLE, "a/.1.parquet a/_1.parquet a/1.parquet", {"a": "a/1.parquet"}),
        (BY_TABLE, "a/_temporary/0/1.parquet", {"a": ""}),
        (BY_BATCH, "_tmp/a.parquet .x/a.parquet 1/_a.parquet", {}),
    ],
)
def test_files_are_found_by_layout(layout: str, paths: str, tables: dict[str, str], raw: LocalFiles) -> None:
    listing = _list(raw, layout, paths)
    assert {name: " ".join(file.path for file in files) for name, files in listing.tables.items()} == tables
    assert (listing.bad_names, listing.ignored) == ((), ())


@pytest.mark.parametrize(
    ("layout", "paths", "ignored"),
    [
        (BY_TABLE, "a/1.parquet loose.parquet a/deep/1.parquet", ("a/deep/1.parquet", "loose.parquet")),
        (BY_BATCH, "1/a.parquet loose.parquet 1/deep/a.parquet", ("1/deep/a.parquet", "loose.parquet")),
    ],
)
def test_parquet_files_that_do_not_fit_the_layout_are_told(
    layout: str, paths: str, ignored: tuple[str, ...], raw: LocalFiles
) -> None:
    listing = _list(raw, layout, paths)
    assert listing.ignored == ignored
    assert list(listing.tables) == ["a"]


@pytest.mark.parametrize("layout", [BY_TABLE, BY_BATCH])
def test_what_is_no_file_but_has_the_name_of_one_is_told(layout: str, raw: LocalFiles) -> None:
    _list(raw, layout, "a/1.parquet a/2.parquet/ a/3.parquet/part.parquet a/_4.parquet/ a/other/")
    os.mkfifo(raw.root / "a/5.csv")
    os.mkfifo(raw.root / "a/_6.csv")
    (raw.root / "a/deep").mkdir()
    (raw.root / "a/deep/7.csv").symlink_to("nowhere")
    ignored = ("a/2.parquet (a folder)", "a/3.parquet/part.parquet", "a/5.csv (not a file)", "a/deep/7.csv")
    assert list_raw(raw, layout).ignored == ignored


@pytest.mark.parametrize(
    ("layout", "links", "unlisted"),
    [
        (BY_TABLE, "a b/2.parquet _c .d notes.txt loose.csv b/notes b/_3.parquet", "a b"),
        (BY_BATCH, "1/a.parquet b.csv _2 1/_c.csv 1/notes", "a"),
    ],
)
def test_a_link_that_leads_nowhere_is_not_taken_for_what_was_removed(
    layout: str, links: str, unlisted: str, raw: LocalFiles
) -> None:
    _list(raw, layout, "b/ 1/")
    for link in links.split():
        (raw.root / link).symlink_to("/no_such_mount")
    listing = list_raw(raw, layout)
    assert " ".join(sorted(listing.unlisted)) == unlisted
    assert listing.unlisted.keys() <= listing.tables.keys()


def test_a_batch_that_leads_nowhere_could_have_files_of_every_table(raw: LocalFiles) -> None:
    (raw.root / "2024").symlink_to("2024")
    with pytest.raises(StorageError, match="2024 is a link that leads nowhere"):
        list_raw(raw, BY_BATCH)


@pytest.mark.parametrize(
    ("layout", "paths", "bad"),
    [
        (BY_TABLE, "my-orders/1.parquet a/1.parquet", ("my-orders",)),
        (BY_TABLE, "1st/ a/", ("1st",)),
        (BY_TABLE, "x.y/ X.Y/ a/", ("X.Y", "x.y")),
        (BY_TABLE, f"{'n' * 121}/ a/", ("n" * 121,)),
        (BY_BATCH, "1/my-orders.parquet 1/a.parquet", ("my-orders",)),
    ],
)
def test_names_that_cannot_be_a_table_are_told(layout: str, paths: str, bad: tuple[str, ...], raw: LocalFiles) -> None:
    listing = _list(raw, layout, paths)
    assert (listing.bad_names, listing.colliding) == (bad, {})
    assert list(listing.tables) == ["a"]


@pytest.mark.parametrize(
    ("layout", "paths"),
    [
        (BY_TABLE, "Orders/1.parquet orders/1.parquet a/"),
        (BY_TABLE, "Orders/1.parquet orders/ a/"),
        (BY_BATCH, "1/Orders.parquet 2/orders.parquet 1/a.parquet"),
    ],
)
def test_names_that_differ_by_case_only_are_told(layout: str, paths: str, raw: LocalFiles) -> None:
    listing = _list(raw, layout, paths)
    assert (listing.bad_names, listing.colliding) == ((), {"orders": ("Orders", "orders")})
    assert list(listing.tables) == ["a"]


def test_a_raw_folder_that_is_not_there_lists_as_empty(raw: LocalFiles) -> None:
    assert list_raw(LocalFiles(raw.root / "missing"), BY_TABLE) == RawListing({})


def test_the_hash_tells_content_apart_whatever_the_size(raw: LocalFiles) -> None:
    contents = {"a": b"", "b": b"x" * 3_000_000, "c": b"x" * 2_999_999 + b"y", "d": b"x" * 3_000_000}
    for path, content in contents.items():
        (raw.root / path).write_bytes(content)
    hashes = {path: hash_content(raw, path) for path in contents}
    assert hashes["b"] == hashes["d"]
    assert len(set(hashes.values())) == 3
