"""Whether each row of a query comes from one row of one table, and where columns of that table are in the result.

What is not known here is not row-wise: a wrong proof would leave rows of an erased person in a table, or remove rows of others.
Importing sqlglot costs about a third of a second, so this module is imported only when the answer is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sqlglot import exp, parse_one

from penstock.definitions.sql_columns import PLAIN_NAME
from penstock.definitions.sql_facts import WITHOUT_PARENTHESES
from penstock.definitions.sql_reads import MOMENTS

_OPERATORS = """
    Add And Between Bracket Case Cast DPipe Div Dot EQ GT GTE ILike If In IntDiv Is LT LTE Like Mod Mul NEQ Neg Not
    NullSafeEQ NullSafeNEQ Or Paren RegexpLike Sub TryCast
"""
_FUNCTIONS = """
    Abs Ceil Coalesce Concat ConcatWs Contains DateDiff DateTrunc Day Extract Floor Greatest Hour Initcap Least Left Length
    Lower MD5 Month Nullif Nvl2 Pad RegexpExtract RegexpReplace Replace Right Round SHA SHA2 Sign StartsWith StrPosition
    Substring TimeStrToTime TimeToStr TimestampTrunc Trim TsOrDsAdd TsOrDsToDate Upper Year
"""
_VALUES = "Boolean Column DataType DataTypeParam Identifier Interval Literal Null Var"
_SCALAR = frozenset(getattr(exp, name) for name in f"{_OPERATORS} {_FUNCTIONS} {_VALUES}".split())
"""What gives one value for one row, and the same one each time."""
_NOT_OF_THE_ROW = WITHOUT_PARENTHESES | {"_metadata", "session_user", "user"}
"""Names that may not be columns: functions without parentheses, and where a row is stored."""
_MOMENT = re.compile(rf"\s*({'|'.join(sorted(MOMENTS))})(?![a-z])", re.IGNORECASE)


def follow_columns(query: str, columns: Iterable[str]) -> dict[str, str] | None:
    """The columns of the result that hold these columns of the table unchanged, by name; None when that is not proven.

    Proven are projections and conditions of known scalar expressions over one table.
    """
    try:
        select = parse_one(query, dialect="spark")
        if not isinstance(select, exp.Select) or not _is_plain(select):
            return None
        found = {column: _follow(select, column.lower()) for column in columns}
    except Exception:  # noqa: BLE001 - whatever the parser cannot read is not proven
        return None
    known = {column: name for column, name in found.items() if name is not None}
    return known if len(known) == len(found) else None


def _is_plain(select: exp.Select) -> bool:
    """Whether the query has nothing but projections of one table, and a condition."""
    source, where = select.args.get("from_"), select.args.get("where")
    if not _has_only(select, {"expressions", "from_", "where"}) or not isinstance(source, exp.From):
        return False
    scalars = [each for each in select.expressions if not _is_star(each, select)]
    return (
        _is_table(source.this)
        and all(map(_is_scalar, [each.this if isinstance(each, exp.Alias) else each for each in scalars]))
        and (where is None or _is_scalar(where.this))
    )


def _is_table(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Table) or not _has_only(node, {"this", "db", "alias"}):
        return False
    alias = node.args.get("alias")
    names = [node.this, *([node.args["db"]] if node.args.get("db") else []), *([alias.this] if alias else [])]
    return all(map(_is_name, names)) and (alias is None or _has_only(alias, {"this"}))


def _is_star(node: exp.Expr, select: exp.Select) -> bool:
    """`*`, with EXCEPT or without, or the same of the table by its name."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return _is_of_table(node, select) and _is_star(node.this, select)
    if not isinstance(node, exp.Star) or not _has_only(node, {"except_"}):
        return False
    return all(
        isinstance(each, exp.Column) and len(each.parts) == 1 and _is_name(each.this) for each in _left_out(node)
    )


def _is_scalar(node: exp.Expr) -> bool:
    return all(
        type(each) in _SCALAR
        and (not isinstance(each, exp.Identifier) or (_is_name(each) and each.name.lower() not in _NOT_OF_THE_ROW))
        and (not isinstance(each, exp.In) or _has_only(each, {"this", "expressions"}))
        and (not isinstance(each, exp.Literal) or not _is_moment(each))
        for each in node.walk()
    )


def _is_name(node: exp.Expr) -> bool:
    """Whether this is a name as it is written; in back quotes, Spark can take others for a pattern."""
    return isinstance(node, exp.Identifier) and PLAIN_NAME.fullmatch(node.name) is not None


def _is_moment(literal: exp.Literal) -> bool:
    """'now', 'today CET' and similar texts: cast to a date, they are the time of the query."""
    return literal.is_string and _MOMENT.match(literal.name) is not None


def _follow(select: exp.Select, column: str) -> str | None:
    """The name under which the result has a column of the table, as it is."""
    stars = [each for each in select.expressions if _is_star(each, select)]
    others = [each for each in select.expressions if not _is_star(each, select)]
    names = [each.alias_or_name.lower() for each in others]
    found = [each.alias_or_name for each in others if _is_column(each.unalias(), column, select)]
    if any(column not in {name.name.lower() for name in _left_out(star)} for star in stars):
        return column if column not in names else None
    return next((name for name in found if names.count(name.lower()) == 1), None)


def _is_column(node: exp.Expr, column: str, select: exp.Select) -> bool:
    is_own = isinstance(node, exp.Column) and (len(node.parts) == 1 or _is_of_table(node, select))
    return is_own and node.name.lower() == column


def _is_of_table(column: exp.Column, select: exp.Select) -> bool:
    """Whether a qualified name starts with the table: `t.email`, where `address.email` is a field of a column."""
    table = select.args["from_"].this
    return len(column.parts) == 2 and column.table.lower() == table.alias_or_name.lower()


def _left_out(star: exp.Expr) -> Sequence[exp.Expr]:
    """The columns in EXCEPT."""
    plain = star.this if isinstance(star, exp.Column) else star
    return plain.args.get("except_") or ()


def _has_only(node: exp.Expr, allowed: set[str]) -> bool:
    return all(name in allowed for name, value in node.args.items() if value)
