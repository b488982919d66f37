"""Maintenance of tables for the command line, a web page or a cron line: `engine.maintenance`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError, PenstockError, UsageError
from penstock.kinds.catalog import Catalog, open_catalog
from penstock.lake.delta_log import DamagedLogError
from penstock.maintenance.compaction.decide import SOURCES_DUE, TOMBSTONES_DUE, decide_maintenance
from penstock.maintenance.compaction.facts import read_table_facts, with_tombstones
from penstock.maintenance.erasure.values import Erased
from penstock.maintenance.sources.searched import find_unsearched
from penstock.maintenance.tables.values import Caution
from penstock.model.compaction import Blocked, Compacted, Maintained, Policy, TableFacts, sum_up
from penstock.model.dataset import Dataset
from penstock.model.names import STAGING_DATABASE, DatasetName
from penstock.model.nearest import did_you_mean
from penstock.model.plan import Action, Item, Problem, Reason, WorkItem
from penstock.model.progress import TableState
from penstock.model.receipts import Receipt
from penstock.model.results import ItemResult, LoadResult
from penstock.model.tombstones import Tombstone, TombstoneState
from penstock.run.bench import Bench, Host, open_bench
from penstock.run.listeners import RunListener
from penstock.tombstones.store import TombstoneStore

if TYPE_CHECKING:
    from penstock.maintenance.compaction.folding import Folded

KIND = "maintenance"
"""The kind of the items: not a kind of dataset."""
_KEYED_SMALL_FILE = 2 << 20
"""A streaming table keeps rows that change in files of their own: only smaller files than this are merged."""


@dataclass(frozen=True, slots=True)
class DueTable:
    """A table that needs maintenance: the work of an item."""

    dataset: Dataset
    policy: Policy
    facts: TableFacts
    reasons: tuple[Reason, ...]

    @property
    def name(self) -> DatasetName:
        return self.dataset.name

    @property
    def needs_erasure(self) -> bool:
        """Whether tombstones must become physical."""
        return any(reason.code == TOMBSTONES_DUE for reason in self.reasons)

    @property
    def needs_search(self) -> bool:
        """Whether source files must be searched for keys that were erased before."""
        return any(reason.code == SOURCES_DUE for reason in self.reasons)

    @property
    def needs_compaction(self) -> bool:
        return any(reason.code not in {TOMBSTONES_DUE, SOURCES_DUE} for reason in self.reasons)

    def to_item(self, action: Action) -> Item:
        return WorkItem(self.name, KIND, action, self.reasons, self)


@dataclass(frozen=True, slots=True)
class Maintaining:
    """The maintenance of an opened project."""

    host: Host
    caution: Caution = field(default_factory=Caution)
    listeners: tuple[RunListener, ...] = ()

    def due(self) -> tuple[Item, ...]:
        """What is due by the policies of the project: one item per table. No JVM, and nothing is written."""
        found = self._look(self._catalog())
        return tuple(each.to_item(Action.COMPACT if each.needs_compaction else Action.ERASE) for each in found)

    def compact(self, tables: Sequence[str] = (), *, everything: bool = False) -> tuple[Compacted, ...]:
        """Fold what changed into tables, as far as there is something to fold, and make their tombstones physical.

        A table with nothing to do is in the result only if it was named. No JVM starts when there is nothing to do at all.
        When something could not be done, its error is raised once the rest is done.
        """
        done = self.compact_tables(tables, everything=everything)
        for each in done.blocked:
            raise each.problem.to_error()
        return done.tables

    def compact_tables(self, tables: Sequence[str] = (), *, everything: bool = False) -> Maintained:
        """As `compact`; what could not be done is in the result."""
        if bool(tables) == everything:
            raise UsageError("name tables, or give --all", hint="penstock compact TABLE..., or penstock compact --all")
        catalog = self._catalog()
        chosen = [catalog.find_stored(table) for table in dict.fromkeys(tables)]
        found = self._look(catalog, chosen or None, lambda policy: policy.at_once)
        done = self._work(catalog, found, "penstock compact")
        if everything:
            return done
        known = {each.table: each for each in done.tables}
        named = tuple(known.get(each.name) or self._describe_idle(catalog, each) for each in chosen)
        return replace(done, tables=named)

    def maintain(self) -> Maintained:
        """Do everything that is due: compaction, tombstones that must become physical, the store of tombstones.

        First of all an erasure is finished that was killed after its proof. What could not be done is in the result.
        """
        from penstock.run.erasing import Erasing

        catalog, blocked, settled = self._catalog(), list[Blocked](), tuple[str, ...]()
        with _noted(blocked, "an erasure that was interrupted"):
            settled = tuple(receipt.id for receipt in Erasing(self.host).settle())
        done = self._work(catalog, self._look(catalog), "penstock maintain")
        return replace(
            done,
            receipts=(*settled, *done.receipts),
            store_files_merged=self._compact_store(),
            blocked=(*blocked, *done.blocked, *self._find_retired(catalog)),
        )

    def _catalog(self) -> Catalog:
        catalog = open_catalog(self.host.workspace, self.host.kinds)
        for name, policy in self.host.workspace.project.compaction.tables.items():
            _check_policy(catalog, name, policy)
        return catalog

    @property
    def _store(self) -> TombstoneStore:
        return TombstoneStore(self.host.workspace.storage, self.host.clock)

    def _look(
        self,
        catalog: Catalog,
        chosen: Sequence[Dataset] | None = None,
        soften: Callable[[Policy], Policy] = lambda policy: policy,
    ) -> list[DueTable]:
        """The tables that need maintenance, of all or of those chosen; `soften` changes their policies first."""
        tombstones, now = self._store.read(), self.host.clock.now_ns()
        datasets = catalog.listed() if chosen is None else chosen
        unsearched = {each.name: len(each.files) for each in find_unsearched(catalog, tombstones)}
        found = []
        for dataset in datasets:
            if not dataset.is_stored:
                continue
            policy = soften(self._policy_of(dataset))
            facts = self._read_facts(catalog, dataset, policy, tombstones)
            facts = replace(facts, unsearched_files=unsearched.get(dataset.name, 0))
            if reasons := decide_maintenance(facts, policy, now):
                found.append(DueTable(dataset, policy, facts, reasons))
        return found

    def _policy_of(self, dataset: Dataset) -> Policy:
        policy = self.host.workspace.project.compaction.policy_of(dataset.name)
        return replace(policy, largest_small_file=_KEYED_SMALL_FILE) if dataset.keys else policy

    def _read_facts(
        self,
        catalog: Catalog,
        dataset: Dataset,
        policy: Policy,
        tombstones: Iterable[Tombstone],
        *,
        with_rows: bool = False,
    ) -> TableFacts:
        """The facts of a table; only its tombstones count where there is no table, or a rebuild must come first."""
        state: TableState[Any] = catalog.state(dataset)
        if state.exists and state.damage is None:
            with suppress(DamagedLogError):
                return read_table_facts(
                    self.host.workspace.storage,
                    dataset.name,
                    policy,
                    state=state,
                    tombstones=tombstones,
                    with_rows=with_rows,
                )
        return with_tombstones(TableFacts(dataset.name, -1 if state.version is None else state.version), tombstones)

    def _work(self, catalog: Catalog, found: Sequence[DueTable], message: str) -> Maintained:
        """Erase what must be erased, compact, search new source files; Spark starts only if there is something to do."""
        to_search = {each.name for each in found if each.needs_search}
        found = [each for each in found if each.needs_erasure or each.needs_compaction]
        done = self._work_on_tables(catalog, found, message) if found else Maintained()
        return self._search(done, to_search) if to_search else done

    def _search(self, done: Maintained, tables: AbstractSet[DatasetName]) -> Maintained:
        """Erase keys from source files that came after their erasure. Tombstones that are hidden stay so."""
        from penstock.run.erasing import Erasing

        more, blocked = Erased(), list[Blocked]()
        with _noted(blocked, "source files that came after an erasure"):
            more = Erasing(self.host).erase_redelivered(tables, listeners=self.listeners)
        receipts = (*done.receipts, *(receipt.id for receipt in more.receipts))
        return replace(done, receipts=receipts, files_searched=more.files_searched, blocked=(*done.blocked, *blocked))

    def _work_on_tables(self, catalog: Catalog, found: Sequence[DueTable], message: str) -> Maintained:
        before = {each.name: self._count(catalog, each) for each in found}
        waiting = {each.name: self._waiting(each.name) for each in found if each.needs_erasure}
        receipts, blocked = self._erase(tuple(waiting))
        folded: dict[DatasetName, Folded] = {}
        if items := [each.to_item(Action.COMPACT) for each in found if each.needs_compaction]:
            blocked += self._fold(catalog, items, folded, message)
        rewritten = Counter({t.table: t.files_rewritten for receipt in receipts for t in receipt.tables})
        physical = {each.id for each in self._store.read() if each.state is TombstoneState.PHYSICAL}
        tables = []
        for each in found:
            done = folded.get(each.name)
            tables.append(
                sum_up(
                    before[each.name],
                    self._count(catalog, each),
                    [tombstone for tombstone in waiting.get(each.name, ()) if tombstone.id in physical],
                    files_merged=rewritten[str(each.name)] + (done.files_merged if done else 0),
                    duplicates_removed=done.duplicates_removed if done else 0,
                )
            )
        return Maintained(tuple(tables), tuple(receipt.id for receipt in receipts), blocked=tuple(blocked))

    def _fold(
        self, catalog: Catalog, items: Sequence[Item], folded: dict[DatasetName, Folded], message: str
    ) -> list[Blocked]:
        """Compact tables; gives those that could not be compacted."""
        results: list[ItemResult] = []
        try:
            with open_bench(self.host, message, listeners=self.listeners) as bench:
                results += bench.execute(items, partial(_fold, catalog, bench, folded))
        except PenstockError as error:
            failed = [Blocked(str(each.dataset), each.problem) for each in results if each.problem is not None]
            return failed or [Blocked("compaction", Problem.from_error(error))]
        return []

    def _erase(self, tables: Sequence[DatasetName]) -> tuple[list[Receipt], list[Blocked]]:
        """Make the tombstones of tables physical, with the whole requests that they belong to; and what could not be.

        The requests of a table go together, which is less work; only when that fails, each goes alone.
        """
        receipts, blocked = list[Receipt](), dict[str, Blocked]()
        for table in tables:
            requests = {each.batch for each in self._waiting(table)}  # none if erased with a request of another table
            left = sorted(requests - blocked.keys())
            groups = [(str(table), left)] if len(left) == len(requests) else [(each, [each]) for each in left]
            while groups:
                what, group = groups.pop(0)
                done = self._erase_requests(what) if group else ()
                if not isinstance(done, Problem):
                    receipts += done
                elif len(group) == 1:
                    blocked[group[0]] = Blocked(what, done)
                else:
                    groups = [(each, [each]) for each in group]
        return receipts, list(blocked.values())

    def _erase_requests(self, what: str) -> tuple[Receipt, ...] | Problem:
        from penstock.run.erasing import Erasing

        try:
            return Erasing(self.host).erase(what, caution=self.caution, listeners=self.listeners).receipts
        except PenstockError as error:
            return Problem.from_error(error)

    def _waiting(self, table: DatasetName) -> list[Tombstone]:
        return [each for each in self._store.read([table]) if each.state.can_be_undone]

    def _find_retired(self, catalog: Catalog) -> list[Blocked]:
        """Tables with tombstones that are due, which nobody defines any more: they could be forgotten."""
        limit = self.host.workspace.project.compaction.default.physical_within * 10**9
        now, found = self.host.clock.now_ns(), dict[DatasetName, Blocked]()
        for each in self._store.read():
            if each.state.can_be_undone and now - each.created_at >= limit and each.table not in catalog.datasets:
                problem = Problem(
                    UsageError.code,
                    f"{each.table} has tombstones that must become physical, but is no longer a dataset of this project",
                    "bring its definition or raw folder back, and run `penstock maintain` again",
                )
                found[each.table] = Blocked(str(each.table), problem)
        return list(found.values())

    def _count(self, catalog: Catalog, due: DueTable) -> TableFacts:
        tombstones = self._store.read([due.name])
        return self._read_facts(catalog, due.dataset, due.policy, tombstones, with_rows=True)

    def _describe_idle(self, catalog: Catalog, dataset: Dataset) -> Compacted:
        """A table that was named, and has nothing to do."""
        tombstones = self._store.read([dataset.name])
        facts = self._read_facts(catalog, dataset, self._policy_of(dataset), tombstones, with_rows=True)
        if facts.rows is None:
            raise UsageError(
                f"{dataset.name} has no table, or it must be rebuilt first", hint="`penstock plan` says what to do"
            )
        return sum_up(facts, facts)

    def _compact_store(self) -> int:
        if not self._store.is_scattered:
            return 0
        with self.host.recorded():
            return self._store.compact()


@contextmanager
def _noted(blocked: list[Blocked], what: str) -> Iterator[None]:
    """Note an error instead of raising it: other work that is due must not wait for it."""
    try:
        yield
    except PenstockError as error:
        blocked.append(Blocked(what, Problem.from_error(error)))


def _fold(catalog: Catalog, bench: Bench, folded: dict[DatasetName, Folded], item: Item) -> LoadResult:
    from penstock.maintenance.compaction.folding import fold_table

    due: DueTable = item.work
    done = fold_table(bench.lake, due.name, due.policy, bench.build_request_id)
    catalog.kind_of(due.dataset.kind).tidy(bench.lake, due.dataset)
    folded[due.name] = done
    return LoadResult(done.version, 0)


def _check_policy(catalog: Catalog, name: DatasetName, policy: Policy) -> None:
    """Refuse a policy of a table that does not exist, and keys where something else decides which rows there are."""
    dataset = catalog.datasets.get(name)
    if dataset is None:
        if name.database != STAGING_DATABASE:  # a staging table comes with its first raw file
            near = did_you_mean(str(name), map(str, catalog.datasets))
            raise ConfigError(f"compaction: there is no table {name}{near}", location=policy.location)
        return
    if policy.keys and dataset.keys:
        raise ConfigError(
            f"compaction: {name} is filled by change events, whose keys decide which row stays",
            hint="remove `keys` and `keep_last_by`",
            location=policy.location,
        )
    if policy.keys and dataset.spec is not None:
        raise ConfigError(
            f"compaction: {name} is computed by its definition, so duplicates would come back",
            hint="remove `keys`, and duplicates in the definition",
            location=policy.location,
        )
