"""Python, make and a Java are enough: nothing that the targets and the test servers call must be installed besides."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import obstore
import pytest
from tests import tools
from tests.storage_servers import azure_server, open_azure, open_s3, s3_server

from penstock.session.java import find_java

ROOT = Path(__file__).parent.parent.parent
FOREIGN = re.compile(r"(?<![\w./-])(go|node|nodejs|npm|npx|yarn|docker|podman|cargo|mvn)(?=\s|$)")
BASICS = ("sh", "make", "date", "touch", "true", "test", "grep", "sed", "expand", "rm")


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make with a PATH that has only what every machine has, without what a make around this test has set."""
    path = folder / "path"
    path.mkdir()
    for name in BASICS:
        found = shutil.which(name)
        assert found is not None, f"{name} is not on PATH"
        (path / name).symlink_to(found)
    command = ["make", "--directory", str(ROOT), "--no-print-directory", *arguments]
    return subprocess.run(
        command, env={"PATH": str(path), "HOME": str(folder)}, capture_output=True, text=True, timeout=60, check=False
    )


def stub_environment(folder: Path, exit_code: int) -> tuple[str, ...]:
    """Make's variables for an installed environment whose pytest ends with this code."""
    programs = folder / "bin"
    programs.mkdir()
    for name, code in (("python", 0), ("pytest", exit_code)):
        (programs / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (programs / name).chmod(0o755)
    (programs / "stamp").touch()
    return f"BIN={programs}", f"STAMP={programs}/stamp"


@pytest.mark.parametrize("target", ["setup", "demo", "test", "lint", "docs", "lock"])
def test_a_target_calls_nothing_that_must_be_installed(tmp_path: Path, target: str) -> None:
    shown = make(tmp_path, "--dry-run", "--always-make", target)
    assert shown.returncode == 0, shown.stderr
    assert FOREIGN.findall(shown.stdout) == []


def test_the_check_of_every_change_is_lint_and_test() -> None:
    commands = (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"^make .*$", commands, re.MULTILINE) == ["make lint", "make test"]
    assert FOREIGN.findall(commands) == []


@pytest.mark.parametrize(("pytest_ends", "make_ends"), [(0, 0), (1, 2)])
def test_make_test_tells_its_time_and_keeps_the_exit_code(tmp_path: Path, pytest_ends: int, make_ends: int) -> None:
    done = make(tmp_path, "test", *stub_environment(tmp_path, pytest_ends))
    assert done.returncode == make_ends, done.stderr
    assert re.search(r"^make test: \d+ min \d+ s$", done.stdout, re.MULTILINE)


def test_the_servers_start_with_nothing_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(find_java().home))
    monkeypatch.setenv("PATH", str(tmp_path))
    with s3_server(tmp_path) as s3, azure_server(tmp_path) as azure:
        for store in (open_s3(s3), open_azure(azure)):
            obstore.put(store, "here", b"x")
            assert [file["path"] for file in obstore.list(store).collect()] == ["here"]


def test_azurite_is_installed_by_the_npm_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(tools, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(tools.subprocess, "run", lambda command, **_: called.append(command))
    tools.azurite()
    (command,) = called
    assert command[2] == "ci"
    assert all(Path(program).is_file() and Path(program).is_relative_to(sys.prefix) for program in command[:2])
    assert os.access(command[0], os.X_OK)


def test_the_locks_name_no_registry() -> None:
    for lock in (ROOT / "requirements").rglob("*.*"):
        assert not re.search(r'"resolved"|--(extra-)?index-url', lock.read_text()), lock
