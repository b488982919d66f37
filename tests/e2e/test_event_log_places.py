"""A relative URI names the same file wherever it is written: penstock.yml, `--event-log`, `log copy`, the environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from contract.events import Maker
from contract.test_eventlog_postgres import fresh_schema
from penstock.cli import log as cli
from penstock.engine import open_project
from penstock.eventlog.opening import open_event_log
from penstock.log_access import find_log


@pytest.fixture(params=["p", "50% of a?#b"])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project; the working folder is another one."""
    folder = tmp_path / request.param
    (folder / "below").mkdir(parents=True)
    (folder / "penstock.yml").write_text("name: p\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def info(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(cli.app, ["info", "--json", *arguments])
    assert done.exception is None, done.exception
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("uri", ["sqlite:///e.db", "sqlite:///logs/e%25%3F.db?synchronous=full", "delta:///log"])
def test_run_and_log_mean_the_same_file(project: Path, uri: str) -> None:
    opened_by_run = open_project(project, event_log=uri).event_log
    assert find_log(uri, project) == opened_by_run
    assert find_log(uri, project / "below") == opened_by_run
    with open_event_log(opened_by_run) as log:
        log.append(Maker().one_of_each())
    assert info("-C", str(project), "--event-log", uri)["events"] == 9
    assert not list((project.parent / "elsewhere").iterdir())


def test_the_working_folder_finds_the_project_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "below")
    info("--event-log", "sqlite:///e.db")
    assert (project / "e.db").exists()


def test_the_shown_uri_opens_the_same_log(project: Path) -> None:
    for uri in ("sqlite:///a%25b%3F.db", "delta:///a%25b%3F"):
        with open_event_log(find_log(uri, project)) as log:
            log.append(Maker().one_of_each())
        shown = str(info("-C", str(project), "--event-log", uri)["uri"])
        assert info("--event-log", shown) == info("-C", str(project), "--event-log", uri)
        with open_event_log(shown) as again:
            assert again.uri == shown
            assert len(again.read()) == 9
    assert (project / "a%b?.db").is_file()
    assert (project / "a%b?" / "_delta_log").is_dir()


def test_copy_takes_uris_like_every_other_command(project: Path) -> None:
    with open_event_log(find_log("sqlite:///a.db", project)) as log:
        log.append(Maker().one_of_each())
    done = CliRunner().invoke(cli.app, ["copy", "sqlite:///a.db", "delta:///b", "-C", str(project), "--json"])
    assert done.exception is None, done.exception
    assert json.loads(done.stdout)["copied"] == 9
    assert (project / "b" / "_delta_log").is_dir()


def test_outside_a_project_a_file_is_below_the_folder(project: Path) -> None:
    elsewhere = project.parent / "elsewhere"
    info("--event-log", "sqlite:///e.db")
    assert (elsewhere / "e.db").exists()
    info("-C", str(project.parent), "--event-log", "sqlite:///f.db")
    assert (project.parent / "f.db").exists()
    assert find_log(f"delta://{elsewhere}/log") == f"delta:///{elsewhere}/log"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_names_of_postgresql_are_taken_everywhere(
    project: Path, scheme: str, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = fresh_schema(postgres_server).replace("postgresql://", f"{scheme}://")
    (project / "penstock.yml").write_text(f"name: p\nevent_log: {uri}\n")
    expected = info("-C", str(project))
    assert expected == info("--event-log", uri)
    monkeypatch.setenv("PENSTOCK__EVENT_LOG", uri)
    assert open_project(project).event_log == uri
    done = CliRunner().invoke(cli.app, ["copy", uri, "memory://", "--json"])
    assert done.exception is None, done.exception


def test_a_socket_and_a_user_can_be_options(postgres_server: str) -> None:
    """As libpq allows it, with no user and host before the database."""
    options = fresh_schema(postgres_server).partition("?")[2]
    assert info("--event-log", f"postgresql:///postgres?{options}&user=postgres")["uri"] == "postgresql:///postgres"
