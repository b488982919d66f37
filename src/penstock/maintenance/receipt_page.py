"""A receipt as one page for people: no script, nothing from elsewhere, readable on a phone and on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from penstock.maintenance.receipt_style import STYLE
from penstock.model.receipt_json import show_time
from penstock.model.receipts import Checksum, ErasedTable, Receipt, ScanSummary


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a receipt, as the page shows it."""

    algorithm: str
    secret_id: str
    value: str
    sha256: str
    """The digest of the signed file."""


class _Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class _Version(_Markup):
    """A number that is a name: without separators, but aligned as a number."""

    __slots__ = ()


Cell = str | int | float


def to_page(receipt: Receipt, signature: Signature) -> str:
    """The page; everything that the receipt says is on it."""
    sections = (
        ("What was asked", _asked(receipt)),
        ("What was removed", _removed(receipt)),
        ("How it was verified", _verified(receipt)),
        ("What was searched, and how", _searched(receipt.scan)),
        ("What erasure cannot reach", _unreachable(receipt)),
        ("How to verify this receipt", _how_to_verify(receipt, signature)),
    )
    body = "\n".join(f"<section>\n<h2>{title}</h2>\n{content}\n</section>" for title, content in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>Erasure receipt {_text(receipt.id)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{_head(receipt)}\n{body}\n"
        f"<footer>Written by Penstock {_text(receipt.tool_version)}, receipt format {receipt.format}.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


def _head(receipt: Receipt) -> str:
    tiles = (
        (len(receipt.keys), "key", "erased"),
        (receipt.rows_removed, "row", "removed from tables"),
        (receipt.records_removed, "record", "removed from source files"),
        (receipt.scan.hits, "erased value", "found afterwards"),
    )
    shown = "".join(
        f"<li><b>{_number(count)}</b> {noun if count == 1 else f'{noun}s'} {rest}</li>" for count, noun, rest in tiles
    )
    return (
        "<header>\n<p class=kind>Erasure receipt</p>\n"
        f"<h1>{_text(receipt.subject or 'Keys of tables')} <span>in project {_text(receipt.project)}</span></h1>\n"
        f"<p>Completed {_time(receipt.finished_at)}. Keys are shown as keyed hashes; this page has no personal data of "
        f"the persons who were erased.</p>\n<ul class=tiles>{shown}</ul>\n</header>"
    )


def _asked(receipt: Receipt) -> str:
    facts = _facts(
        ("Receipt", _code(receipt.id)),
        ("Project", receipt.project),
        ("Subject", receipt.subject or "none: keys of single tables"),
        ("Started", _time(receipt.started_at)),
        ("Finished", _time(receipt.finished_at)),
    )
    rows = (
        (_name(key.table), _code(key.key_hash), key.secret_id, key.actor, _time(key.requested_at), _code(key.tombstone))
        for key in receipt.keys
    )
    columns = ("Table", "Key, as HMAC-SHA256", "Secret", "Requested by", "Requested", "Tombstone")
    return f"{facts}\n<h3>Keys</h3>\n{_table(columns, rows)}"


def _removed(receipt: Receipt) -> str:
    columns = ("Table", "Rows removed", "Files rewritten", "Files removed", "Log files removed", "Bytes before",
               "Bytes after", "Version before", "Version after")  # fmt: skip
    rows = (
        (
            _name(each.table), each.rows_removed, each.files_rewritten, each.files_removed, each.log_files_removed,
            each.bytes_before, each.bytes_after, _Version(each.version_before), _Version(each.version_after),
        )
        for each in receipt.tables
    )  # fmt: skip
    sources = ((_name(each.place), each.files_rewritten, each.records_removed) for each in receipt.sources)
    return (
        f"<h3>Tables</h3>\n{_table(columns, rows)}\n"
        f"<h3>Source files</h3>\n{_table(('Source', 'Files rewritten', 'Records removed'), sources)}\n"
        f"<h3>Event log</h3>\n<p>{_number(receipt.events_redacted)} "
        f"{'event was' if receipt.events_redacted == 1 else 'events were'} redacted.</p>"
    )


def _verified(receipt: Receipt) -> str:
    rows = [row for table in receipt.tables for row in _checksums(table)]
    without = [table.table for table in receipt.tables if not table.has_checksums]
    uncompared = (
        "<p>Without a checksum, because the table was computed again from its inputs, none of its files had rows that stay, or "
        "its old files were gone before: "
        f"{_text(', '.join(without))}.</p>\n"
    )
    compared = (
        "<p>Before and after the files of a table were rewritten, a checksum of the rows that stay in them was computed: "
        "their count, and the sum and the exclusive or of a 64-bit hash of each row. Both are equal, so no other row was "
        f"lost or changed.</p>\n{_table(('Table', 'When', 'Rows that stay', 'Sum', 'Exclusive or'), rows)}\n"
    )
    return (
        f"{compared if rows else ''}{uncompared if without else ''}"
        f"<p>Afterwards the places below were searched for the erased values: "
        f"{_number(receipt.scan.hits)} found, {_number(receipt.scan.unreadable)} files that could not be read.</p>"
    )


def _checksums(table: ErasedTable) -> Iterable[Sequence[Cell]]:
    both: tuple[tuple[str, Checksum | None], ...] = (
        ("before", table.survivors_before),
        ("after", table.survivors_after),
    )
    for when, checksum in both:
        if checksum is not None:
            yield _name(table.table), when, checksum.rows, _code(str(checksum.sum)), _code(str(checksum.xor))


def _searched(scan: ScanSummary) -> str:
    places = ((each.place, each.files, each.bytes, "yes" if each.exists else "no such place") for each in scan.places)
    methods = ((each.method, each.files, each.bytes) for each in scan.methods)
    notes = ((each.place, _code(each.file), each.reason) for each in scan.undecoded)
    return (
        f"<h3>Values</h3>\n{_table(('How they were searched', 'Values'), ((v.how, v.values) for v in scan.values))}\n"
        f"<h3>Places</h3>\n{_table(('Place', 'Files', 'Bytes', 'Searched'), places)}\n"
        f"<h3>Methods</h3>\n{_table(('What was decoded', 'Files', 'Bytes'), methods)}\n"
        + _facts(
            ("Names of files and folders searched", scan.names),
            ("Found", scan.hits),
            ("Could not be read", scan.unreadable),
            ("Inside a longer value, which is another value", scan.inside),
            ("Seconds", scan.seconds),
        )
        + f"\n<h3>Not decoded, searched as bytes</h3>\n{_table(('Place', 'File', 'Reason'), notes)}"
    )


def _unreachable(receipt: Receipt) -> str:
    items = "".join(f"<li>{_text(each)}</li>" for each in receipt.unreachable)
    return (
        f"<p>Penstock cannot see these. Whoever is responsible for the data has to see to them:</p>\n<ul>{items}</ul>"
    )


def _how_to_verify(receipt: Receipt, signature: Signature) -> str:
    file = f"{receipt.id}.json"
    facts = _facts(
        ("Signed file", _code(file)),
        ("SHA-256 of the file", _code(signature.sha256)),
        ("Algorithm", signature.algorithm),
        ("Secret", signature.secret_id),
        ("Signature", _code(signature.value)),
    )
    return (
        f"<p>This page is a copy for people. The signed original is {_code(file)} in the same folder, and has the same "
        "content. In the project that wrote it, and with its secret, this command checks every byte of it:</p>\n"
        f"<pre>penstock receipt verify {_text(file)}</pre>\n{facts}\n"
        f"<p>The hashes of the keys were made with {_text(_secrets(receipt))}. Whoever has that secret and is given a key "
        "can compute the hash, and so tell whether the key is on this receipt.</p>"
    )


def _secrets(receipt: Receipt) -> str:
    ids = receipt.secret_ids
    return f"the {'secret' if len(ids) == 1 else 'secrets'} {', '.join(ids)} of the project"


def _facts(*facts: tuple[str, Cell]) -> str:
    return "<dl>" + "".join(f"<dt>{_text(name)}</dt><dd>{_cell(value)}</dd>" for name, value in facts) + "</dl>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    listed = list(rows)
    if not listed:
        return "<p class=none>None.</p>"
    head = "".join(f"<th{_kind(value)}>{_text(name)}</th>" for name, value in zip(columns, listed[0], strict=True))
    lines = ["<tr>" + "".join(map(_table_cell, columns, row)) + "</tr>" for row in listed]
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table>"


def _table_cell(column: str, value: Cell) -> str:
    """A narrow screen shows the name of the column beside each value."""
    return f'<td data-label="{_text(column)}"{_kind(value)}>{_cell(value)}</td>'


def _kind(value: Cell) -> str:
    return " class=n" if isinstance(value, _Version) or not isinstance(value, str) else ""


def _cell(value: Cell) -> str:
    if isinstance(value, _Markup):
        return value
    return _text(value) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return f"{value:,}"


def _time(nanoseconds: int) -> _Markup:
    exact = show_time(nanoseconds)
    return _Markup(f'<time datetime="{exact}">{exact[:10]} {exact[11:19]} UTC</time>')


def _code(text: str) -> _Markup:
    return _Markup(f"<code>{_text(text)}</code>")


def _name(text: str) -> _Markup:
    """A name that may be broken after a dot or an underscore, and nowhere else."""
    return _Markup(_text(text).replace(".", ".<wbr>").replace("_", "_<wbr>"))


def _text(text: str) -> str:
    return escape(text, quote=True)
