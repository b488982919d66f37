"""Projects with a person in every kind of source file, and what erasing from them is checked against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.engine import open_engine
from penstock.kinds.protocol import Kind
from penstock.kinds.registry import KINDS
from penstock.lake.tables import Lake
from penstock.maintenance.sources.erasing import count_sources, erase_sources
from penstock.model.erasing import FileErased
from penstock.model.keys import KeyColumn, NormalForm
from tests.projects import ProjectFolder


def text_of(*parts: object) -> str:
    """The canonical text of a key, from the texts of its parts."""
    return "".join("n" if part is None else f"v{len(str(part))}:{part}" for part in parts)


def key_of(*names: str, form: NormalForm = NormalForm.EXACT) -> tuple[KeyColumn, ...]:
    return tuple(KeyColumn(name, form) for name in names)


def erase(
    spark: Any,
    project: ProjectFolder,
    table: str,
    key: Sequence[KeyColumn],
    *texts: str,
    dry: bool = False,
    kinds: tuple[Kind, ...] = KINDS,
) -> tuple[FileErased, ...]:
    engine = open_engine(project.root, environment={}, kinds=kinds)
    catalog = engine.catalog
    do = count_sources if dry else erase_sources
    return do(Lake(spark, engine.workspace.storage), catalog, catalog.find(table), key, texts)


def plan_of(project: ProjectFolder) -> dict[str, tuple[str, list[str]]]:
    items = open_engine(project.root, environment={}).plan().items
    return {item.id: (item.action.value, [reason.code for reason in item.reasons]) for item in items}


def asides_below(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*.rewritten")]
