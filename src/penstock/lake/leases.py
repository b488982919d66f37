"""Leases beside a table: writers share it, and whoever removes files has it alone. No JVM.

A lease is a small file below `<table>/_penstock/leases/`, created exclusively: so it works on disk and in object stores, and for
`penstock.apply_changes` outside any project. A thread renews it while it is held. The lease of a process that died ends by
itself: at once on the same machine, elsewhere when it has expired.

A writer first creates its lease and then looks for an exclusive one; whoever wants the table alone first creates the exclusive
lease and then looks for writers. So at least one of the two sees the other.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from uuid import uuid4

from penstock.errors import ConcurrentRunError, PenstockError, StorageError
from penstock.lake.lease_owners import Owner, is_ended, this_process
from penstock.lake.lease_renewal import RENEWALS
from penstock.lake.manifests import FOLDER
from penstock.storage.files import Files

LEASES = f"{FOLDER}/leases"
_EXCLUSIVE = "exclusive.json"
_SHARED = re.compile(r"shared-[0-9a-f]{32}\.json\Z")


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a lease lasts without renewal, and how patiently one waits for it; all in seconds."""

    duration: float = 60.0
    skew: float = 30.0
    """How far the clocks of two machines may be apart."""
    writer_wait: float = 60.0
    exclusive_wait: float = 60.0
    poll: float = 0.05
    settle: float = 0.05
    """After a takeover: two that take over at the same moment find out in this time which of them did."""


TERMS = Terms()


@dataclass(frozen=True, slots=True)
class _Record:
    """What a lease file says."""

    owner: Owner
    purpose: str
    expires_at: float

    def is_live(self, terms: Terms) -> bool:
        return time.time() < self.expires_at + terms.skew and not is_ended(self.owner)

    def __str__(self) -> str:
        return f"{self.purpose} by {self.owner}"


@dataclass(slots=True)
class Lease:
    """A lease that is held."""

    files: Files
    table: str
    path: str
    terms: Terms
    _record: _Record
    _renewed: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """ConcurrentRunError when the lease has ended or another process took it over; call it before each irreversible step."""
        found = _read(self.files, self.path)
        is_ours = found is not None and found.owner == self._record.owner
        if not is_ours or time.monotonic() - self._renewed > self.terms.duration:
            by = f": {found}" if found is not None and not is_ours else ""
            raise ConcurrentRunError(
                f"the lease on {self.table} ended before its work did{by}; nothing more was removed", hint="run again"
            )

    def renew(self) -> None:
        """Extend the lease, unless another process took it over."""
        stamp = self.files.stamp(self.path)
        if stamp is None or _read(self.files, self.path) != self._record:
            return
        began = time.monotonic()
        record = replace(self._record, expires_at=time.time() + self.terms.duration)
        aside = f"{self.path}.{self._record.owner.id[:8]}"
        with self.files.open_new(aside, self.path) as stream:
            stream.write(_to_bytes(record))
        self.files.replace(aside, self.path, stamp)
        self._record, self._renewed = record, began

    def release(self) -> None:
        """End the lease, unless another process took it over."""
        RENEWALS.remove(self)
        with suppress(FileNotFoundError):
            if _read(self.files, self.path) == self._record:
                self.files.remove(self.path)


_held: ContextVar[Mapping[str, Lease | None]] = ContextVar("penstock_leases")
"""The leases of this line of execution: what it calls may write under them. A shared one is None."""


@contextmanager
def hold_shared(files: Files, table: str, purpose: str = "a write", terms: Terms = TERMS) -> Iterator[None]:
    """Write to a table in this block; ConcurrentRunError when somebody else keeps it to themselves for too long."""
    place = files.spark_path(table)
    if place in _held.get({}):
        yield
        return
    lease = _claim_shared(files, table, purpose, terms)
    with _holding(lease, place, None):
        yield


@contextmanager
def hold_exclusive(files: Files, table: str, purpose: str, terms: Terms = TERMS) -> Iterator[Lease]:
    """Keep a table to ourselves in this block; ConcurrentRunError that names the owner when another process does not end in time.

    Inside a block that has the table already, the lease of that block is given again.
    """
    place = files.spark_path(table)
    known = _held.get({}).get(place)
    if known is not None:
        yield known
        return
    if place in _held.get({}):
        raise ConcurrentRunError(f"{table} cannot be held alone within a write to it")
    deadline = time.monotonic() + terms.exclusive_wait
    lease = _claim_exclusive(files, table, purpose, terms, deadline)
    with _holding(lease, place, lease):
        _wait_for_writers(lease, deadline)
        yield lease


def find_exclusive(files: Files, table: str, terms: Terms = TERMS) -> str | None:
    """Who keeps a table to themselves now; None when nobody does."""
    found = _read(files, f"{table}/{LEASES}/{_EXCLUSIVE}")
    return str(found) if found is not None and found.is_live(terms) else None


@contextmanager
def _holding(lease: Lease, place: str, as_: Lease | None) -> Iterator[None]:
    RENEWALS.add(lease, lease.terms.duration / 3)
    token = _held.set({**_held.get({}), place: as_})
    try:
        yield
    finally:
        _held.reset(token)
        with suppress(PenstockError, OSError):  # what the block raised says more; an old lease ends by itself
            lease.release()


def _claim_shared(files: Files, table: str, purpose: str, terms: Terms) -> Lease:
    deadline = time.monotonic() + terms.writer_wait
    exclusive = f"{table}/{LEASES}/{_EXCLUSIVE}"
    while True:
        record = _new_record(purpose, terms)
        lease = Lease(files, table, f"{table}/{LEASES}/shared-{record.owner.id}.json", terms, record)
        files.create(lease.path, _to_bytes(record))
        other = _read(files, exclusive)
        if other is None or not other.is_live(terms):
            return lease
        lease.release()
        while other is not None and other.is_live(terms):
            if time.monotonic() >= deadline:
                raise _in_use(table, [other])
            time.sleep(terms.poll)
            other = _read(files, exclusive)


def _claim_exclusive(files: Files, table: str, purpose: str, terms: Terms, deadline: float) -> Lease:
    path = f"{table}/{LEASES}/{_EXCLUSIVE}"
    while True:
        record = _new_record(purpose, terms)
        lease = Lease(files, table, path, terms, record)
        try:
            files.create(path, _to_bytes(record))
        except FileExistsError:
            stamp, other = files.stamp(path), _read(files, path)
            if other is None or stamp is None:
                continue
            if not other.is_live(terms) and _take_over(lease, stamp):
                return lease
            if time.monotonic() >= deadline:
                raise _in_use(table, [other]) from None
            time.sleep(terms.poll)
        else:
            return lease


def _take_over(lease: Lease, stamp: str) -> bool:
    """Put our lease in the place of one whose owner died; False when another process was faster."""
    aside = f"{lease.path}.{lease._record.owner.id[:8]}"  # noqa: SLF001 - same module
    try:
        with lease.files.open_new(aside, lease.path) as stream:
            stream.write(_to_bytes(lease._record))  # noqa: SLF001
        lease.files.replace(aside, lease.path, stamp)
        time.sleep(lease.terms.settle)
        lease.check()
    except (ConcurrentRunError, FileNotFoundError):
        with suppress(FileNotFoundError):
            lease.files.remove(aside)
        return False
    return True


def _wait_for_writers(lease: Lease, deadline: float) -> None:
    while writers := _find_writers(lease):
        if time.monotonic() >= deadline:
            raise _in_use(lease.table, writers)
        time.sleep(lease.terms.poll)
    lease.check()


def _find_writers(lease: Lease) -> list[_Record]:
    """Writers that live; what dead ones left is removed."""
    found = []
    folder = f"{lease.table}/{LEASES}"
    for name in lease.files.names(folder):
        if not _SHARED.match(name):
            continue
        record = _read(lease.files, f"{folder}/{name}")
        if record is not None and record.is_live(lease.terms):
            found.append(record)
        elif record is not None:
            with suppress(FileNotFoundError):
                lease.files.remove(f"{folder}/{name}")
    return found


def _in_use(table: str, others: list[_Record]) -> ConcurrentRunError:
    return ConcurrentRunError(
        f"{table} is in use: {'; '.join(map(str, others[:3]))}; nothing was written",
        hint="wait for it to end, and run again",
    )


def _new_record(purpose: str, terms: Terms) -> _Record:
    return _Record(this_process(uuid4().hex), purpose, time.time() + terms.duration)


def _to_bytes(record: _Record) -> bytes:
    return json.dumps(asdict(record)).encode()


def _read(files: Files, path: str) -> _Record | None:
    try:
        content = files.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        value = json.loads(content)
        return _Record(Owner(**value["owner"]), str(value["purpose"]), float(value["expires_at"]))
    except (ValueError, KeyError, TypeError):
        raise StorageError(
            f"the lease {path} cannot be read", hint="remove the file if no process works on the table"
        ) from None
