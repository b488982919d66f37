"""The table that a plain load writes: where it is, and whether it is ours to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import PenstockError, PlainLoadError, first_line
from penstock.lake.manifests import manifest_numbers, read_manifest
from penstock.lake.naming import Target, find_target
from penstock.lake.tables import Lake
from penstock.model.names import DatasetName
from penstock.model.progress import Codec, TableState
from penstock.tombstones.suppression import check_unmarked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = TypeVar("P")

_OWNERS = {
    "plain_refresh": "full_refresh_with_swap",
    "plain_timestamp": "incremental_by_timestamp",
    "cdc": "apply_changes, process_cdc_events or a pipeline",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A table that may be written, and the lake that writes it."""

    lake: Lake
    target: Target

    @property
    def name(self) -> DatasetName:
        return self.target.name

    def read_base(self) -> int | None:
        """The load that the next one follows; to be read before the state, so that a load in between is noticed."""
        progress = self.lake.state(self.name).progress
        return progress.number if progress else None

    def read_state(self, codec: Codec[P], *, take_over: bool = False) -> TableState[P]:
        """The state of the table; PlainLoadError when another program, or another sort of load, has written it.

        With `take_over` that is allowed: the table is about to be replaced.
        """
        state = self.lake.read_state(self.name, codec)
        if state.damage is None or take_over:
            return state
        code, text, where = state.damage.code, state.damage.text, self.target.location
        if code == "kind_changed":
            raise PlainLoadError(
                "other_load",
                f"the table {where} is written by {self._find_owner()}; nothing was written",
                hint=_OTHER_TABLE,
            )
        if state.number is None:  # no commit of Penstock at all
            raise PlainLoadError(
                "foreign_table",
                f"the table {where} was created by another program; nothing was written",
                hint=_OTHER_TABLE,
            )
        raise PlainLoadError(
            "table_changed", f"the table {where} cannot be continued: {text}; nothing was written", hint=_RESTORE
        )

    def _find_owner(self) -> str:
        newest = max(manifest_numbers(self.lake.files, self.name))
        kind = read_manifest(self.lake.files, self.name, newest).kind
        return _OWNERS.get(kind, f"a pipeline ({kind})")


_OTHER_TABLE = "use another path or name; full_refresh_with_swap(..., take_over=True) replaces all its rows"
_RESTORE = (
    "undo that change (RESTORE TABLE), or move the table away and load it again; "
    "full_refresh_with_swap(..., take_over=True) replaces all its rows"
)


def open_place(session: SparkSession, table: object) -> Place:
    """The table by its path or its name in the catalog; an error when there is something else, or when it has tombstones."""
    if not isinstance(table, str) or not table.strip():
        raise PlainLoadError(
            "table",
            f"the table is given as {type(table).__name__}, not as text",
            hint='give a path ("lake/shop/orders") or a name',
        )
    try:
        target = find_target(session, table)
    except ValueError as error:
        raise PlainLoadError(
            "table", str(error), hint="use a path such as lake/shop/customers or s3://bucket/shop/customers"
        ) from None
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the catalog says
        raise PlainLoadError(
            "table",
            f"no Delta table called {table!r} can be written: {first_line(error)}",
            hint="create its database, or give a path",
        ) from None
    if obstacle := target.find_obstacle():
        raise PlainLoadError(
            "not_a_table", f"{obstacle}; nothing was written", hint="use another path, or move it away"
        )
    check_unmarked(target.files, target.name)
    return Place(Lake(session, target.files), target)
