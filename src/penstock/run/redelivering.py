"""Source files that were delivered after an erasure, as one step of a command: searched by hash, erased, proven, noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from penstock.errors import ConcurrentRunError
from penstock.kinds.catalog import Catalog
from penstock.maintenance.erasure.erasing import Erasure
from penstock.maintenance.erasure.redelivered import Redelivery
from penstock.maintenance.erasure.values import Erased
from penstock.maintenance.scan.scanner import OnProgress
from penstock.maintenance.sources.searched import Unsearched, note_searched, read_searched
from penstock.model.names import DatasetName
from penstock.model.plan import Action, Effect, Item, Reason, WorkItem
from penstock.model.receipts import Receipt
from penstock.model.results import LoadResult
from penstock.model.tombstones import Tombstone
from penstock.model.wording import counted
from penstock.run.bench import Bench, raise_first

Seen = Mapping[DatasetName, AbstractSet[str]]
"""Files that this command has searched, by table, as digests."""


@dataclass(frozen=True, slots=True)
class Redelivering:
    """One look at the source files of a project, under its lock."""

    bench: Bench
    redelivery: Redelivery
    kind: str
    """The kind of the items."""
    find_due: Callable[[Seen], list[Unsearched]]
    start: Callable[[tuple[Tombstone, ...]], Erasure]

    def erase(self, on_progress: OnProgress | None) -> Erased:
        """Search what is due, erase what is found, then search what was rewritten: only then the files count as searched."""
        due = self.find_due({})
        self.redelivery.keep(self.redelivery.find(due))
        chosen = self.redelivery.unfinished()
        receipts = (self._erase(chosen, on_progress),) if chosen else ()
        again = self.find_due({each.name: each.digests for each in due}) if chosen else []
        if self.redelivery.find(again):
            raise ConcurrentRunError(
                "source files with erased keys were delivered again while others were erased", hint="run again"
            )
        _note(self.redelivery.tombstones.catalog, (*due, *again))
        return Erased(receipts, sum(len(each.files) for each in due))

    def _erase(self, chosen: tuple[Tombstone, ...], on_progress: OnProgress | None) -> Receipt:
        erasure = self.start(chosen)

        def load(item: Item) -> LoadResult:
            erasure.erase_sources(item.dataset)
            return LoadResult(None, 0)

        tables = dict.fromkeys(each.table for each in chosen)
        self.bench.execute([self._to_item(table, chosen) for table in tables], load)
        raise_first(self.bench.results)
        return erasure.finish(on_progress)

    def _to_item(self, table: DatasetName, chosen: Sequence[Tombstone]) -> Item:
        own = tuple(each for each in chosen if each.table == table)
        reason = Reason("redelivered", f"{counted(len(own), 'erased key')} in source files that came later")
        return WorkItem(table, self.kind, Action.ERASE, (reason,), own, effect=Effect(rows_change=False))


def _note(catalog: Catalog, searched: Sequence[Unsearched]) -> None:
    """Note the files that were searched, with those that were noted before."""
    for each in searched:
        known = read_searched(catalog, each.dataset, each.tombstones)
        note_searched(catalog, each.dataset, each.tombstones, known | each.digests)
