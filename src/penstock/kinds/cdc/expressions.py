"""What a user writes as expressions over the rows of a source: as columns, checked, and named when they fail.

An expression gives one value for each row. Errors name the option and Spark's code, and never quote a value of a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.errors import ChangeFlowError, PenstockError
from penstock.model.nearest import did_you_mean
from penstock.model.types import quote_name

_UNRESOLVED = re.compile(r"\[UNRESOLVED_COLUMN[.A-Z_]*\][^`]*((?:`[^`]+`\.?)+)")
"""How Spark says which column it does not find."""
_OTHER_ROWS = {
    "INVALID_WHERE_CONDITION": "an aggregate function",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": "a window function",
    "UNSUPPORTED_GENERATOR": "a function that makes several rows of one",
    "INVALID_USAGE_OF_STAR_OR_REGEX": "a star, which stands for all columns",
}
"""What Spark does not accept where one row is looked at."""
_ROW_FAILURES = ("22", "38", "39", "P0")
"""How the SQLSTATEs begin of values that do not fit, of Python functions that fail, and of raise_error."""

_CONDITION = """a condition: {}="operation = 'delete'\""""
_EXAMPLES = {"sequence_by": 'a column or an expression; several columns are a struct: sequence_by="struct(ts, number)"'}


def is_column(given: object) -> bool:
    """Whether this is a Column of Spark, classic or over Connect."""
    return isinstance(given, SparkColumn)


def to_expression(frame: DataFrame, given: SparkColumn | str, option: str) -> SparkColumn:
    """A column from its name, with any characters; from an SQL expression; or unchanged."""
    _check_given(given, option)
    if not isinstance(given, str):
        return given
    return F.col(quote_name(given)) if given in frame.columns else F.expr(given)


def to_condition(given: SparkColumn | str | None, option: str) -> SparkColumn:
    """A condition from SQL, or unchanged; one that was not given never holds."""
    if given is None:
        return F.lit(False)
    _check_given(given, option)
    return F.expr(given) if isinstance(given, str) else given


def _check_given(given: object, option: str) -> None:
    if not isinstance(given, str | SparkColumn):
        raise ChangeFlowError(
            "expression",
            f"{option} is of type {type(given).__name__}; it must be text or a Column",
            hint=f"write {_EXAMPLES.get(option, _CONDITION.format(option))}",
        )


def find_types(frame: DataFrame, given: Mapping[str, SparkColumn]) -> dict[str, T.DataType]:
    """The type of each expression; ChangeFlowError says which one does not fit the columns, and why."""
    with suppress(Exception):  # usually all fit, and one analysis is enough
        return dict(zip(given, _analyze(frame, list(given.values())), strict=True))
    types: dict[str, T.DataType] = {}
    for option, expression in given.items():
        try:
            (types[option],) = _analyze(frame, [expression])
        except Exception as error:  # noqa: BLE001 - analysis fails in many ways, on Connect in others
            raise _unfit(option, error, frame.columns) from None
    return types


def _analyze(frame: DataFrame, expressions: Sequence[SparkColumn]) -> list[T.DataType]:
    """Their types. A filter only takes what one row says, where a select would take an aggregate or several rows as well."""
    conditions = (expression.cast("string").isNotNull() for expression in expressions)
    rows = frame.where(reduce(lambda one, other: one & other, conditions))
    return [field.dataType for field in rows.select(*expressions).schema.fields]


def _unfit(option: str, error: Exception, columns: Sequence[str]) -> ChangeFlowError:
    """Names of columns and Spark's code only: its message quotes the expression, which may have values in it."""
    code = _code_of(error)
    hint = f"the source has {', '.join(columns)}"
    if "PARSE" in code or "Parse" in type(error).__name__:
        return ChangeFlowError("expression", f"{option} is not valid SQL ({code})", hint=hint)
    if what := _OTHER_ROWS.get(code.split(".", 1)[0]):
        return ChangeFlowError(
            "expression",
            f"{option} has {what}; it must give one value for each row, from that row alone",
            hint=f"name a column, or compute one in the source; {hint}",
        )
    unknown = _UNRESOLVED.search(str(error))
    if unknown is None:
        return ChangeFlowError("expression", f"{option} does not fit the source ({code})", hint=hint)
    name = unknown[1].replace("`", "")
    return ChangeFlowError(
        "expression",
        f"{option} names the column {name!r}, which the source does not have{did_you_mean(name, columns)}",
        hint=hint,
    )


def _code_of(error: Exception) -> str:
    return str(getattr(error, "getCondition", lambda: None)() or type(error).__name__)


def check_condition(name: str, type_: T.DataType) -> None:
    """A text cannot be a condition: without ANSI mode, most texts would silently count as false."""
    if not isinstance(type_, T.BooleanType | T.NullType | T.IntegralType):
        raise ChangeFlowError(
            "expression",
            f"{name} is of type {type_.simpleString()}; it must be boolean",
            hint=f"write {_CONDITION.format(name)}",
        )


@contextmanager
def failures_named(given: Mapping[str, object]) -> Iterator[None]:
    """Rows that Spark cannot compute are an error that names the options of these that were given."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        if (failure := find_row_failure(error, given)) is not None:
            raise failure from None  # Spark's own message quotes the value
        raise


def find_row_failure(error: Exception, given: Mapping[str, object]) -> ChangeFlowError | None:
    """The error to raise when the values of rows cause this one; None for any other.

    Spark computes rows and expressions at once, and does not say which of them fails, or whether the rows of the source do.
    """
    state = getattr(error, "getSqlState", lambda: None)()
    if not str(state or "").startswith(_ROW_FAILURES):
        return None
    options = [*(option for option, value in given.items() if value is not None), "the source itself"]
    what = " or ".join(each for each in (", ".join(options[:-1]), options[-1]) if each)
    return ChangeFlowError(
        "expression",
        f"{what} fails for some rows ({_code_of(error)}); nothing was written",
        hint="functions such as try_cast and try_divide give NULL instead of failing",
    )
