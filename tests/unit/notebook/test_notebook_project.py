"""`penstock.open`: what a notebook sees of a project, without Spark."""

from __future__ import annotations

import builtins
from html.parser import HTMLParser
from pathlib import Path

import pytest

import penstock
from builders import load_raw, write_raw
from penstock.errors import ConfigError, DefinitionError, PenstockError, UsageError
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Problem, Reason
from penstock.model.results import ItemResult, Outcome, RunResult
from penstock.notebook.html_output import HtmlOutput
from penstock.notebook.project import NotebookProject, ShownRun
from penstock.storage.local import LocalFiles
from projects import ProjectFolder


class Tables(HTMLParser):
    """The cells of all tables, by row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    """A staging table that is up to date."""
    shop = ProjectFolder(tmp_path / "loaded").configure()
    write_raw(shop.root / "raw/orders/1.parquet", {"id": [1, 2], "note": ["<b>a</b>", None]})
    storage, raw = LocalFiles(shop.root / "storage"), LocalFiles(shop.root / "raw")
    load_raw(storage, raw, DatasetName("staging", "orders"), ["orders/1.parquet"], rows=(1, 2), build_request_id="b-1")
    return shop


def test_plan_run_and_show_are_tables(project: ProjectFolder) -> None:
    shop = penstock.open(project.root)
    plan = shop.plan()
    assert not plan.value.has_work
    assert Tables(plan._repr_html_()).rows[1][:2] == ["staging.orders", "none"]
    assert "staging.orders" in repr(plan)
    assert repr(plan).endswith("Nothing to do.")
    result = shop.run()
    assert not result.has_failed
    result.check()
    assert "Nothing to do: every table is up to date." in result._repr_html_()
    for shown in (shop, shop.show()):
        assert Tables(shown._repr_html_()).rows[0] == ["dataset", "kind", "version", "updated", "tags"]
    details = Tables(shop.show("orders")._repr_html_())
    assert ["dataset", "staging.orders"] in details.rows
    assert ["column", "type"] in details.rows
    rows = shop.show("orders", rows=5)
    assert Tables(rows._repr_html_()).rows[0] == list(rows.value.columns)
    assert Tables(rows._repr_html_()).tags == {"table", "thead", "tbody", "tr", "th", "td", "div"}


def test_each_call_reads_the_files_again(project: ProjectFolder) -> None:
    shop = penstock.open(str(project.root), variables={"least": "3"})
    project.define(
        "big.sql", "CREATE MATERIALIZED VIEW big TAGS ('x') AS SELECT * FROM staging.orders WHERE id >= ${least}"
    )
    plan = shop.plan("tag:x", exclude=["orders"], full_refresh=["big"])
    assert [(item.id, item.action) for item in plan.value.items] == [("main.big", Action.RECOMPUTE)]
    project.define("big.sql", "CREATE MATERIALIZED VIEW big AS SELCT")
    with pytest.raises(DefinitionError, match=r"big.sql:1:"):
        shop.plan()


def test_mistakes_are_errors_with_their_hint(project: ProjectFolder, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        penstock.open(tmp_path)
    shop = penstock.open(project.root)
    with pytest.raises(UsageError, match="there is no dataset ordrs; did you mean `orders`"):
        shop.show("ordrs")
    with pytest.raises(UsageError):
        shop.plan("nosuch")
    with pytest.raises(UsageError, match=r"plan and run take no 'full_refrsh'\nhint: did you mean 'full_refresh'\?"):
        shop.plan(full_refrsh="orders")


def test_values_of_a_wrong_type_are_explained(project: ProjectFolder) -> None:
    shop = penstock.open(project.root)
    with pytest.raises(UsageError, match="the variable 'x' must be a text, not int"):
        penstock.open(project.root, variables={"x": 1})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="full_refresh must be a name or a list of names, not True"):
        shop.plan(full_refresh=True)
    with pytest.raises(UsageError, match="a selection must be a selector or a list of them, not None"):
        shop.plan(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="rows must be a number of rows, not -1"):
        shop.show("staging.orders", rows=-1)


def test_a_failed_run_is_shown_and_check_raises() -> None:
    problem = Problem("user_code", "main.big: it failed", hint="fix it")
    item = ItemResult(
        "main.big", DatasetName("main", "big"), Action.RECOMPUTE, Outcome.ERROR, (Reason("x", "y"),), problem=problem
    )
    result = RunResult("b-1", (item,), 1.0)
    shown = ShownRun(result, lambda output: output.run(None, result))
    assert "error: main.big: it failed" in shown._repr_html_()
    with pytest.raises(PenstockError, match=r"the pipeline run failed: main.big: it failed\nhint: fix it"):
        shown.check()


def test_nothing_of_a_table_becomes_markup() -> None:
    output = HtmlOutput()
    output.table(["<i>"], [("<script>",)])
    output.facts([("<i>", "<script>")])
    output.text("[bold]a[/] <script>")
    output.plain("SELECT [a] <script>")
    assert Tables(output.html).tags == {"table", "thead", "tbody", "tr", "th", "td", "b", "div", "pre"}
    assert "<div>a &lt;script&gt;</div>" in output.html


def test_a_star_import_keeps_the_open_of_python() -> None:
    assert "open" in dir(penstock)
    assert "open" not in penstock.__all__
    names: dict[str, object] = {}
    exec("from penstock import *", names)  # noqa: S102
    assert names.get("open", builtins.open) is builtins.open
    assert penstock.open is not builtins.open
    assert NotebookProject.__doc__
