"""Which kinds of datasets there are. A new kind is a folder and a line here."""

from __future__ import annotations

from penstock.kinds.cdc.kind import CdcKind
from penstock.kinds.derived.kind import DerivedKind
from penstock.kinds.protocol import Kind
from penstock.kinds.staging.kind import StagingKind
from penstock.kinds.table_load.kind import TableLoadKind

KINDS: tuple[Kind, ...] = (StagingKind(), DerivedKind(), CdcKind(), TableLoadKind())
