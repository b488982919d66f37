"""Loaded tables compared with their sources, and repaired: `engine.verification`. Comparing starts no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import StorageError, UsageError, first_line, located
from penstock.kinds.catalog import Catalog, open_catalog
from penstock.kinds.protocol import Kind, PipelineRun, Repairs, Verifiable
from penstock.maintenance.verification.compare import Compared, compare
from penstock.model.dataset import Dataset
from penstock.model.loads import Deletes, LoadOptions, Strategy
from penstock.model.plan import Action, Item, Reason
from penstock.model.results import LoadResult
from penstock.model.types import quote_name
from penstock.model.verification import RowStatus, Verification
from penstock.model.wording import counted
from penstock.run.bench import Bench, Host, open_bench
from penstock.run.listeners import RunListener
from penstock.run.planner import Planner, PlanRequest
from penstock.tombstones.suppression import read_suppression

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.lake.tables import Lake

MOST_SHOWN = 20
"""How many rows are listed for each thing that can be wrong."""
_REPAIRED = (RowStatus.MISSING, RowStatus.TOO_MANY, RowStatus.DIFFERENT)


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair found, and what is left."""

    before: Verification
    after: Verification
    rows: int
    """How many rows were written or removed."""


@dataclass(frozen=True, slots=True)
class Verifying:
    """The verification of the loads of an opened project."""

    host: Host
    listeners: tuple[RunListener, ...] = ()

    def verify(self, name: str, *, most: int = MOST_SHOWN, keys_only: bool = False) -> Verification:
        """Compare a loaded table with its source now; nothing is changed."""
        catalog = open_catalog(self.host.workspace, self.host.kinds)
        dataset = catalog.find(name)
        with self._compare(catalog, dataset, keys_only=keys_only) as compared:
            return self._noted(dataset, compared.verify(most))

    def repair(self, name: str, *, most: int = MOST_SHOWN, keys_only: bool = False) -> Repaired:
        """Load just the rows that are wrong, in one commit, and compare again. No JVM starts when nothing is wrong."""
        before = self.verify(name, most=most, keys_only=keys_only)
        dataset = open_catalog(self.host.workspace, self.host.kinds).find(name)
        if not _count_repairable(before):
            return Repaired(before, before, 0)
        _check_repairable(dataset, self._options(dataset))
        with open_bench(self.host, f"penstock verify {dataset.name} --repair", (), self.listeners) as bench:
            rows = self._repair(bench, name, keys_only=keys_only)
        return Repaired(before, self.verify(name, most=most, keys_only=keys_only), rows)

    def _repair(self, bench: Bench, name: str, *, keys_only: bool) -> int:
        """Under the project's lock: plan, compare again, and load the keys."""
        import pyarrow as pa

        catalog = open_catalog(self.host.workspace, self.host.kinds)
        dataset = catalog.find(name)
        item = self._plan(dataset)
        with self._compare(catalog, dataset, keys_only=keys_only, lake=bench.lake) as compared:
            found = {status: compared.keys(status) for status in _REPAIRED}
        keys = pa.concat_tables(found.values(), promote_options="permissive")
        words = [f"{counted(rows.num_rows, 'row')} {_WORDS[status]}" for status, rows in found.items() if rows.num_rows]
        if not words:
            return 0
        item = replace(item, action=Action.APPLY, reasons=(Reason("repair", f"{', '.join(words)} in the table"),))
        (done,) = bench.execute((item,), lambda each: self._load(bench, catalog, dataset, each, keys))
        return done.load.rows if done.load else 0

    def _load(self, bench: Bench, catalog: Catalog, dataset: Dataset, item: Item, keys: pa.Table) -> LoadResult:
        workspace = self.host.workspace
        suppression = read_suppression(workspace.project, workspace.storage, [dataset.name])
        run = PipelineRun(workspace, bench.build_request_id, (item,), suppression)
        loader = catalog.kind_of(dataset.kind).open(bench.lake, run)
        try:
            if not isinstance(loader, Repairs):
                raise _not_verifiable(dataset)
            return loader.repair(item, keys)
        finally:
            loader.close()

    def _plan(self, dataset: Dataset) -> Item:
        plan = Planner(self.host.workspace, self.host.kinds).plan(PlanRequest(select=(str(dataset.name),)))
        item = next(each for each in plan.items if each.dataset == dataset.name)
        if item.problem is not None:
            raise item.problem.to_error()
        return item

    @contextmanager
    def _compare(
        self, catalog: Catalog, dataset: Dataset, *, keys_only: bool, lake: Lake | None = None
    ) -> Iterator[Compared]:
        """Both sides; `lake` is the one of a repair, whose session must not be closed before its end."""
        kind: Kind = catalog.kind_of(dataset.kind)
        options = self._options(dataset)
        if options is None or not isinstance(kind, Verifiable):
            raise _not_verifiable(dataset)
        until = kind.loaded_until(catalog.state(dataset).payload)
        workspace = self.host.workspace
        with (
            located(dataset.spec.location if dataset.spec else None),
            kind.open_source(dataset, workspace) as source,
            compare(
                source,
                workspace.storage,
                dataset.name,
                options,
                until,
                keys_only=keys_only,
                read_by_spark=partial(self._read_by_spark, dataset, lake),
            ) as compared,
        ):
            yield compared

    def _read_by_spark(self, dataset: Dataset, lake: Lake | None, address: str, columns: Sequence[str]) -> pa.Table:
        """Columns of a Delta table that the JVM-free reader does not support; Spark refuses what is too large to collect."""
        places = (self.host.workspace.project.storage, address)
        with nullcontext(lake) if lake is not None else self.host.lake(places) as opened:
            rows = opened.session.read.format("delta").load(address)
            try:
                return rows.select(*map(quote_name, columns)).toArrow()
            except Exception as error:  # noqa: BLE001 - whatever Spark says
                raise StorageError(
                    f"{dataset.name} cannot be compared with its source: {address} cannot be read ({first_line(error)})",
                    hint="compare only keys with --keys-only, or reload the table with `penstock rebuild`",
                ) from None

    def _options(self, dataset: Dataset) -> LoadOptions | None:
        """What the load declares and the advisor chose."""
        catalog = open_catalog(self.host.workspace, self.host.kinds)
        kind: Kind = catalog.kind_of(dataset.kind)
        return kind.load_options(dataset, catalog.state(dataset).payload) if isinstance(kind, Verifiable) else None

    def _noted(self, dataset: Dataset, result: Verification) -> Verification:
        """With what explains differences that are meant to be."""
        notes = list(result.notes)
        workspace, options = self.host.workspace, self._options(dataset)
        hidden = len(
            read_suppression(workspace.project, workspace.storage, [dataset.name]).tombstones.get(dataset.name, ())
        )
        if hidden and result.count(RowStatus.MISSING):
            notes.append(f"{counted(hidden, 'key')} of the table are suppressed by tombstones: they stay missing.")
        if options and result.count(RowStatus.TOO_MANY) and _keeps_deleted(options):
            notes.append('This load ignores deletes (deletes="ignore"): rows that the source deleted stay.')
        return replace(result, notes=tuple(notes))


_WORDS = {RowStatus.MISSING: "missing", RowStatus.TOO_MANY: "too many", RowStatus.DIFFERENT: "different"}


def _keeps_deleted(options: LoadOptions) -> bool:
    return options.deletes is Deletes.IGNORE and options.strategy in {Strategy.TIMESTAMP, Strategy.AUTO}


def _count_repairable(found: Verification) -> int:
    return sum(found.count(status) for status in _REPAIRED)


def _check_repairable(dataset: Dataset, options: LoadOptions | None) -> None:
    if options is None or not options.keys or options.scd_type == 2:
        why = "it keeps the history of its rows" if options and options.keys else "it has no keys"
        raise UsageError(
            f"{dataset.name} cannot be repaired row by row: {why}",
            hint=f"`penstock run` compares snapshots; `penstock rebuild {dataset.name}` loads everything again",
        )


def _not_verifiable(dataset: Dataset) -> UsageError:
    return UsageError(
        f"{dataset.name} has no source that it can be compared with",
        hint="only a table that dp.load or `loads:` declares can be verified",
    )
