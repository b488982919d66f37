"""`penstock demo`: a guided tour in a scratch folder, with the very commands that a user would type."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import open_from_settings
from penstock.cli.options import Settings, current_settings
from penstock.cli.pipeline import run_project
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.text_output import TextOutput


def demo(
    folder: Annotated[
        Path | None, typer.Argument(help="Where to make the project (default: a new scratch folder).")
    ] = None,
) -> None:
    """A guided tour: make a project, run it, add a batch, run again, run with nothing to do."""
    from rich.markup import escape

    from penstock.cli.text_output import TextOutput, make_console
    from penstock.config.template import last_sample_batch, write_sample_batch, write_sample_project

    settings = current_settings()
    if settings.as_json:
        raise UsageError("the tour is for people; it has no --json form")
    root = folder or Path(tempfile.mkdtemp(prefix="penstock-demo-")) / "shop"
    output = TextOutput(make_console())
    here = Settings(project_dir=root, quiet=settings.quiet, log_format=settings.log_format)

    _chapter(output, 1, "A project", "`penstock init` makes a folder with sample Parquet files and a few definitions.")
    files = write_sample_project(root, "shop")
    shown = escape(str(root))
    output.text(f"{shown} now holds {len(files)} files: raw batches, SQL and Python definitions, penstock.yml.")

    _chapter(
        output, 2, "The plan", "`penstock plan` says what would happen, and why. Nothing is written, no JVM starts."
    )
    _plan(output, here)

    _chapter(
        output, 3, "The first run", "`penstock run` does exactly that. Raw files become staging tables; views follow."
    )
    run_project(here)

    _chapter(
        output,
        4,
        "A new batch",
        "New files arrive for some of the tables. Only those, and what reads them, are touched.",
    )
    added = write_sample_batch(root, last_sample_batch(root) + 1)
    output.text("Added " + ", ".join(str(file.relative_to(root)) for file in added))
    _plan(output, here)
    run_project(here)

    _chapter(output, 5, "Nothing new", "A third run sees at once that every table is right: no JVM, no write.")
    run_project(here)

    _chapter(
        output, 6, "What expectations set aside", "Rows that broke an `expect_or_drop` are kept where you can see them."
    )
    engine = open_from_settings(here)
    quarantined = next(d.name for d in engine.datasets() if engine.show(str(d.name)).has_quarantine)
    output.rows(engine.rows(str(quarantined), 5, quarantine=True))

    output.text(
        f"\nThe project is yours to play with:\n  cd {shown}\n  penstock ls\n"
        f"  penstock show {quarantined}\n  penstock history {quarantined}"
    )


def _plan(output: TextOutput, settings: Settings) -> None:
    output.plan(open_from_settings(settings).plan())


def _chapter(output: TextOutput, number: int, title: str, words: str) -> None:
    output.text(f"\n[bold]{number}. {title}[/bold]\n{words}\n")
