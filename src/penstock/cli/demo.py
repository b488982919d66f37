"""`penstock demo`: a guided tour in a temporary folder, with the commands that a user would type."""

from __future__ import annotations

import os
import secrets
import tempfile
from dataclasses import dataclass
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
        Path | None, typer.Argument(help="Where to create the project (default: a new temporary folder).")
    ] = None,
) -> None:
    """Take a guided tour: a project, new files, drift, a change feed, a person who is forgotten, a table in a database."""
    from penstock.cli.consoles import make_console
    from penstock.cli.text_output import TextOutput

    settings = current_settings()
    if settings.as_json:
        raise UsageError("the tour has no --json form")
    root = folder or Path(tempfile.mkdtemp(prefix="penstock-demo-")) / "shop"
    here = Settings(project_dir=root, quiet=settings.quiet, log_format=settings.log_format)
    tour = _Tour(root, here, TextOutput(make_console()))
    tour.make_project()
    tour.first_run()
    tour.new_batch()
    tour.nothing_new()
    tour.drift()
    tour.quarantine()
    tour.change_feed()
    tour.erasure()
    tour.database()
    tour.farewell()


@dataclass(slots=True)
class _Tour:
    """The chapters of the tour, in order."""

    root: Path
    settings: Settings
    output: TextOutput

    def make_project(self) -> None:
        from penstock.config.template import write_sample_project

        self._chapter(
            "1. A project", "`penstock init` creates a folder with sample Parquet files and a few definitions."
        )
        files = write_sample_project(self.root, "shop")
        self.output.text(
            f"{self._shown()} has {len(files)} files: raw files, SQL and Python definitions, and penstock.yml."
        )

    def _run(self, *select: str) -> None:
        with open_from_settings(self.settings) as engine:
            run_project(engine, self.settings, engine.request(select))

    def first_run(self) -> None:
        self._chapter(
            "2. The plan", "`penstock plan` shows what would be done, and why. It writes no table and starts no JVM."
        )
        self._plan()
        self._chapter(
            "3. The first run",
            "`penstock run` executes the plan: it loads raw files into staging tables, then computes the views.",
        )
        self._run()

    def new_batch(self) -> None:
        from penstock.config.template import last_sample_batch, write_sample_batch

        self._chapter(
            "4. New files", "Files arrive for some of the tables. Only those tables and their readers are updated."
        )
        added = write_sample_batch(self.root, last_sample_batch(self.root) + 1)
        self.output.text("Added " + ", ".join(str(file.relative_to(self.root)) for file in added))
        self._plan()
        self._run()

    def nothing_new(self) -> None:
        self._chapter("5. Nothing new", "A third run finds every table up to date: no JVM, no write.")
        self._run()

    def drift(self) -> None:
        from penstock.config.template import last_sample_batch, write_drifted_batch

        self._chapter(
            "6. Drift",
            "The next file has other columns: `quantity` has decimals now, and `discount` is new. Both columns are changed in "
            "place:\nno loaded row is rewritten, and every value stays exact.",
        )
        table = "staging.order_items"
        file = write_drifted_batch(self.root, last_sample_batch(self.root) + 1)
        self.output.text(f"Added {file.relative_to(self.root)}")
        engine = open_from_settings(self.settings)
        self.output.plan(engine.plan())
        self.output.text("`penstock schema diff order_items`:")
        self.output.changes(engine.schema_drift(table))
        self._run()
        self.output.text("`penstock schema history order_items`:")
        self.output.schema_history(open_from_settings(self.settings).inspector.schema_history(table))
        self.output.text("The oldest and the newest rows, each with its exact quantity:")
        self._show_both_ends(table)

    def _show_both_ends(self, table: str) -> None:
        from dataclasses import replace

        rows = open_from_settings(self.settings).inspector.rows(table, 1_000_000)
        shown = sorted(rows.rows)
        self.output.rows(replace(rows, rows=(*shown[:2], *shown[-2:])))

    def quarantine(self) -> None:
        self._chapter("7. Quarantine", "Rows that violate an `expect_or_drop` are kept in a quarantine table.")
        inspector = open_from_settings(self.settings).inspector
        name = next(info.name for info in inspector.datasets() if inspector.show(str(info.name)).has_quarantine)
        self.output.rows(inspector.rows(str(name), 5, quarantine=True))

    def change_feed(self) -> None:
        from penstock.config.sample_feed import write_feed_batch, write_feed_definition

        self._chapter(
            "8. A change feed, out of order",
            "Customers move. Their change events arrive in files, but not in order: Ada's move to Bonn arrives after the later\n"
            "one to Oslo, and Cy is deleted before he is inserted. `dp.create_auto_cdc_flow` builds the history (SCD2).",
        )
        definition = write_feed_definition(self.root)
        self.output.text(f"Added {definition.relative_to(self.root)}")
        for number in (1, 2):
            self._show_events(number)
            write_feed_batch(self.root, number)
            self._run("customer_history")
            self._draw_history()
        self.output.text(
            "Bonn is now between Rome and Oslo, Cy's row ends at the time of his delete, and the event that arrived twice\n"
            "changed nothing. Any other order of these files gives the same rows."
        )

    def _show_events(self, number: int) -> None:
        from penstock.config.sample_feed import BATCHES

        events = [
            f"day {day} {operation} {name}{f' in {city}' if city else ''}"
            for operation, day, _, name, city in BATCHES[number - 1]
        ]
        self.output.text(f"File {number} has: " + "; ".join(events))

    def _draw_history(self) -> None:
        from penstock.cli.timeline import Interval, draw_timeline

        found = open_from_settings(self.settings).inspector.rows("customer_history", 100)
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        intervals = [Interval(row["name"], row["city"], row["__START_AT"], row["__END_AT"]) for row in rows]
        self.output.text("The history, by day:\n" + draw_timeline(intervals))

    def erasure(self) -> None:
        from rich.markup import escape

        from penstock.cli.erase import draw_erased, draw_scan
        from penstock.cli.progress import make_progress
        from penstock.cli.tombstone import draw_hidden
        from penstock.config.sample_erasure import SECRET, SETTINGS, write_erasure_settings
        from penstock.config.sample_feed import write_feed_batch

        self._chapter(
            "9. A person asks to be forgotten",
            "Ada asks. penstock.yml declares where her key and her name are, and a secret comes from the environment:",
        )
        os.environ[SECRET] = secrets.token_hex(16)
        write_erasure_settings(self.root)
        self.output.text(escape(SETTINGS.strip()))
        with open_from_settings(self.settings) as engine:
            self.output.text("\n`penstock tombstone add customer --key id=1 --reason request-17` hides her, at once:")
            draw_hidden(engine.erasure.add("customer", ["id=1"], reason="request-17"), self.output)
            self._draw_history()
            self.output.text(
                "\n`penstock erase` removes her from every file, searches all of them, and signs a receipt:"
            )
            with make_progress(self.settings, "penstock erase") as progress:
                erased = engine.erasure.erase(listeners=(progress,))
            draw_erased(erased, self.output)
            self.output.text("\n`penstock verify-erasure customer --key id=1` searches again:")
            draw_scan(engine.erasure.verify("customer", ["id=1"]), self.output)
            replayed = write_feed_batch(self.root, 1, "replayed")
            self.output.text(
                f"\nThen somebody replays the first file, with Ada in it: {replayed.relative_to(self.root)}"
            )
            run_project(engine, self.settings, engine.request(("customer_history",)))
        self._draw_history()
        self.output.text(
            "Still gone: tombstones outlive the erasure, as hashes, and keep Ada out of every load. Only the replayed file\n"
            "itself has her; whoever delivers it should delete it."
        )

    def database(self) -> None:
        from rich.markup import escape

        from penstock.cli.advise import advise_sqlite, draw_advice
        from penstock.config.sample_load import CHANGES, DATABASE, TABLE, change_accounts, write_load_definition

        self._chapter(
            "10. A table in a database",
            "The sales team keeps its accounts in a database. `penstock advise` looks at the table and says how to load it,\n"
            "and why:",
        )
        definition = write_load_definition(self.root)
        draw_advice(advise_sqlite(str(self.root / DATABASE), TABLE), self.output)
        self.output.text(
            f"\n{definition.relative_to(self.root)} declares a timestamp load, because it will grow, and a delete check,\n"
            "because a timestamp cannot show what was deleted. The first run loads everything; then the table changes:"
        )
        with open_from_settings(self.settings) as engine:
            run_project(engine, self.settings, engine.request(("crm.accounts",)))
            change_accounts(self.root)
            self.output.text(escape("\n".join(CHANGES)) + "\n")
            self.output.plan(engine.plan(engine.request(("crm.accounts",))))
            run_project(engine, self.settings, engine.request(("crm.accounts",)))
        self.output.rows(open_from_settings(self.settings).inspector.rows("crm.accounts", 10))
        self.output.text("Lock was deleted in the database: the row keeps its last values, and a time in __DELETED_AT.")

    def farewell(self) -> None:
        from penstock.config.sample_erasure import SECRET

        self.output.text(
            f"\nThe project is yours to explore:\n  cd {self._shown()}\n  export {SECRET}={os.environ[SECRET]}\n"
            "  penstock ls\n  penstock show customer_history --rows 10\n  penstock tombstone ls\n  penstock receipt ls"
        )

    def _plan(self) -> None:
        self.output.plan(open_from_settings(self.settings).plan())

    def _chapter(self, title: str, words: str) -> None:
        self.output.text(f"\n[bold]{title}[/bold]\n{words}\n")

    def _shown(self) -> str:
        from rich.markup import escape

        return escape(str(self.root))
