"""Tombstones and erasure for the command line, a web page or a notebook: `engine.erasure`."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import ConcurrentRunError, PenstockError, UsageError
from penstock.kinds.catalog import Catalog, open_catalog
from penstock.lake.tables import Lake
from penstock.maintenance.erasure.resurrected import find_resurrected
from penstock.maintenance.erasure.values import DRAFTS, Erased, Hidden, HiddenTable
from penstock.maintenance.sources.searched import find_unsearched
from penstock.maintenance.tables.values import Caution
from penstock.model.graph import downstream, order
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Effect, Item, Reason, WorkItem
from penstock.model.receipts import Receipt
from penstock.model.results import LoadResult, Outcome
from penstock.model.tombstones import Release, Tombstone, TombstoneState
from penstock.model.wording import counted
from penstock.run.bench import Bench, Host, open_bench, raise_first
from penstock.run.given_keys import check_release, check_searchable, read_given_keys
from penstock.run.listeners import RunListener
from penstock.run.planner import PlanRequest
from penstock.run.tombstone_choice import TombstoneChoice, is_named
from penstock.tombstones.secrets import Secrets, open_secrets
from penstock.tombstones.store import TombstoneStore
from penstock.tombstones.vault import Vault

if TYPE_CHECKING:
    from penstock.maintenance.erasure.counting import DryRun
    from penstock.maintenance.erasure.erasing import Erasure
    from penstock.maintenance.erasure.tombstones import Tombstones
    from penstock.maintenance.erasure.verifying import HashCheck
    from penstock.maintenance.scan.results import ScanResult
    from penstock.maintenance.scan.scanner import OnProgress

_MOST_TRIES = 5
KIND = "erasure"
"""The kind of the items: not a kind of dataset."""


@dataclass(frozen=True, slots=True)
class Erasing:
    """The tombstones of an opened project."""

    host: Host

    @property
    def catalog(self) -> Catalog:
        return open_catalog(self.host.workspace, self.host.kinds)

    @property
    def _store(self) -> TombstoneStore:
        return TombstoneStore(self.host.workspace.storage, self.host.clock)

    @property
    def _secrets(self) -> Secrets:
        return open_secrets(self.host.workspace.storage, self.host.workspace.project.erasure.secrets)

    def tombstones(self, what: str | None = None) -> list[Tombstone]:
        """All tombstones, or those of a subject, table, request or id; without a JVM."""
        return self._store.read() if what is None else self._chosen.choose((what,))

    def add(
        self,
        what: str,
        keys: Sequence[str] = (),
        *,
        source: Path | str | pa.Table | None = None,
        reason: str,
        actor: str | None = None,
    ) -> Hidden:
        """Hide rows of a subject or table at once: keys as `name=value`, or from a file, CSV text or an Arrow table."""
        from penstock.maintenance.erasure.keys import check_reason
        from penstock.maintenance.erasure.tombstones import Request

        settings = self.host.workspace.project.erasure
        self._secrets.check([self._secrets.current])  # refuse before anything starts
        targets, given = read_given_keys(self.catalog, what, keys, source)
        subject = what if settings.tables_of(what) else ""
        request = Request(targets, given, reason, actor or getpass.getuser(), subject)
        check_reason(request.reason, given)
        check_reason(request.actor, given, "actor")
        with open_bench(self.host, f"penstock tombstone add {subject or targets[0].table}") as bench:
            tombstones = self._open(bench)
            pending = tombstones.find_pending()
            added, again = tombstones.add(request)
            tables = self._hide(
                bench, tombstones, list({each.id: each for each in (*pending, *again, *added)}.values())
            )
        ids = {each.id for each in added}
        hidden = Hidden(added[0].batch if added else "", tuple(t for t in self._store.read() if t.id in ids), tables)
        return self._refresh(hidden, {each.table for each in (*pending, *again, *added)})

    def hide_again(self) -> None:
        """Hide rows that another program made visible again, for example by RESTORE. Without any, no JVM starts."""
        resurrected = find_resurrected(self.host.workspace.storage, self._store)
        if not resurrected:
            return
        catalog, secrets = self.catalog, self._secrets
        found = [
            each
            for each in resurrected
            if each.table in catalog.datasets and each.secret_id in secrets  # without its secret, a table is not loaded
        ]
        if found:
            with open_bench(self.host, "penstock tombstone hide") as bench:
                self._hide(bench, self._open(bench), found)

    def _open(self, bench: Bench) -> Tombstones:
        return replace(self._look(bench.lake), build_request_id=bench.build_request_id)

    def _look(self, lake: Lake) -> Tombstones:
        """The tombstones without a build request: for looking only."""
        from penstock.maintenance.erasure.tombstones import Tombstones

        return Tombstones(self.catalog, self.host.clock, lake, "")

    @property
    def _places(self) -> tuple[str, ...]:
        """Every address of the project: decides which connectors the session needs."""
        catalog = self.catalog
        storage = catalog.workspace.project.storage
        datasets = catalog.datasets.values()
        return tuple({p.below(storage) for d in datasets for p in catalog.kind_of(d.kind).places(d)})

    def _hide(self, bench: Bench, tombstones: Tombstones, chosen: Sequence[Tombstone]) -> tuple[HiddenTable, ...]:
        """Hide rows, an item for each table."""
        done: list[HiddenTable] = []

        def load(item: Item) -> LoadResult:
            hidden = tombstones.hide(item.dataset, item.work)
            done.extend(hidden)
            return LoadResult(max((h.version for h in hidden if h.version is not None), default=None), 0)

        bench.execute([_to_item(table, group) for table, group in _by_table(chosen).items()], load)
        raise_first(bench.results)
        return tuple(done)

    def _refresh(self, hidden: Hidden, tables: Iterable[DatasetName], full: Iterable[DatasetName] = ()) -> Hidden:
        """Bring what was computed from these tables up to date, so that it no longer shows what is hidden.

        What has never been computed shows nothing, and leaves the keys out when it is.
        """
        catalog = self.catalog
        found = downstream(catalog.graph, set(tables)) - set(tables)
        readers = {name for name in found if catalog.state(catalog.datasets[name]).exists} | set(full)
        if not readers:
            return hidden
        refresh = tuple(sorted(map(str, full)))
        result = self.host.run(PlanRequest(select=tuple(sorted(map(str, readers))), full_refresh=refresh))
        passed = [item for item in result.items if item.outcome in {Outcome.PASS, Outcome.WARN}]
        erased = [str(item.dataset) for item in passed if item.action is Action.HIDE]
        done = [str(item.dataset) for item in passed if item.action is not Action.HIDE]
        failed = [str(item.dataset) for item in result.items if item.outcome in {Outcome.ERROR, Outcome.SKIP}]
        return replace(hidden, recomputed=tuple(done), erased=tuple(erased), failed=tuple(failed))

    def remove(self, chosen: Sequence[str]) -> Hidden:
        """Withdraw tombstones: the rows come back unchanged, with those that were kept out meanwhile."""
        from penstock.maintenance.erasure.undoing import Withdrawal, check_withdrawable

        found = self._chosen.choose(chosen)
        left = [each for each in found if each.state.can_be_undone or is_named(each, chosen)]
        found = left or found  # a subject or table stands for those that can still be withdrawn
        check_withdrawable(found, Vault(self.host.workspace.storage, self._secrets))  # before anything starts
        with open_bench(self.host, "penstock tombstone rm") as bench:
            tombstones = self._open(bench)
            again = Withdrawal(tombstones).withdraw(found)
        return self._refresh(Hidden("", tuple(found), ()), {each.table for each in found}, again)

    def release(self, chosen: Sequence[str], value: str, column: str | None = None) -> list[Tombstone]:
        """Let erased keys come back, from a value of a column on; of a streaming table, from a sequence on."""
        found = self._chosen.choose(chosen)
        left = [each for each in found if each.state is TombstoneState.PHYSICAL or is_named(each, chosen)]
        found = left or found  # a subject or table stands for those that are erased
        if not left and any(each.state is TombstoneState.RELEASED for each in found):
            raise UsageError(
                "these keys were released before", hint="to release one from another point on, give its id"
            )
        catalog = self.catalog
        for table in {each.table for each in found}:
            check_release(catalog, table, value, column)
        with self.host.recorded():
            self._store.move(found, TombstoneState.RELEASED, release=Release(value, column))
        ids = {each.id for each in found}
        return [each for each in self._store.read() if each.id in ids]

    def erase(
        self,
        what: str | None = None,
        *,
        caution: Caution | None = None,
        on_progress: OnProgress | None = None,
        listeners: tuple[RunListener, ...] = (),
    ) -> Erased:
        """Make everything that is hidden physical, prove that it is gone, and write a receipt.

        All tombstones of a request go together: those of the subject or table that is named, and the others of their requests.
        Then the source files that came after earlier erasures are searched for their keys, and erased too.
        """
        self._chosen.check_known(what)
        self.hide_again()
        hidden = self._erase_hidden(what, caution or Caution(), on_progress, listeners)
        tables = {each.table for each in self._chosen.pick(what, TombstoneState.PHYSICAL)}
        more = self.erase_redelivered(tables, on_progress=on_progress, listeners=listeners)
        return replace(more, receipts=(*hidden.receipts, *more.receipts))

    def erase_redelivered(
        self,
        tables: AbstractSet[DatasetName],
        *,
        on_progress: OnProgress | None = None,
        listeners: tuple[RunListener, ...] = (),
    ) -> Erased:
        """Erase keys that are physical from source files that were delivered since. Without new files, no JVM starts."""
        from penstock.maintenance.erasure.redelivered import Redelivery, find_unfinished
        from penstock.run.redelivering import Redelivering

        chosen = [each for each in self._store.read() if each.table in tables]
        vault = Vault(self.host.workspace.storage, self._secrets)
        if not find_unsearched(self.catalog, chosen) and not find_unfinished(vault, chosen):
            return Erased()
        with open_bench(self.host, "penstock erase", self._places, listeners) as bench:
            tombstones = self._open(bench)
            chosen = [each for each in self._store.read() if each.table in tables]
            look = partial(find_unsearched, tombstones.catalog, chosen)
            start = partial(self._start, bench, tombstones, Caution())
            return Redelivering(bench, Redelivery(tombstones), KIND, look, start).erase(on_progress)

    def _start(self, bench: Bench, tombstones: Tombstones, caution: Caution, chosen: Sequence[Tombstone]) -> Erasure:
        from penstock.maintenance.erasure.erasing import Erasure

        tables = order_of(tombstones.catalog, {each.table for each in chosen})
        return Erasure(tombstones, tuple(chosen), tables, bench.redact, caution, self.host.clock.now_ns())

    def _erase_hidden(
        self,
        what: str | None,
        caution: Caution,
        on_progress: OnProgress | None,
        listeners: tuple[RunListener, ...],
    ) -> Erased:
        from penstock.maintenance.erasure.erasing import Settlement

        open_states = {TombstoneState.PENDING, TombstoneState.HIDDEN}
        is_open = any(each.state in open_states for each in self._store.read())
        if not is_open and not self.host.workspace.storage.names(DRAFTS):
            return Erased()
        self._chosen.check_defined(what)
        for _ in range(_MOST_TRIES):
            versions = self._refresh_readers(what)
            with open_bench(self.host, f"penstock erase {what or ''}".strip(), self._places, listeners) as bench:
                tombstones = self._open(bench)
                settled = Settlement(tombstones).resume()
                chosen = self._chosen.pick(what)
                if not chosen:
                    return Erased(tuple(settled))
                roots = {each.table for each in chosen}
                if versions == {table: bench.lake.state(table).version for table in roots}:
                    return self._erase(bench, tombstones, chosen, settled, caution, on_progress)
        raise ConcurrentRunError(
            "tables were loaded again and again while they should be erased", hint="run again later"
        )

    def settle(self) -> tuple[Receipt, ...]:
        """Finish what a killed command had proven already: its clear values go, its receipt is written. Else no JVM starts."""
        if not any(name.endswith(".json") for name in self.host.workspace.storage.names(DRAFTS)):
            return ()
        from penstock.maintenance.erasure.erasing import Settlement

        with open_bench(self.host, "penstock erase") as bench:
            return tuple(Settlement(self._open(bench)).resume())

    def count(self, what: str | None = None) -> DryRun:
        """What `erase` would do: files, rows and bytes of each table; an error when one cannot be searched."""
        from penstock.maintenance.erasure.counting import DryRun, count_erasure
        from penstock.maintenance.erasure.redelivered import Redelivery

        self._chosen.check_known(what)
        tables = {each.table for each in self._chosen.pick(what, TombstoneState.PHYSICAL)}
        due = find_unsearched(self.catalog, [each for each in self._store.read() if each.table in tables])
        if not self._chosen.pick(what) and not due:
            return DryRun()
        self._chosen.check_defined(what)
        with self.host.lake(self._places) as lake:
            tombstones = self._look(lake)
            chosen = self._chosen.pick(what)
            counted = count_erasure(tombstones, chosen, order_of(self.catalog, {each.table for each in chosen}))
            again = Redelivery(tombstones).count(due)
            return replace(counted, sources=(*counted.sources, *again))

    def verify(
        self,
        what: str,
        keys: Sequence[str] = (),
        *,
        source: Path | str | pa.Table | None = None,
        on_progress: OnProgress | None = None,
    ) -> ScanResult:
        """Search every file of the project for keys of a subject or table that are given again.

        A JVM starts only for composite keys: another person may have a part of one, which only the tables can tell.
        """
        from penstock.maintenance.erasure.verifying import verify_composite, verify_values

        targets, given = read_given_keys(self.catalog, what, keys, source)
        if given.num_columns == 1:
            check_searchable(self.catalog, targets, given)
            return verify_values(self.catalog, targets, given, on_progress)
        with self.host.lake(self._places) as lake:
            return verify_composite(self.catalog, lake, targets, given, on_progress)

    def verify_hashes(self, what: str | None = None) -> tuple[HashCheck, ...]:
        """Compare the declared columns of tables with the hashes of all tombstones; files are not searched."""
        from penstock.maintenance.erasure.verifying import verify_hashes

        chosen = [each for each in self.tombstones(what) if each.state.suppresses]
        with self.host.lake(self._places) as lake:
            return verify_hashes(self._look(lake), chosen)

    def _refresh_readers(self, what: str | None) -> dict[DatasetName, int | None]:
        """Hide what is not hidden, let everything that reads the tables go past it; and the tables' versions then."""
        with open_bench(self.host, "penstock tombstone hide") as bench:
            tombstones = self._open(bench)
            chosen = [*tombstones.find_pending(), *self._chosen.pick(what)]
            self._hide(bench, tombstones, list({each.id: each for each in chosen}.values()))
            roots = {each.table for each in chosen}
            versions = {table: bench.lake.state(table).version for table in roots}
        done = self._refresh(Hidden("", (), ()), roots)
        if done.failed:
            raise PenstockError(
                f"{', '.join(done.failed)} could not be brought up to date, and may still show what must be erased",
                hint="`penstock run` says why; nothing was removed",
            )
        return versions

    def _erase(
        self,
        bench: Bench,
        tombstones: Tombstones,
        chosen: Sequence[Tombstone],
        settled: Sequence[Receipt],
        caution: Caution,
        on_progress: OnProgress | None,
    ) -> Erased:
        erasure = self._start(bench, tombstones, caution, chosen)

        def load(item: Item) -> LoadResult:
            done = erasure.erase_table(item.dataset)
            return LoadResult(done.version if done else None, done.rows if done else 0)

        bench.execute([_to_item(table, chosen, Action.ERASE) for table in erasure.tables], load)
        raise_first(bench.results)
        return Erased((*settled, erasure.finish(on_progress)))

    @property
    def _chosen(self) -> TombstoneChoice:
        return TombstoneChoice(self.catalog, tuple(self._store.read()))


def _to_item(table: DatasetName, group: Sequence[Tombstone], action: Action = Action.HIDE) -> Item:
    own = tuple(each for each in group if each.table == table)
    reason = Reason("tombstones", counted(len(own), "tombstone") if own else "computed from a table with tombstones")
    effect = Effect(rows_change=action is Action.HIDE, replaces_rows=action is Action.HIDE)
    return WorkItem(table, KIND, action, (reason,), own, effect=effect)


def order_of(catalog: Catalog, roots: Iterable[DatasetName]) -> tuple[DatasetName, ...]:
    """The tables with tombstones and everything that is computed from them, each after what it reads."""
    chosen = downstream(catalog.graph, set(roots)) | set(roots)
    return tuple(name for name in order(catalog.graph) if name in chosen)


def _by_table(tombstones: Iterable[Tombstone]) -> dict[DatasetName, list[Tombstone]]:
    found: dict[DatasetName, list[Tombstone]] = {}
    for each in tombstones:
        found.setdefault(each.table, []).append(each)
    return found
