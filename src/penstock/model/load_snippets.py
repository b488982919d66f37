"""A load that follows an advice, ready to paste: as Python, and as a part of penstock.yml. Never with a secret."""

from __future__ import annotations

import json
import re

from penstock.model.advice import Advice
from penstock.model.loads import DeltaSource, JdbcSource, Source, SqliteSource

URL = "${SOURCE_URL}"
"""Stands for the URL that the user typed: it may hold a password."""
_CONNECTION = "source"


def propose_name(source: Source) -> str:
    """A dataset name for a source: where it comes from, and its table."""
    match source:
        case JdbcSource():
            database = source.connection.name or "sources"
        case SqliteSource():
            database = re.sub(r"\..*\Z", "", re.split(r"[\\/]", source.path)[-1])
        case DeltaSource():
            database = "sources"
    table = re.split(r"[\\/.]", source.table.rstrip("/"))[-1]
    return f"{_to_name(database)}.{_to_name(table)}"


def _to_name(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or "source"
    return f"t_{name}" if name[0].isdigit() else name


def to_python(name: str, source: Source, advice: Advice) -> str:
    """The call of `dp.load`."""
    lines = [f"dp.load({_literal(name)}, source={_python_source(source)},"]
    lines.append(f"        strategy={_literal(advice.strategy.value)},")
    lines += [f"        {option}={_literal(value)}," for option, value in advice.options]
    return "from penstock import pipelines as dp\n\n" + "\n".join(lines)[:-1] + ")"


def to_yaml(name: str, source: Source, advice: Advice) -> str:
    """The entry of `loads:` in penstock.yml."""
    import yaml

    options = {option: list(value) if isinstance(value, tuple) else value for option, value in advice.options}
    load = {**_yaml_source(source), "strategy": advice.strategy.value, **options}
    document: dict[str, object] = {"loads": {name: load}}
    if isinstance(source, JdbcSource) and source.connection.name is None:
        document = {"connections": {_CONNECTION: URL}, **document}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000).rstrip()


def _python_source(source: Source) -> str:
    table = _literal(source.table)
    match source:
        case JdbcSource():
            named = source.connection.name
            given = f"connection={_literal(named)}" if named else f"url={_literal(URL)}"
            return f"dp.jdbc({given}, table={table})"
        case SqliteSource():
            return f"dp.sqlite(path={_literal(source.path)}, table={table})"
        case DeltaSource():
            return f"dp.delta(path={_literal(source.path)})"


def _yaml_source(source: Source) -> dict[str, object]:
    match source:
        case JdbcSource():
            return {"connection": source.connection.name or _CONNECTION, "table": source.table}
        case SqliteSource():
            return {"sqlite": source.path, "table": source.table}
        case DeltaSource():
            return {"delta": source.path}


def _literal(value: object) -> str:
    """A value as Python source, in double quotes."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
