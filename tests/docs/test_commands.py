"""Every command is documented, and what the pages tell a reader to type exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from penstock.cli.reference import commands, common_options, reference_text
from tests.docs.markdown import DOCS, PAGES, ROOT, fences, section

COMMANDS = {command.name: command for command in commands()}
COMMON = {name for option in common_options() for name in option.names}
OPTIONS = {
    name: COMMON | {spelling for option in command.options for spelling in option.names}
    for name, command in COMMANDS.items()
}


def test_the_reference_is_up_to_date() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == reference_text(), "run `make docs`"


@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_reference_does_not_depend_on_the_terminal(columns: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.reference"],
        env={**os.environ, "COLUMNS": columns, "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == reference_text()


def test_every_command_is_in_the_reference_and_in_the_readme() -> None:
    reference = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^### penstock (.+)$", reference, re.MULTILINE) == list(COMMANDS)
    table = section(ROOT / "README.md", "Commands")
    for command in COMMANDS:
        group, _, name = command.rpartition(" ")
        line = next(
            (line for line in table.splitlines() if f"`penstock {group or name}" in line and name in line), None
        )
        assert line is not None, command


def test_every_command_and_option_has_a_help_text() -> None:
    for command in COMMANDS.values():
        assert command.help.endswith(".")
        assert all(parameter.help for parameter in (*command.arguments, *command.options))


def _typed() -> list[tuple[str, str]]:
    """Every `penstock ...` line of a console block and every inline `penstock ...` of the pages."""
    found = []
    for page in PAGES:
        lines = [line.removeprefix("$ ") for fence in fences(page, "console") for line in fence.text.splitlines()
                 if line.startswith("$ penstock")]  # fmt: skip
        lines += re.findall(r"`(penstock [^`]+)`", page.read_text(encoding="utf-8"))
        found += [(page.name, line) for line in lines]
    return found


@pytest.mark.parametrize(("page", "line"), _typed())
def test_what_the_pages_type_exists(page: str, line: str) -> None:
    words = shlex.split(line.partition(" | ")[0], comments=True)[1:]
    if words[0] in {"COMMAND", "--version"}:
        return
    groups = {command.split()[0] for command in COMMANDS if " " in command}
    if words[0] in groups and len(words) == 1:
        return
    command = " ".join(words[:2]) if words[0] in groups else words[0]
    assert command in COMMANDS, page
    used = {word.partition("=")[0] for word in words[1:] if word.startswith("-")} - {"--help"}
    assert used <= OPTIONS[command], page


def test_the_tour_walks_through_the_commands() -> None:
    tour = section(ROOT / "README.md", "A five-minute tour")
    assert {"init", "plan", "run", "show", "history"} <= set(re.findall(r"^\$ penstock (\w+)", tour, re.MULTILINE))
