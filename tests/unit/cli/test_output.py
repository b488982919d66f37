"""What commands show: plain text when piped, JSON when asked, and the exit codes."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from builders import load_raw, write_raw
from penstock.cli.consoles import make_console
from penstock.cli.text_output import TextOutput
from penstock.errors import Location
from penstock.inspect.datasets import HistoryEntry
from penstock.lake.delta_log import Commit
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Plan, Problem, Reason, WorkItem
from penstock.model.results import Rows, RunResult
from penstock.storage.local import LocalFiles
from projects import COMMAND, ProjectFolder

BOXES = re.compile(r"[\u2500-\u257f\u2580-\u259f]")
ESCAPE = "\x1b"


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """A project with one staging table that is up to date, and nothing else."""
    shop = ProjectFolder(tmp_path / "loaded").configure()
    write_raw(shop.root / "raw/orders/1.parquet", {"id": [1, 2], "note": ["a", None]})
    monkeypatch.chdir(shop.root)
    storage, raw = LocalFiles(shop.root / "storage"), LocalFiles(shop.root / "raw")
    load_raw(storage, raw, DatasetName("staging", "orders"), ["orders/1.parquet"], rows=(1, 2), build_request_id="b-1")
    return shop


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["run"],
        ["ls"],
        ["show", "orders"],
        ["show", "orders", "--rows", "5"],
        ["history", "orders"],
        ["doctor"],
        ["plan", "--help"],
    ],
)
def test_piped_output_is_plain_text(arguments: list[str], loaded: ProjectFolder, penstock) -> None:
    answer = penstock(*arguments)
    assert answer.code in {0, 1}
    assert answer.out.strip()
    assert not BOXES.search(answer.out)
    assert ESCAPE not in answer.out + answer.err


def test_piped_lines_end_where_their_text_does(loaded: ProjectFolder, penstock) -> None:
    for arguments in (["plan"], ["ls"], ["show", "orders", "--rows", "2"], ["history", "orders"]):
        lines = penstock(*arguments).out.splitlines()
        assert lines == [line.rstrip() for line in lines], arguments


def test_a_plan_is_told_per_table_with_reasons(shop: ProjectFolder, penstock) -> None:
    answer = penstock("plan")
    assert answer.code == 0
    rows = {line.split()[0]: line.split()[1] for line in answer.out.splitlines() if "." in line.split(" ")[0]}
    assert rows["staging.orders"] == "rebuild"
    assert rows["main.totals"] == rows["main.big_orders"] == rows["main.big_count"] == "recompute"
    assert "first load, 1 file" in answer.out
    assert answer.out.splitlines()[-1] == "Plan: 1 rebuild, 3 recompute. Run `penstock run` to apply it."


def test_a_plan_as_json_has_what_was_asked_for(shop: ProjectFolder, penstock) -> None:
    plan = penstock("plan", "--json", "--select", "+totals").json
    assert [dataset["dataset"] for dataset in plan["datasets"]] == ["staging.orders", "main.totals"]
    assert plan["datasets"][0]["files"][0]["rows"] == 3


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["plan"], dict),
        (["run"], dict),
        (["ls"], list),
        (["show", "orders"], dict),
        (["show", "orders", "--rows", "1"], list),
        (["history", "orders"], list),
        (["doctor"], list),
    ],
)
def test_every_result_can_be_json(arguments: list[str], kind: type, loaded: ProjectFolder, penstock) -> None:
    assert isinstance(penstock(*arguments, "--json").json, kind)


def test_a_run_with_nothing_to_do_says_so_and_leaves_its_results(loaded: ProjectFolder, penstock) -> None:
    answer = penstock("run")
    assert answer.code == 0
    assert answer.out.splitlines()[-2:] == [
        "Nothing to do: every table is up to date.",
        "Done. PASS=0 WARN=0 ERROR=0 SKIP=0 NO-OP=1 TOTAL=1",
    ]
    assert loaded.results()["staging.orders"]["status"] == "no-op"
    assert (loaded.root / ".penstock/manifest.json").exists()


def test_quiet_says_nothing_on_stderr(loaded: ProjectFolder, penstock) -> None:
    assert penstock("run", "--quiet").err == ""


@pytest.mark.parametrize(("flag", "code"), [([], 0), (["--detailed-exitcode"], 2)])
def test_the_detailed_exit_code_tells_that_there_is_work(
    flag: list[str], code: int, shop: ProjectFolder, penstock
) -> None:
    assert penstock("plan", *flag).code == code


def test_the_detailed_exit_code_is_zero_when_there_is_nothing(loaded: ProjectFolder, penstock) -> None:
    assert penstock("plan", "--detailed-exitcode").code == 0


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_broken_file_is_exit_code_one_with_its_name(command: str, loaded: ProjectFolder, penstock) -> None:
    (loaded.root / "raw/orders/2.parquet").write_bytes(b"")
    answer = penstock(command)
    assert answer.code == 1
    assert "error: raw file orders/2.parquet is not a readable Parquet file" in answer.out
    assert "hint: replace the file" in answer.out


def test_rows_and_details_and_history_of_a_table(loaded: ProjectFolder, penstock) -> None:
    assert penstock("show", "orders", "--rows", "5", "--json").json == [{"id": 1}, {"id": 2}]
    assert penstock("show", "orders", "--rows", "5").out.splitlines()[-1] == "2 rows"
    shown = penstock("show", "staging.orders").out
    assert re.search(r"files loaded +1\n", shown)
    assert re.search(r"id +bigint", shown)
    (entry,) = penstock("history", "orders", "--json").json
    assert (entry["version"], entry["number"], entry["build_request_id"]) == (0, 1, "b-1")


def test_a_project_is_found_from_a_folder_below_or_by_its_path(
    loaded: ProjectFolder, penstock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(loaded.root / "raw" / "orders")
    assert penstock("ls", "--json").json[0]["dataset"] == "staging.orders"
    monkeypatch.chdir(tmp_path)
    assert penstock("ls", "--json", "--project-dir", str(loaded.root)).json[0]["version"] == 0


def test_an_empty_project_says_what_to_add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penstock) -> None:
    monkeypatch.chdir(ProjectFolder(tmp_path / "new").configure().root)
    assert "No datasets: add Parquet files below raw/" in penstock("plan").out


def test_init_makes_a_project_that_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penstock) -> None:
    monkeypatch.chdir(tmp_path)
    made = penstock("init", "shop", "--json")
    assert (made.code, made.json["folder"]) == (0, "shop")
    assert penstock("plan", "--project-dir", "shop", "--detailed-exitcode").code == 2
    again = penstock("init", "shop")
    assert again.code == 2
    assert "is not empty" in again.err


@pytest.mark.parametrize(("variable", "coloured"), [("NO_COLOR", False), (None, True)])
def test_on_a_terminal_there_is_colour_unless_it_is_not_wanted(
    variable: str | None, coloured: bool, loaded: ProjectFolder
) -> None:
    """A real pseudo-terminal, in a process of its own."""
    write_raw(loaded.root / "raw/orders/2.parquet", {"id": [3], "note": ["c"]})
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", **({variable: "1"} if variable else {})}
    with subprocess.Popen([*COMMAND, "plan"], stdout=follower, stderr=follower, env=environment) as process:
        process.wait(60)
        os.close(follower)
        said = os.read(leader, 100_000).decode()
        os.close(leader)
    assert "append" in said
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]m", said)) is coloured


def test_tables_of_the_log_fit_the_terminal(loaded: ProjectFolder, penstock) -> None:
    """When piped, nothing is cut."""
    assert penstock("run").code == 0
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
    with subprocess.Popen([*COMMAND, "log", "events"], stdout=follower, env=environment) as process:
        process.wait(60)
        os.close(follower)
        lines = os.read(leader, 100_000).decode().splitlines()
        os.close(leader)
    assert max(map(len, lines)) == 60
    assert max(map(len, penstock("log", "events").out.splitlines())) > 60


@pytest.mark.parametrize(("changes_rows", "shown"), [(True, "not by Penstock"), (False, "-")])
def test_only_a_commit_that_changed_rows_is_called_foreign(
    changes_rows: bool, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = Commit(1, None, "SET TBLPROPERTIES", 0, changes_rows)
    TextOutput(make_console()).history([HistoryEntry(commit, None)])
    assert capsys.readouterr().out.splitlines()[-1].rstrip().endswith(f"  {shown}")


def test_rows_that_are_held_back_are_not_nothing_to_do() -> None:
    why = Reason("held_back", "later ones are held back: a transaction has been open since 10:00")
    item = WorkItem(DatasetName("crm", "events"), "load", Action.NONE, (why,), None)
    plan, console = Plan("shop", None, (item,)), Console(file=io.StringIO(), width=300)
    TextOutput(console).plan(plan)
    TextOutput(console).run(plan, RunResult("b", (), 0.1))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    held = "Nothing to do now: 1 table may have rows that open transactions of the source hold back."
    assert [line for line in lines if line.startswith("Nothing")] == [held, held]
    assert "open since 10:00" in console.file.getvalue()


def test_rows_of_a_wide_table_are_readable_at_80_columns() -> None:
    """As a table, 40 columns would be squeezed until nothing is left of them."""
    names = tuple(f"customer_{number}_count_of_everything" for number in range(40))
    rows = Rows(names, (tuple(range(1000, 1040)), (None, "x" * 100, *range(38))))
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, highlight=False)
    output = TextOutput(console)
    output.rows(rows)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 80
    assert "customer_39_count_of_everything  1039" in lines
    assert "customer_0_count_of_everything   NULL" in lines
    after = lines[lines.index("row 2") + 2 :]
    assert "".join(line[33:] for line in after[:3]) == "x" * 100, "a long value goes on below its beginning"
    output.facts([("reads", ", ".join(f"staging.table_{number}" for number in range(9)))])
    told = console.file.getvalue().splitlines()[-3:]  # type: ignore[attr-defined]
    assert [line[:15] for line in told] == ["        reads  ", " " * 15, " " * 15]
    narrow = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, highlight=False)
    TextOutput(narrow).rows(Rows(("id", "name"), ((1, "Ann"),)))
    assert " id   name" in narrow.file.getvalue()  # type: ignore[attr-defined]


def test_a_place_is_whole_in_a_narrow_terminal_and_what_it_is_about_stands_beside_it() -> None:
    place = Location("transformations/a_definition_with_a_long_name.sql", 2, 24)
    late = Reason("not_deterministic", "recomputed on every run: rand() returns a different result on every run", place)
    random = WorkItem(
        DatasetName("main", "random"), "table", Action.RECOMPUTE, (Reason("first", "first build"), late), 1
    )
    problem = Problem(
        "column_unknown", "main.sums reads nope, a column that staging.orders does not have", location=place
    )
    refused = WorkItem(DatasetName("main", "sums"), "table", Action.RECOMPUTE, (), 1).refused(problem)
    plan = Plan("shop", None, (random, refused), warnings=(f"{place}: a warning that does not fit into one line",))
    narrow = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, highlight=False)
    TextOutput(narrow).plan(plan)
    lines = [line.rstrip() for line in narrow.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert " main.random   recompute   -       first build; see the note below" in lines
    assert " main.sums     skip        -       see the error below" in lines
    assert lines[-4:-1] == [
        f"note: {place}: main.random: {late.text}",
        f"warning: {place}: a warning that does not fit into one line",
        f"error: {problem}",
    ]
    wide = Console(file=io.StringIO(), width=300, force_terminal=True, color_system=None, highlight=False)
    TextOutput(wide).plan(plan)
    assert f"first build; {late.text} ({place})" in wide.file.getvalue()  # type: ignore[attr-defined]
