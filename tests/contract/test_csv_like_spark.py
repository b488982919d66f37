"""CSV records are those that Spark's own parser finds: univocity, from the jars of pyspark, with Spark's settings.

Where this code is not certain it refuses; where it answers, both answers are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from penstock.maintenance.files.csv_records import SPACES, CsvReader
from penstock.maintenance.files.csv_scan import scan_csv
from penstock.maintenance.files.text_format import Dialect
from penstock.maintenance.files.values import RecordError
from penstock.session.java import find_java

DIALECTS = {
    "Spark's defaults": Dialect(header=False),
    "doubled quotes": Dialect(escape='"', header=False),
    "other signs": Dialect(sep=";", quote="'", escape="^", header=False),
    "spaces are ignored": Dialect(strips_start=True, strips_end=True, header=False),
    "no quotes": Dialect(quote="\0", header=False),
    "comments": Dialect(comment="#", header=False),
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Any]:
    (package,) = find_spec("pyspark").submodule_search_locations  # type: ignore[union-attr]
    jars = Path(package) / "jars"
    (parser,), (py4j,) = (list(jars.glob(f"{name}-*.jar")) for name in ("univocity-parsers", "py4j"))
    java = str(find_java().home / "bin" / "java")
    port = launch_gateway(classpath=str(parser), jarpath=str(py4j), die_on_exit=True, java_path=java)
    found = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield found
    found.shutdown()


def open_parser(gateway: Any, dialect: Dialect, *, is_document: bool) -> Any:
    """The parser as CSVOptions.asParserSettings of Spark sets it up."""
    csv = gateway.jvm.com.univocity.parsers.csv
    given_ = csv.CsvParserSettings()
    given_.getFormat().setDelimiter(dialect.sep)
    given_.getFormat().setQuote(dialect.quote)
    given_.getFormat().setQuoteEscape(dialect.escape)
    if dialect.comment != "\0":
        given_.getFormat().setComment(dialect.comment)
    else:
        given_.setCommentProcessingEnabled(False)
    given_.setIgnoreLeadingWhitespaces(dialect.strips_start)
    given_.setIgnoreTrailingWhitespaces(dialect.strips_end)
    given_.setReadInputOnSeparateThread(False)
    given_.setNullValue("")
    given_.setEmptyValue("")
    given_.setMaxCharsPerColumn(-1)
    given_.setUnescapedQuoteHandling(csv.UnescapedQuoteHandling.STOP_AT_DELIMITER)
    given_.setLineSeparatorDetectionEnabled(is_document)
    return csv.CsvParser(given_)


def texts(dialect: Dialect, *more: str) -> st.SearchStrategy[str]:
    signs = [dialect.sep, dialect.sep, dialect.quote, dialect.quote, dialect.escape, "#", "a", "b", " ", *more]
    return st.lists(st.sampled_from([sign for sign in signs if sign != "\0"]), min_size=1, max_size=16).map("".join)


def check_same(found: list[str | None], expected: list[str]) -> None:
    """A value that is not certain is None; how many values there are, and the others, are certain."""
    assert len(found) == len(expected)
    assert all(mine is None or mine == theirs for mine, theirs in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", DIALECTS)
def test_the_values_of_a_line(gateway: Any, name: str) -> None:
    dialect = DIALECTS[name]
    parser = open_parser(gateway, dialect, is_document=False)

    @settings(max_examples=300)
    @given(texts(dialect, "\t"))
    def check(text: str) -> None:
        if not text.strip(SPACES) or text.startswith(dialect.comment):
            return  # Spark does not give such lines to its parser
        try:
            found, _ = CsvReader(dialect).read(text, 0)
        except RecordError:
            return
        check_same(found, list(parser.parseLine(text)))

    check()


@pytest.mark.parametrize("name", DIALECTS)
def test_the_records_of_a_document(gateway: Any, name: str) -> None:
    dialect = DIALECTS[name]
    parser = open_parser(gateway, dialect, is_document=True)

    @settings(max_examples=300)
    @given(texts(dialect, "\n", "\r\n", "\n", "\r\n", "\r"))
    def check(text: str) -> None:
        rows: list[Any] = []
        try:
            scan_csv(text, dialect, None, lambda row: bool(rows.append(list(row._values))))  # type: ignore[attr-defined]
        except RecordError:
            return
        expected = [list(row) for row in parser.parseAll(gateway.jvm.java.io.StringReader(text))]
        if dialect.strips_start:  # at the very end, spaces alone are a record without a value
            rows, expected = ([row for row in found if row != [""]] for found in (rows, expected))
        assert len(rows) == len(expected)
        for mine, theirs in zip(rows, expected, strict=True):
            check_same(mine, theirs)

    check()
