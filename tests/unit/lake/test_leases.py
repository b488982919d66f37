"""Leases beside a table: writers together, one alone, and what dead processes leave ends by itself."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.storage_servers import BUCKET

from penstock.errors import ConcurrentRunError, StorageError
from penstock.lake.lease_owners import Owner, is_ended, this_process
from penstock.lake.leases import LEASES, Terms, find_exclusive, hold_exclusive, hold_shared
from penstock.storage.files import Files, open_files
from penstock.storage.local import LocalFiles

TABLE = "main/orders"
EXCLUSIVE = f"{TABLE}/{LEASES}/exclusive.json"
BRIEF = Terms(writer_wait=0.1, exclusive_wait=0.1, poll=0.01)
_HOLD = """
import sys, time
from penstock.lake.leases import hold_exclusive, hold_shared
from penstock.storage.files import open_files
hold = {"shared": hold_shared, "exclusive": hold_exclusive}[sys.argv[2]]
with hold(open_files(sys.argv[1]), "main/orders", "a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(files: Files, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds a lease until its input ends."""
    command = [sys.executable, "-c", _HOLD, files.uri, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            if process.poll() is None:
                process.communicate(timeout=20)


def leases_in(files: Files) -> list[str]:
    return [name for name in files.names(f"{TABLE}/{LEASES}") if not name.startswith(".new-")]


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    if request.param == "disk":
        return open_files(str(tmp_path))
    for variable, value in request.getfixturevalue("s3_environment").items():
        monkeypatch.setenv(variable, value)
    return open_files(f"s3://{BUCKET}/leases/{tmp_path.name}")


def test_writers_together_and_one_alone_in_other_processes(place: Files) -> None:
    with holder(place, "shared") as process, hold_shared(place, TABLE):
        assert len(leases_in(place)) == 2
        with (
            pytest.raises(ConcurrentRunError, match="cannot be held alone within a write"),
            hold_exclusive(place, TABLE, "x"),
        ):
            pass
    with holder(place, "shared") as process:
        named = pytest.raises(ConcurrentRunError, match=f"in use: a test by process {process.pid} on")
        with named as refused, hold_exclusive(place, TABLE, "x", BRIEF):
            pass
        assert refused.value.retryable
        assert "exclusive.json" not in leases_in(place), "who gives up leaves nothing"
    with holder(place, "exclusive") as process:
        assert find_exclusive(place, TABLE) == f"a test by process {process.pid} on {socket.gethostname()}"
        for hold in (hold_shared, hold_exclusive):
            named = pytest.raises(ConcurrentRunError, match=f"in use: a test by process {process.pid}")
            with named, hold(place, TABLE, "x", BRIEF):
                pass
    assert leases_in(place) == []
    assert find_exclusive(place, TABLE) is None


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_the_lease_of_a_killed_process_ends_at_once(place: Files, kind: str) -> None:
    with holder(place, kind) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert leases_in(place)
        with hold_shared(place, TABLE, terms=BRIEF):
            pass
        with hold_exclusive(place, TABLE, "x", BRIEF) as lease:
            lease.check()
            assert leases_in(place) == ["exclusive.json"]
    assert leases_in(place) == []


def test_who_waits_goes_on_when_the_other_ends(storage: LocalFiles) -> None:
    order: list[str] = []
    entered = threading.Event()

    def write() -> None:
        with hold_shared(storage, TABLE):
            entered.set()
            time.sleep(0.2)
            order.append("write")

    writer = threading.Thread(target=write)
    writer.start()
    entered.wait()
    with hold_exclusive(storage, TABLE, "x"):
        order.append("alone")
        late = threading.Thread(target=write)
        late.start()
        time.sleep(0.2)
        order.append("still alone")
    writer.join()
    late.join()
    assert order == ["write", "alone", "still alone", "write"]


def test_many_at_once_never_meet(storage: LocalFiles) -> None:
    inside: list[str] = []
    met: list[list[str]] = []

    def work(kind: str) -> None:
        for _ in range(5):
            hold = hold_shared(storage, TABLE) if kind == "shared" else hold_exclusive(storage, TABLE, "x")
            with hold:
                inside.append(kind)
                met.append([*inside])
                time.sleep(0.002)
                inside.remove(kind)

    threads = [threading.Thread(target=work, args=[kind]) for kind in ("shared", "shared", "exclusive", "exclusive")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(met) == 20
    assert all("exclusive" not in each or each == ["exclusive"] for each in met)


def test_writes_inside_go_on_under_the_lease_that_is_held(storage: LocalFiles) -> None:
    with hold_exclusive(storage, TABLE, "x", BRIEF) as lease, hold_shared(storage, TABLE, terms=BRIEF):
        with hold_exclusive(storage, TABLE, "y", BRIEF) as again:
            assert again is lease
        with hold_shared(storage, "main/other", terms=BRIEF):
            assert storage.names(f"main/other/{LEASES}")
        assert leases_in(storage) == ["exclusive.json"]


def put(storage: LocalFiles, path: str, owner: Owner, expires_at: float) -> None:
    target = storage.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"owner": asdict(owner), "purpose": "a test", "expires_at": expires_at}))


def test_a_lease_of_another_machine_ends_when_it_has_expired(storage: LocalFiles) -> None:
    elsewhere = replace(this_process("1" * 32), host="elsewhere", process=1)
    put(storage, EXCLUSIVE, elsewhere, time.time() - 10)
    with pytest.raises(ConcurrentRunError, match="process 1 on elsewhere"), hold_shared(storage, TABLE, terms=BRIEF):
        pass
    put(storage, EXCLUSIVE, elsewhere, time.time() - BRIEF.skew - 1)
    put(storage, f"{TABLE}/{LEASES}/shared-{'2' * 32}.json", elsewhere, time.time() - BRIEF.skew - 1)
    with hold_exclusive(storage, TABLE, "x", BRIEF) as lease:
        lease.check()


def test_whose_lease_was_taken_over_notices(storage: LocalFiles) -> None:
    with hold_exclusive(storage, TABLE, "x") as lease:
        lease.check()
        put(storage, EXCLUSIVE, replace(this_process("1" * 32), host="elsewhere"), time.time() + 60)
        with pytest.raises(ConcurrentRunError, match=r"ended before its work did: a test by process .* on elsewhere"):
            lease.check()
        lease.renew()
        with pytest.raises(ConcurrentRunError):
            lease.check()
    assert storage.exists(EXCLUSIVE), "the lease of the other one is not touched"


def test_a_lease_is_renewed_while_it_is_held(storage: LocalFiles) -> None:
    short = Terms(duration=0.3, skew=0)
    with hold_exclusive(storage, TABLE, "x", short) as lease:
        first = storage.read(EXCLUSIVE)
        time.sleep(1)
        lease.check()
        assert storage.read(EXCLUSIVE) != first
        assert find_exclusive(storage, TABLE, short) is not None
    assert leases_in(storage) == []


def test_a_lease_that_could_not_be_renewed_is_not_trusted(storage: LocalFiles) -> None:
    with hold_exclusive(storage, TABLE, "x", Terms(duration=60)) as lease:
        lease._renewed -= 61
        with pytest.raises(ConcurrentRunError, match="ended before its work did"):
            lease.check()


def test_one_of_many_takes_over(storage: LocalFiles) -> None:
    put(storage, EXCLUSIVE, replace(this_process("1" * 32), process=2**22 + 1), time.time() + 60)
    alone: list[int] = []

    def take(number: int) -> None:
        with hold_exclusive(storage, TABLE, "x", Terms(exclusive_wait=20)) as lease:
            lease.check()
            alone.append(number)
            assert len(alone) == 1
            lease.check()
            alone.remove(number)

    threads = [threading.Thread(target=take, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert leases_in(storage) == []


def test_a_process_is_known_by_when_it_started() -> None:
    assert not is_ended(this_process("x"))
    assert is_ended(replace(this_process("x"), started="0")), "another process has its id now"
    assert not is_ended(replace(this_process("x"), machine="another boot", started="0")), "unknown from here"
    assert not is_ended(replace(this_process("x"), process=1, started=_start_of(1)))


def _start_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]


def test_a_lease_that_cannot_be_read_is_an_error_that_names_it(storage: LocalFiles) -> None:
    (storage.root / TABLE / LEASES).mkdir(parents=True)
    (storage.root / EXCLUSIVE).write_text("{")
    with pytest.raises(StorageError, match=r"exclusive\.json cannot be read"), hold_shared(storage, TABLE):
        pass


def test_a_lease_costs_little(storage: LocalFiles) -> None:
    with hold_shared(storage, TABLE):
        pass
    began = time.perf_counter()
    for _ in range(20):
        with hold_shared(storage, TABLE):
            pass
    assert (time.perf_counter() - began) / 20 < 0.05
    assert os.listdir(storage.root / TABLE / LEASES) == []  # noqa: PTH208


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.create(f"{TABLE}/{LEASES}", b"")
    with pytest.raises(StorageError, match=f"{LEASES} is not a folder") as caught, hold_shared(files, TABLE):
        pass
    assert str(caught.value.hint).startswith("move it away")
