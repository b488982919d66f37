"""How a text file is read: the options of Spark's readers that decide where a record ends and what its values are.

An option that is not known here is refused: the reader might see other records than the search.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import RewriteError
from penstock.model.changes import FeedFiles


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IRRELEVANT = _words(
    """
    allowbackslashescapinganycharacter allowcomments allownonnumericnumbers allownumericleadingzeros allowsinglequotes
    allowunquotedcontrolchars allowunquotedfieldnames columnnameofcorruptrecord columnpruning compression dateformat
    dropfieldifallnull enabledatetimeparsingfallback enforceschema ignorecorruptfiles ignoremissingfiles
    inferschema inputbuffersize
    locale maxcharspercolumn maxcolumns mode modifiedafter modifiedbefore nanvalue negativeinf pathglobfilter
    positiveinf preferdate prefersdecimal primitivesasstring recursivefilelookup samplingratio timestampformat
    timestampntzformat timezone
    """
)
"""Options that change the types of values, or which files are read; and leniencies whose records are refused one by one."""
_OF_BOTH = frozenset({"multiline", "encoding", "charset", "linesep"})
_OF_CSV = _words(
    """
    sep delimiter quote escape chartoescapequoteescaping comment header ignoreleadingwhitespace ignoretrailingwhitespace
    nullvalue unescapedquotehandling
    """
)
_NO_CHARACTER = "\0"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is read; the defaults are Spark's. A character that is not used is NUL."""

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    comment: str = _NO_CHARACTER
    header: bool = True
    names: tuple[str, ...] = ()
    """Without a header: the names of the columns, by their places."""
    strips_start: bool = False
    strips_end: bool = False
    null_value: str = ""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How the text files of a feed are read."""

    format: str = "json"
    envelope: str | None = None
    """`events`, `debezium`, or None when each record is a row."""
    key_column: str | None = None
    """The column that a Kafka message key which is a bare value, not a struct, is a value of."""
    is_document: bool = False
    """Records may span lines (`multiLine`)."""
    encoding: str = "utf-8"
    line_end: str | None = None
    """None: any of CR, LF and CR LF."""
    dialect: Dialect = Dialect()

    @staticmethod
    def of_feed(feed: FeedFiles, key_column: str | None = None) -> TextFormat:
        """How the change files of a feed are read; RewriteError names an option that is not supported."""
        options = {name.lower(): str(value) for name, value in feed.options}
        known = _IRRELEVANT | _OF_BOTH | (_OF_CSV if feed.format == "csv" else frozenset())
        if feed.format not in {"json", "csv"} or (feed.format == "csv" and feed.envelope):
            raise RewriteError(f"change files of the format {feed.format!r} with this envelope cannot be rewritten")
        if unknown := sorted(options.keys() - known):
            raise _unsupported(feed, unknown[0], options[unknown[0]])
        is_document = _is_true(options, "multiline")
        line_end = options.get("linesep")
        encoding = _find_encoding(feed, options.get("encoding") or options.get("charset") or "UTF-8")
        is_wide = encoding.startswith(("utf-16", "utf-32"))
        if not is_document and is_wide and (line_end is None or encoding in {"utf-16", "utf-32"}):
            raise _unsupported(feed, "encoding", encoding)  # Spark itself cannot find the lines
        if feed.format == "csv" and line_end not in {None, "\n", "\r", "\r\n"}:
            raise _unsupported(feed, "lineSep", "...")
        dialect = _to_dialect(feed, options) if feed.format == "csv" else Dialect()
        return TextFormat(feed.format, feed.envelope, key_column, is_document, encoding, line_end, dialect)


def _to_dialect(feed: FeedFiles, options: Mapping[str, str]) -> Dialect:
    handling = options.get("unescapedquotehandling", "STOP_AT_DELIMITER")
    if handling.upper() != "STOP_AT_DELIMITER":
        raise _unsupported(feed, "unescapedQuoteHandling", handling)
    sep = options.get("sep", options.get("delimiter", ","))
    quote, escape = _character(feed, options, "quote", '"'), _character(feed, options, "escape", "\\")
    usual = _NO_CHARACTER if escape == quote else escape
    if _character(feed, options, "chartoescapequoteescaping", usual) != usual:
        raise _unsupported(feed, "charToEscapeQuoteEscaping", options["chartoescapequoteescaping"])
    return Dialect(
        _character(feed, {"sep": "\t" if sep == "\\t" else sep}, "sep", ","),
        quote,
        escape,
        _character(feed, options, "comment", _NO_CHARACTER),
        _is_true(options, "header", "true"),
        () if _is_true(options, "header", "true") else names_of(feed.schema or ""),
        _is_true(options, "ignoreleadingwhitespace"),
        _is_true(options, "ignoretrailingwhitespace"),
        options.get("nullvalue", ""),
    )


def _character(feed: FeedFiles, options: Mapping[str, str], name: str, default: str) -> str:
    value = options.get(name, default)
    if len(value) > 1 or value in {"\r", "\n"}:
        raise _unsupported(feed, name, value)
    return value or _NO_CHARACTER


def _is_true(options: Mapping[str, str], name: str, default: str = "false") -> bool:
    return options.get(name, default).lower() == "true"


def _find_encoding(feed: FeedFiles, name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise _unsupported(feed, "encoding", name) from None


def _unsupported(feed: FeedFiles, option: str, value: str) -> RewriteError:
    return RewriteError(
        f"the change files of {feed.path} are read with the option {option}={value!r}, with which they cannot be rewritten",
        hint="remove the records by hand, or write the files in another form",
    )


def names_of(schema: str) -> tuple[str, ...]:
    """The column names of a schema in Spark's DDL, such as ``id bigint, `a b` struct<x: int>``."""
    names: list[str] = []
    depth, place, is_name = 0, 0, True
    while place < len(schema):
        sign = schema[place]
        if is_name and not sign.isspace():
            name, place = _read_name(schema, place)
            names.append(name)
            is_name = False
            continue
        depth += (sign in "<(") - (sign in ">)")
        is_name = is_name or (sign == "," and depth == 0)
        if sign in "`'\"":  # names of fields and comments may have any sign in them
            place = schema.find(sign, place + 1)
            place = len(schema) if place < 0 else place
        place += 1
    return tuple(names)


def _read_name(schema: str, place: int) -> tuple[str, int]:
    if schema[place] != "`":
        end = place
        while end < len(schema) and not schema[end].isspace() and schema[end] not in ":,":
            end += 1
        return schema[place:end], end
    name, end = "", place + 1
    while end < len(schema):
        if schema[end] == "`":
            if schema[end + 1 : end + 2] != "`":
                return name, end + 1
            end += 1
        name += schema[end]
        end += 1
    return name, end
