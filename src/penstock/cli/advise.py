"""`penstock advise`: which load strategy fits a table, why, and what would change that."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import Settings, current_settings
from penstock.cli.output import make_output
from penstock.errors import UsageError, located

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.cli.text_output import TextOutput
    from penstock.source_access import Advised, Declared, Source

_SOURCES = "name a load, or give one of --url, --connection, --sqlite and --delta"


def advise(
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help="A load of this project, as name or database.name.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="URL of a database; '${NAME}' is filled in from the environment. Needs --table.",
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="With --url: the user of the database.")
    ] = None,
    connection: Annotated[
        str | None, typer.Option("--connection", metavar="NAME", help="A connection of penstock.yml. Needs --table.")
    ] = None,
    sqlite: Annotated[
        str | None, typer.Option("--sqlite", metavar="FILE", help="A SQLite file. Needs --table.")
    ] = None,
    delta: Annotated[str | None, typer.Option("--delta", metavar="FOLDER", help="A folder with a Delta table.")] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="NAME", help="The table, as table or schema.table.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="COLUMN", help="A column of the key that identifies a row.")
    ] = None,
    cursor: Annotated[
        str | None,
        typer.Option(
            "--cursor", metavar="COLUMN", help="The column that grows with every change of a row, if you know it."
        ),
    ] = None,
    critical: Annotated[bool, typer.Option("--critical", help="The table is critical: swap on top.")] = False,
    history: Annotated[
        bool, typer.Option("--history", help="The table is one-time history: nothing in it changes any more.")
    ] = False,
) -> None:
    """Recommend a load strategy for a table, with evidence and reasons.

    Looks at statistics, indexes and small samples; never reads a large table, and starts no JVM.
    """
    settings = current_settings()
    given = {"--url": url, "--connection": connection, "--sqlite": sqlite, "--delta": delta}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) + (dataset is not None) != 1:
        raise UsageError("advise needs one table to look at", hint=_SOURCES)
    if dataset is not None:
        refused = {"--table": table, "--user": user, "--key": key, "--cursor": cursor, "--critical": critical or None}
        _refuse(f"the load {dataset} declares them", refused)
        advised = _advise_load(settings, dataset, history)
    else:
        _check_table(chosen[0], table, user)
        from penstock.source_access import Declared
        from penstock.source_access import advise as advise_source

        declared = Declared(critical, history, tuple(key or ()), cursor)
        advised = advise_source(_to_source(settings, chosen[0], given, table or "", user), declared)
    make_output(settings).show(advised.to_json(), partial(draw_advice, advised))


def _refuse(why: str, given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            raise UsageError(f"{option} cannot be used here: {why}", hint="change the load, or name its source instead")


def _check_table(source: str, table: str | None, user: str | None) -> None:
    if (source == "--delta") == (table is not None):
        problem = "a Delta table has no --table" if source == "--delta" else f"{source} needs --table"
        raise UsageError(problem, hint="such as --table public.orders" if source != "--delta" else None)
    if user is not None and source != "--url":
        raise UsageError("--user belongs to --url", hint="a connection of penstock.yml has its user")


def _advise_load(settings: Settings, dataset: str, history: bool) -> Advised:
    from dataclasses import replace

    from penstock.cli.opening import open_from_settings
    from penstock.source_access import advise, find_load, to_declared

    workspace = open_from_settings(settings).workspace
    spec, options = find_load(workspace.specs, dataset, workspace.project)
    declared: Declared = replace(to_declared(options), is_history=history)
    with located(spec.location):
        return advise(options.source, declared, str(spec.name), workspace.storage.reader_options)


def _to_source(settings: Settings, kind: str, given: dict[str, str | None], table: str, user: str | None) -> Source:
    from penstock.engine import open_project
    from penstock.source_access import DeltaSource, JdbcSource, SqliteSource, find_connection, to_connection

    value = given[kind] or ""
    match kind:
        case "--sqlite":
            return SqliteSource(value, table)
        case "--delta":
            return DeltaSource(value)
        case "--url":
            return JdbcSource(to_connection(value, user, os.environ), table)
    project = open_project(settings.project_dir, target=settings.target, variables=settings.variables)
    return JdbcSource(find_connection(project, value), table)


def advise_sqlite(path: str, table: str) -> Advised:
    """What to do with a table of a SQLite file of which nothing is declared."""
    from penstock.source_access import Declared, SqliteSource
    from penstock.source_access import advise as advise_source

    return advise_source(SqliteSource(path, table), Declared())


def draw_advice(advised: Advised, output: TextOutput) -> None:
    """The decision, what it rests on, and a declaration to paste."""
    from rich.markup import escape

    advice = advised.advice
    swap = " with swap" if advice.swap else ""
    output.text(f"[bold]{escape(advice.table)}[/]: [bold green]{advice.chosen.value}[/]{swap}")
    for reason in advice.reasons:
        output.text(escape(reason))
    output.table(("looked at", "found"), [(line.what, line.found) for line in advice.evidence])
    _draw_list("What would change it:", advice.would_change, output)
    for warning in advice.warnings:
        output.text(f"[yellow]warning:[/] {escape(warning)}")
    for title, text in (("In a definition file:", advised.python), ("Or in penstock.yml:", advised.yaml)):
        output.text(f"\n[bold]{title}[/]\n")
        output.console.print(escape(text), soft_wrap=True)  # a wrapped line could not be pasted


def _draw_list(title: str, sentences: Iterable[str], output: TextOutput) -> None:
    from rich.markup import escape

    shown = [f"  - {escape(sentence)}" for sentence in sentences]
    if shown:
        output.text("\n".join([title, *shown]))
