"""Wrong commands and wrong projects: exit code 2, a message on stderr, nothing on stdout, no stack trace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.cli.reference import commands
from projects import ProjectFolder

COMMANDS = ("plan", "run", "rebuild", "ls", "show", "history", "init", "demo", "doctor")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nonsense"], "--nonsense"),
        (["plan", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["plan", "extra"], "extra"),
        (["show"], "DATASET"),
        (["history", "orders", "--limit", "0"], "--limit"),
        (["show", "orders", "--rows", "many"], "--rows"),
        (["plan", "--log-format", "xml"], "xml"),
        (["run", "--wait", "long"], "--wait"),
        (["run", "--wait", "-1"], "--wait"),
        (["ls", "--graph", "foo"], "'--graph': 'foo' is not one of"),
        (["plan", "--select", "nothing"], "nothing"),
        (["plan", "--select", "totls"], "did you mean `totals`"),
        (["plan", "--select", ""], "--select is empty"),
        (["plan", "--exclude", "tag:none"], "tag:none"),
        (["plan", "--full-refresh", "nothing"], "there is no dataset nothing"),
        (["run", "--full-refresh", "nothing"], "there is no dataset nothing"),
        (["run", "--full-refresh", "nothing", "--full-refresh", "totals"], "there is no dataset nothing"),
        (["run", "--allow-history-loss", "nothing", "--allow-history-loss", "orders"], "there is no dataset nothing"),
        (["plan", "--full-refresh", "totals", "--full-refresh", ","], "--full-refresh is empty"),
        (["rebuild"], "TABLE"),
        (["rebuild", "nothing"], "nothing"),
        (["rebuild", "totls"], "did you mean `totals`"),
        (["rebuild", "totals", "nothing"], "nothing"),
        (["rebuild", "+totals"], "'+totals' is not a dataset name"),
        (["rebuild", "tag:big"], "'tag:big' is not a dataset name"),
        (["show", "nothing"], "there is no dataset nothing"),
        (["show", "a.b.c.d"], "is not a dataset name"),
        (["show", "totals", "--rows", "3"], "main.totals has no table yet"),
        (["show", "totals", "--quarantine"], "main.totals has no quarantined rows"),
        (["history", "ordrs"], "there is no dataset ordrs"),
        (["plan", "--var", "novalue"], "--var novalue: write it as name=value"),
        (["plan", "--var", "=x"], "--var =x"),
        (["plan", "--target", "prod"], "unknown target `prod`"),
        (["plan", "--project-dir", "missing"], "there is no folder missing"),
        (["run", "--event-log", "nothing://x"], "--event-log: `event_log` must be a URI"),
        (["init", "bad/name"], "bad/name"),
        (["demo", "--json"], "has no --json form"),
    ],
)
def test_a_wrong_command_is_explained(arguments: list[str], said: str, shop: ProjectFolder, penstock) -> None:
    answer = penstock(*arguments)
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert said in answer.err


@pytest.mark.parametrize("command", ["plan", "run", "ls"])
def test_without_a_project_the_way_to_one_is_told(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penstock
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = penstock(command)
    assert (answer.code, answer.out) == (2, "")
    assert "no penstock.yml in" in answer.err
    assert "penstock init" in answer.err


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("penstock.yml", "name: shop\nstorag: x\n", "penstock.yml:2:1"),
        ("transformations/bad.sql", "CREATE MATERIALIZED VIEW x AS SELEC 1\n", "transformations/bad.sql:1"),
        ("transformations/bad.py", "x = 1\ndef broken(:\n", "transformations/bad.py:2"),
        ("transformations/bad.py", "x = 1\nraise ValueError('no')\n", "transformations/bad.py:2"),
        (
            "transformations/bad.sql",
            "CREATE MATERIALIZED VIEW x AS SELECT * FROM staging.ordrs\n",
            "transformations/bad.sql:1",
        ),
    ],
)
def test_a_mistake_in_the_project_is_told_with_its_place(
    file: str, text: str, place: str, shop: ProjectFolder, penstock
) -> None:
    (shop.root / file).write_text(text)
    answer = penstock("plan")
    assert (answer.code, answer.out) == (2, "")
    assert place in answer.err


def test_errors_are_json_when_logs_are(shop: ProjectFolder, penstock) -> None:
    answer = penstock("plan", "--log-format", "json", "--select", "nothing")
    (line,) = answer.err.splitlines()
    error = json.loads(line)
    assert (answer.code, error["level"], error["code"]) == (2, "error", "usage")
    assert "nothing" in error["message"]


def test_a_message_shows_brackets_of_the_user_as_they_are(shop: ProjectFolder, penstock) -> None:
    assert "[red]x[/red]" in penstock("plan", "--select", "[red]x[/red]").err


def test_settings_of_one_command_do_not_leak_into_the_next(shop: ProjectFolder, penstock) -> None:
    assert penstock("plan", "--log-format", "json", "--select", "nothing").err.startswith("{")
    assert penstock("plan", "--nonsense").err.startswith("error: ")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_explains_every_command(command: str, penstock) -> None:
    answer = penstock(*command.split(), "--help")
    assert (answer.code, answer.err) == (0, "")
    assert f"Usage: penstock {command}" in answer.out
    listed = COMMANDS if not command else ("--project-dir", "--target", "--json", "--quiet", "--log-format")
    assert all(word in answer.out for word in listed)


def test_no_command_shows_the_help(penstock) -> None:
    answer = penstock()
    assert answer.code == 2
    assert answer.out.startswith("Usage: penstock")
    assert answer.err == ""


def test_the_version_is_shown(penstock) -> None:
    answer = penstock("--version")
    assert answer.code == 0
    assert answer.out.startswith("penstock 0.")


@pytest.mark.parametrize(("field", "place"), [("raw: nowhere", "2:6"), ("raw:\n  path: nowhere", "3:9")])
def test_a_raw_folder_that_is_not_there_is_an_error_of_the_project_file(
    field: str, place: str, shop: ProjectFolder, penstock
) -> None:
    shop.configure(f"name: shop\n{field}\n")
    answer = penstock("plan")
    assert (answer.code, answer.out) == (2, "")
    assert f"penstock.yml:{place}: the raw folder" in answer.err


def test_who_reads_a_temporary_view_is_found_once_however_many_ways_lead_there(shop: ProjectFolder, penstock) -> None:
    layers = [(f"v{depth}_{side}", depth) for depth in range(30) for side in "ab"]
    sources = {
        depth: f"v{depth - 1}_a NATURAL JOIN v{depth - 1}_b" if depth else "staging.orders" for depth in range(31)
    }
    shop.define("v.sql", ";\n".join(f"CREATE TEMPORARY VIEW {n} AS SELECT * FROM {sources[d]}" for n, d in layers))
    shop.define("a.sql", f"CREATE MATERIALIZED VIEW top AS SELECT * FROM {sources[30]}")
    assert "hint: main.top reads it: name that table" in penstock("plan", "--select", "v0_a").err


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (("plan", "--select", "latest"), "--select latest: main.latest"),
        (("plan", "--select", "main.latest+"), "--select main.latest+: main.latest"),
        (("plan", "--exclude", "latest"), "--exclude latest: main.latest"),
        (("plan", "--full-refresh", "latest"), "main.latest"),
        (("plan", "--allow-history-loss", "latest"), "main.latest"),
        (("rebuild", "latest"), "rebuild latest: main.latest"),
        (("compact", "latest"), "main.latest"),
        (("mark", "latest", "available", "--reason", "x"), "main.latest"),
        (("history", "latest"), "main.latest"),
        (("build", "latest"), "main.latest"),
        (("build", "latest+"), "build latest+: main.latest"),
    ],
)
def test_a_temporary_view_has_no_table_and_who_reads_it_is_said(
    arguments: tuple[str, ...], start: str, shop: ProjectFolder, penstock
) -> None:
    shop.define("latest.sql", "CREATE TEMPORARY VIEW latest AS SELECT * FROM staging.orders")
    shop.define("again.sql", "CREATE TEMPORARY VIEW again AS SELECT * FROM latest")
    shop.define("a.sql", "CREATE MATERIALIZED VIEW newest AS SELECT * FROM again")
    answer = penstock(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert f"error: {start} is a temporary view, which has no table of its own" in answer.err
    assert "hint: main.newest reads it: name that table" in answer.err


def test_no_help_shows_types_of_python(penstock) -> None:
    for command in commands():
        said = penstock(*command.name.split(), "--help").out
        assert not re.search(r"<\w|\[\[|list\[|\{", said.replace("${NAME}", "")), command.name
    said = penstock("build", "--help").out
    assert said.startswith("Usage: penstock build [OPTIONS] REF...")
    assert "--var NAME=VALUE" in said
    assert "Usage: penstock compact [OPTIONS] [TABLE...]" in penstock("compact", "--help").out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("-C", ".", "run"), "-C comes after the command: `penstock run -C`"),
        (("--select", "totals", "run"), "--select comes after the command: `penstock run --select`"),
        (("--json", "log", "events"), "--json comes after the command: `penstock log events --json`"),
        (("log", "--json", "events"), "--json comes after the command: `penstock log events --json`"),
        (("--select", "totals"), "--select comes after the command: `penstock plan --select`"),
        (("--nonsense", "plan"), "see `penstock --help`"),
        (("plan", "--every", "1"), "see `penstock --help`"),
    ],
)
def test_an_option_before_its_command_is_told_where_it_belongs(
    arguments: tuple[str, ...], hint: str, shop: ProjectFolder, penstock
) -> None:
    answer = penstock(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[-1] == f"  hint: {hint}"


def test_a_dataset_that_was_never_built_has_no_history_yet(shop: ProjectFolder, penstock) -> None:
    assert penstock("history", "totals").out == "No history yet: the table has not been built.\n"
    assert penstock("history", "totals", "--json").json == []
