"""Finding keys of every type and form in files of every format, and removing exactly their records."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import RewriteError
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.sources.rewriting import Rewriter
from penstock.maintenance.sources.searching import Search
from penstock.model.changes import FeedFiles
from penstock.model.keys import KeyColumn, NormalForm
from penstock.model.names import DatasetName
from penstock.model.tombstones import SuppressedKeys, Tombstone
from penstock.storage.files import open_files
from penstock.transforms.key_hashes import hash_text, key_text, to_pads
from penstock.transforms.key_match import TEXT, RecordKey, to_key_set

pytestmark = pytest.mark.spark

AT = dt.datetime(2024, 1, 5, 10, 0, 0, 120000, tzinfo=dt.UTC)
PARTS: dict[str, tuple[str, Any, NormalForm]] = {
    "text": ("string", 'a string, of more than 32 "characters" \\ \u00e9', NormalForm.EXACT),
    "small": ("int", 42, NormalForm.EXACT),
    "large": ("bigint", 2**60 + 1, NormalForm.EXACT),
    "money": ("decimal(20,4)", Decimal("1.5000"), NormalForm.EXACT),
    "ratio": ("double", 0.1, NormalForm.EXACT),
    "day": ("date", dt.date(2024, 1, 5), NormalForm.EXACT),
    "at": ("timestamp", AT, NormalForm.EXACT),
    "is it": ("boolean", True, NormalForm.EXACT),
    "bytes": ("binary", b"\x00\xff1", NormalForm.EXACT),
    "nothing": ("int", None, NormalForm.EXACT),
    "dotted.`name": ("string", "x", NormalForm.EXACT),
    "mail": ("string", "ann@example.org", NormalForm.LOWER),
    "name": ("string", "ann", NormalForm.TRIM),
    "who": ("string", "Zo\u00eb", NormalForm.NFC),
}
"""The columns of one long key: type, value and normal form."""
SAME: dict[str, Any] = {"mail": "Ann@Example.ORG", "name": "  ann ", "who": "Zoe\u0308"}
OTHER: dict[str, Any] = {
    "text": 'a string, of more than 32 "characters" \\ e', "small": 43, "large": 2**60, "money": Decimal("1.5001"),
    "ratio": 0.2, "day": dt.date(2024, 1, 6), "at": AT.replace(microsecond=120001), "is it": False, "bytes": b"\x00\xff2",
    "nothing": 0, "dotted.`name": "y", "mail": "bob@example.org", "name": "an n", "who": "Zoe",
}  # fmt: skip
KEY = tuple(KeyColumn(name, form) for name, (_, _, form) in PARTS.items())
VALUES = {name: value for name, (_, value, _) in PARTS.items()}
ROWS = [
    VALUES,
    {**VALUES, **SAME},
    *({**VALUES, name: value} for name, value in OTHER.items()),
    {**VALUES, "small": None},
]
GONE = 2


def find_text(spark: Any) -> str:
    schema = ", ".join(f"`{name.replace('`', '``')}` {type_}" for name, (type_, _, _) in PARTS.items())
    rows = spark.createDataFrame([tuple(VALUES.values())], schema)
    return str(rows.select(key_text(rows, KEY)).collect()[0][0])


def make_search(
    spark: Any, feed: FeedFiles, key: Sequence[KeyColumn], types: Sequence[str], texts: Sequence[str]
) -> Rewriter:
    names = tuple(frozenset({column.name.lower()}) for column in key)
    message_key = key[0].name if len(key) == 1 else None
    wanted = RecordKey(names, tuple(types), feed.format, dict(feed.options), feed.envelope, message_key, is_source=True)
    format_ = TextFormat.of_feed(feed, message_key) if feed.format != "parquet" else None
    return Rewriter(Search(spark, to_key_set(spark, key, texts), wanted, feed.schema), format_)


def rewritten(rewriter: Rewriter, folder: Path) -> dict[str, bytes]:
    """The new contents of the files that have the keys; Spark finds nothing in them."""
    files = open_files(str(folder))
    paths = [file.path for file in files.walk("")]
    done = rewriter.rewrite(files, rewriter.search.find(files, paths))
    rewriter.verify(files, done, open_files(str(folder.parent)), "copies")
    assert not list((folder.parent / "copies").iterdir())
    return {each.path: files.read(each.aside or "") for each in done}


def check_hashes(search: Search, file: Path) -> None:
    """By their hashes alone, the same keys are found."""
    files, paths = open_files(str(file.parent)), [file.name]
    texts = [row["text"] for row in search.keys.texts.collect()]
    found = search.find_suppressed(files, paths, to_suppressed(search, texts))
    assert found == {(text, text[::-1]) for text in texts}
    values = search.read_values(files, paths)
    assert {text for table in values for text in table[TEXT].to_pylist()} == set(texts)
    assert {tuple(table.column_names[1:]) for table in values} == {tuple(column.name for column in search.keys.key)}


def to_suppressed(search: Search, texts: Sequence[str]) -> SuppressedKeys:
    """Tombstones of these keys, and of one that nobody has; the id of each is the text of its key, backwards."""
    secret, key = b"a secret of the tests", search.keys.key
    rows = search.session.createDataFrame([(text,) for text in (*texts, "v6:nobody")], "text string")
    hashed = hash_text(search.session, rows["text"], to_pads("1", secret))
    found = rows.select("text", hashed.full.alias("full"), hashed.mark.alias("mark")).collect()
    table = DatasetName("main", "people")
    made = [Tombstone(t[::-1], "b", table, key, full, mark, "1", "r", "a", 1) for t, full, mark in found]
    return SuppressedKeys(key, "1", secret, tuple(made))


def to_json(row: Mapping[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        match value:
            case bytes():
                return base64.b64encode(value).decode()
            case dt.datetime():
                return value.astimezone(dt.timezone(dt.timedelta(hours=2))).isoformat()
            case dt.date():
                return value.isoformat()
            case Decimal():
                return float(value)
        return value

    return {name: plain(value) for name, value in row.items() if value is not None}


def to_csv(row: Mapping[str, Any]) -> str:
    def plain(value: Any) -> str:
        match value:
            case None:
                return ""
            case bool():
                return str(value).upper()
            case dt.datetime() | dt.date():
                return str(to_json({"v": value})["v"])
            case bytes():
                return value.decode("latin-1")
        text = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"' if isinstance(value, str) else text

    return ",".join(map(plain, row.values()))


def test_keys_of_every_type_and_form(spark: Any, tmp_path: Path) -> None:
    """One key with a part of each type: a record with another value in any one part stays."""
    text, types = find_text(spark), [type_ for type_, _, _ in PARTS.values()]
    lines = [json.dumps(to_json(row)) for row in ROWS]
    folder = tmp_path / "json" / "with a space+plus%20"
    folder.mkdir(parents=True)
    (folder / "a [1].json").write_text("\n".join(lines))
    (folder / "b.json").write_text("\n".join(lines[GONE:]) + "\nnull\n")
    found = rewritten(make_search(spark, FeedFiles("", "json"), KEY, types, [text]), tmp_path / "json")
    assert {path: content.decode() for path, content in found.items()} == {
        "with a space+plus%20/a [1].json": "\n".join(lines[GONE:])
    }

    csv_rows = [{**row, "bytes": {b"\x00\xff1": b"xy1", b"\x00\xff2": b"xy2"}[row["bytes"]]} for row in ROWS]
    lines = [",".join(f'"{name}"' for name in PARTS), *map(to_csv, csv_rows)]
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/a.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "csv/b.csv").write_text("small,other\n42,1\n")
    search = make_search(spark, FeedFiles("", "csv"), KEY, types, [text.replace("v8:0x00FF31", "v8:0x787931")])
    found = rewritten(search, tmp_path / "csv")
    assert {path: content.decode() for path, content in found.items()} == {
        "a.csv": "\n".join([lines[0], *lines[1 + GONE :]]) + "\n"
    }

    (tmp_path / "parquet").mkdir()
    table = pa.table({name: pa.array([row[name] for row in ROWS]) for name in PARTS if name != "nothing"})
    table = table.append_column("nothing", pa.array([row["nothing"] for row in ROWS], pa.int32()))
    nanoseconds = table.set_column(table.column_names.index("at"), "at", table["at"].cast(pa.timestamp("ns", "UTC")))
    pq.write_table(table, tmp_path / "parquet/a.parquet", row_group_size=2, coerce_timestamps="us")
    pq.write_table(nanoseconds, tmp_path / "parquet/b.parquet")
    pq.write_table(table, tmp_path / "parquet/c.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(table.slice(GONE), tmp_path / "parquet/d.parquet")
    rewriter = make_search(spark, FeedFiles("", "parquet"), KEY, types, [text])
    check_hashes(rewriter.search, tmp_path / "parquet/a.parquet")
    found = rewritten(rewriter, tmp_path / "parquet")
    assert sorted(found) == ["a.parquet", "b.parquet", "c.parquet"]
    for path, content in found.items():
        old = pq.read_table(tmp_path / "parquet" / path)
        assert pq.read_table(pa.BufferReader(content)).equals(old.slice(GONE)), path


ROW, ELSE = {"id": 42, "city": "Rome"}, {"id": 7, "city": "42"}
EVENTS = [
    ({"operation": "UPSERT", "data": ROW}, True),
    ({"operation": "DELETE", "data": {"id": 42}}, True),
    ({"operation": "INSERT", "data": ELSE, "id": 42}, False),
    ({"operation": "truncate", "data": ROW}, False),
    ({"operation": "TRUNCATE", "data": None}, False),
    ({"operation": "INSERT", "data": {"ID": 42.0}}, True),
]
DEBEZIUM = [
    ({"op": "c", "before": None, "after": ROW}, True),
    ({"op": "u", "before": ROW, "after": ELSE}, True),
    ({"op": "d", "before": ELSE, "after": None}, False),
    ({"op": "d", "before": ELSE, "after": None, "key": {"id": 42}}, True),
    ({"op": "d", "before": ELSE, "after": None, "key": json.dumps({"id": 42})}, True),
    ({"op": "d", "before": ELSE, "key": {"schema": {"x": 1}, "payload": {"id": 42}}}, True),
    ({"op": "d", "before": ELSE, "message_key": 42}, True),
    ({"op": "d", "before": ELSE, "message_key": "42"}, True),
    ({"op": "d", "before": ELSE, "message_key": 7}, False),
    ({"op": "d", "before": ELSE, "key": {"other": 42}}, False),
    ({"op": "t", "before": None, "after": None, "key": {"id": 42}}, False),
    ({"key": {"id": 42}}, True),
    ({"schema": {"x": 1}, "payload": {"op": "c", "before": None, "after": ROW}}, True),
    ({"schema": {"x": 1}, "payload": {"op": "c", "before": None, "after": ELSE}}, False),
    ({"schema": {"x": 1}, "payload": {"op": "t", "after": ROW}}, False),
]


def test_every_row_of_an_envelope_is_searched(spark: Any, tmp_path: Path) -> None:
    key = [KeyColumn("id")]
    for envelope, records in (("events", EVENTS), ("debezium", DEBEZIUM)):
        folder = tmp_path / envelope
        folder.mkdir()
        lines = [json.dumps(record) for record, _ in records]
        (folder / "a.json").write_text("".join(f"{line}\n" for line in lines))
        feed = FeedFiles("", "json", envelope)
        kept = [line for line, (_, is_gone) in zip(lines, records, strict=True) if not is_gone]
        found = rewritten(make_search(spark, feed, key, ["double"], ["v2:42"]), folder)
        assert found["a.json"].decode().splitlines() == kept, envelope
        if envelope == "debezium":
            check_hashes(make_search(spark, feed, key, ["double"], ["v2:42"]).search, folder / "a.json")
        (folder / "a.json").write_text(json.dumps([record for record, _ in records]))
        many = FeedFiles("", "json", envelope, options=(("multiLine", "true"),))
        found = rewritten(make_search(spark, many, key, ["double"], ["v2:42"]), folder)
        assert [json.dumps(record) for record in json.loads(found["a.json"])] == kept

    struct = pa.struct([("id", pa.int32()), ("city", pa.string())])
    columns = {
        "op": pa.array(["c", "u", "d", "t", "c"]),
        "before": pa.array([None, ROW, ELSE, ROW, None], struct),
        "after": pa.array([ROW, ELSE, None, None, ELSE], struct),
        "key": pa.array([{"id": 42}, {"id": 42}, {"id": 42}, {"id": 42}, {"id": 7}], pa.struct([("id", pa.int64())])),
    }
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "parquet/a.parquet")
    feed = FeedFiles("", "parquet", "debezium")
    found = rewritten(make_search(spark, feed, key, ["int"], ["v2:42"]), tmp_path / "parquet")
    assert pq.read_table(pa.BufferReader(found["a.parquet"]))["op"].to_pylist() == ["t", "c"]


def test_what_cannot_be_searched_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a/a.json"
    rewriter = make_search(spark, FeedFiles("", "json"), [KeyColumn("id")], ["int"], ["v2:42"])
    for line in ('{"id": 1, "x', '{"id": 42}\n{"id": 42, "id": 42}', "{'id': 42}"):
        file.write_text(f'{{"id": 1}}\n{line}\n')
        before = file.read_bytes()
        with pytest.raises(RewriteError) as error:
            rewritten(rewriter, tmp_path / "a")
        assert "a.json" in f"{error.value} {error.value.location}"
        assert "42" not in str(error.value)
        if line.endswith("x"):
            with pytest.raises(RewriteError, match="records that cannot be read"):
                check_hashes(rewriter.search, file)
        assert file.read_bytes() == before
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["a.json"]
