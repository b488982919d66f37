"""`penstock log` as a user types it; the same command gives the same bytes on every backend."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from contract.damage import plant
from contract.damage import run as change
from contract.events import Maker, generated_history
from contract.test_eventlog_parity import fresh_uri
from penstock.cli import log as cli
from penstock.errors import UsageError
from penstock.eventlog.opening import open_event_log

HISTORY = [*Maker(3).one_of_each("b1"), *generated_history(400)]
REF = "sales.orders/day=2026-01-01"
COMMANDS = [
    ["events", "--limit", "1000"],
    ["events", "--partition", "db.t1/*", "--type", "job", "--type", "partition"],
    ["events", "--build", "build-000003", "--since", "2023-11-14T22:13:20Z", "--until", "2023-11-14T22:13:40"],
    ["events", "--run", "run-1"],
    ["events", "--job", "db.t2", "-n", "3"],
    ["tail", "--last", "5", "--no-follow"],
    ["builds"],
    ["builds", "--status", "failed", "--status", "completed", "--limit", "2", "--offset", "1"],
    ["build", "build-000001"],
    ["partitions", "--limit", "20"],
    ["partitions", "--status", "available"],
    ["partition", REF],
    ["jobs", "--build", "build-000002"],
    ["jobs", "--status", "running"],
    ["partitions", "--limit", "3", "--offset", "4"],
    ["jobs", "--limit", "3", "--offset", "4"],
    ["verify"],
    ["activity", "--recent", "3"],
    ["prune", "--before", "2023-11-14T22:15", "--dry-run"],
]


def run(uri: str, arguments: list[str], *, as_json: bool = True) -> str:
    result = CliRunner().invoke(cli.app, [*arguments, "--event-log", uri, *(["--json"] if as_json else [])])
    assert result.exception is None, result.exception
    return result.stdout


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = f"sqlite:///{tmp_path_factory.mktemp('log')}/log.db"
    with open_event_log(uri) as log:
        log.append(HISTORY)
    return uri


def test_a_build_is_found_by_the_start_of_its_id(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/log.db"
    maker = Maker(3)
    with open_event_log(uri) as log:
        for build in ("0199aa-1", "0199aa-11", "0199bb-2"):
            log.append(maker.one_of_each(build))
    for whole, short in (("0199bb-2", "0199b"), ("0199aa-1", "0199aa-1"), ("0199aa-11", "0199aa-11")):
        assert json.loads(run(uri, ["build", short]))["build_request_id"] == whole
        for command in ("events", "jobs"):
            assert run(uri, [command, "--build", short]) == run(uri, [command, "--build", whole])
        assert len(json.loads(run(uri, ["events", "--build", short]))) > 5
    result = CliRunner().invoke(cli.app, ["build", "0199", "--event-log", uri])
    assert isinstance(result.exception, UsageError)
    assert "several build requests start with 0199" in str(result.exception)
    assert run(uri, ["events", "--build", "nosuch"]) == "[]\n"
    assert " s  " in run(uri, ["builds"], as_json=False).splitlines()[1], "how long it took"


@pytest.mark.parametrize("backend", ["postgres", "delta", "s3"])
def test_the_same_command_gives_the_same_bytes(
    backend: str,
    reference: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = fresh_uri(backend, request, tmp_path, monkeypatch)
    with open_event_log(uri) as log:
        log.append(HISTORY)
    for command in COMMANDS:
        expected = run(reference, command)
        assert run(uri, command) == expected
        if command[0] != "tail":
            json.loads(expected)
        assert run(uri, command, as_json=False) == run(reference, command, as_json=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_people_get_columns(reference: str, command: list[str]) -> None:
    text = run(reference, command, as_json=False)
    assert text.strip()
    assert not text.startswith(("[", "{"))


def test_positions_let_a_reader_go_on(reference: str) -> None:
    first = json.loads(run(reference, ["events", "--limit", "3", "--positions"]))
    after = str(first[-1]["position"])
    second = json.loads(run(reference, ["events", "--limit", "3", "--after", after]))
    whole = json.loads(run(reference, ["events", "--limit", "6"]))
    assert [event["event_id"] for event in (*first, *second)] == [event["event_id"] for event in whole]
    assert "position" in run(reference, ["events", "-n", "1", "--positions"], as_json=False)


def test_info_migrate_prune_and_copy(tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"delta://{tmp_path}/b?cache={tmp_path}/cache"
    with open_event_log(source) as log:
        log.append(HISTORY)
    assert json.loads(run(source, ["info"]))["events"] == len(HISTORY)
    assert json.loads(run("memory://", ["copy", source, target]))["copied"] == len(HISTORY)
    assert run(target, ["builds"]) == run(source, ["builds"])
    moved = json.loads(run(source, ["migrate", "--to", "1"]))
    assert (moved["before"], moved["after"]) == (2, 1)
    assert json.loads(run(source, ["migrate"]))["after"] == 2
    dry = json.loads(run(source, ["prune", "--before", "2023-11-15", "--dry-run"]))
    done = json.loads(run(source, ["prune", "--before", "2023-11-15"]))
    assert dry["removed"] == done["removed"] > 0
    assert json.loads(run(source, ["info"]))["events"] == done["kept"]


@pytest.mark.parametrize(
    "command",
    [
        ["build", "nobody"],
        ["partition", "nothing"],
        ["builds", "--status", "asleep"],
        ["events", "--type", "party"],
        ["events", "--since", "yesterday-ish"],
        ["migrate", "--to", "99"],
    ],
)
def test_a_wrong_command_is_explained(reference: str, command: list[str]) -> None:
    result = CliRunner().invoke(cli.app, [*command, "--event-log", reference])
    assert isinstance(result.exception, UsageError)
    assert result.exception.hint


def test_times_are_read_as_people_write_them() -> None:
    assert cli.to_nanoseconds("1970-01-02") == 86_400 * 10**9
    assert cli.to_nanoseconds("1970-01-01T01:00:00.000001+01:00") == 1000
    assert 0 < cli.to_nanoseconds("1h") - cli.to_nanoseconds("2h") - 3600 * 10**9 + 10**9 < 2 * 10**9


def test_follow_streams_until_interrupted(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.db"
    # A test run in the background ignores interrupts, and its children with it, unless they say otherwise.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from penstock.cli.main import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, "log", "events", "--follow", "--json", "--event-log", uri]
    with (
        open_event_log(uri) as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        log.append(HISTORY[:2])
        seen = [json.loads(process.stdout.readline()) for _ in range(2)]
        log.append(HISTORY[2:4])
        seen += [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert [event["event_id"] for event in seen] == [event.event_id for event in HISTORY[:4]]


def test_a_log_is_verified_repaired_compacted_and_redacted(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    uri = f"sqlite:///{path}"
    with open_event_log(uri) as log:
        log.append(HISTORY)
        plant(log, "unknown type")
        change(log, "UPDATE penstock_build SET status = 6")
    broken = CliRunner().invoke(cli.app, ["verify", "--event-log", uri])
    assert broken.exit_code == 1
    assert "penstock_build are missing or different" in broken.stdout
    assert "hologram" in broken.stdout
    repaired = json.loads(run(uri, ["repair"]))
    assert (repaired["is_sound"], len(repaired["unreadable"]), repaired["events"]) == (True, 1, len(HISTORY) + 1)
    assert json.loads(run(uri, ["repair", "--remove-unreadable"]))["unreadable"] == []
    assert json.loads(run(uri, ["rebuild-projection"]))["events"] == len(HISTORY)
    compacted = json.loads(run(uri, ["compact"]))
    assert 0 < compacted["bytes_after"] <= compacted["bytes_before"]
    assert "asked by" in run(uri, ["events", "--build", "b1"])
    assert json.loads(run(uri, ["redact", HISTORY[0].event_id])) == {"event_ids": [HISTORY[0].event_id]}
    assert "asked by" not in run(uri, ["events", "--build", "b1"])
    assert b"asked by" not in path.read_bytes()
    assert json.loads(run(uri, ["verify"]))["is_sound"]


def test_redaction_of_an_unknown_event_is_refused(reference: str) -> None:
    result = CliRunner().invoke(cli.app, ["redact", "no-such-event", "--event-log", reference])
    assert isinstance(result.exception, UsageError)
