"""Temporary views that a definition makes and reads itself: they are no inputs, and must not have the name of a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.errors import DefinitionError
from penstock.model.spec import ANY_VIEW, DatasetSpec


def without_local_views(specs: Iterable[DatasetSpec], database: str) -> tuple[DatasetSpec, ...]:
    """The definitions without the views that they make among their inputs; DefinitionError for a name that a dataset has.

    While such a view exists, every other definition that reads the dataset by its name would read the view.
    """
    specs = tuple(specs)
    defined = {str(spec.name) for spec in specs}
    result = []
    for spec in specs:
        local = {name if "." in name else f"{database}.{name}" for name in spec.local_views}
        if taken := sorted(local & defined):
            raise DefinitionError(
                f"{spec.name} makes a temporary view with the name of the dataset {taken[0]}",
                hint="give the view another name",
                location=spec.location,
            )
        inputs = tuple(name for name in spec.inputs if str(name) not in local)
        if (
            ANY_VIEW in spec.local_views
        ):  # a name that nobody knows may be one of its views; if not, only its own run fails
            inputs = tuple(name for name in inputs if name.database != database or str(name) in defined)
        result.append(replace(spec, inputs=inputs))
    return tuple(result)
