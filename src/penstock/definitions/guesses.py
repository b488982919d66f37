"""Names that code reads only perhaps: the method `table` of a value that is no Spark session may read anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.model.names import STAGING_DATABASE, DatasetName, to_dataset_name
from penstock.model.spec import DatasetSpec, Untraced

if TYPE_CHECKING:
    from penstock.definitions.trace_findings import Trace


@dataclass(slots=True)
class Guesses:
    """The guesses of all definitions. They are inputs where there are such datasets, and remarks elsewhere."""

    database: str
    _found: dict[DatasetName, Mapping[DatasetName, Untraced | None]] = field(default_factory=dict)

    def take(
        self, name: DatasetName, trace: Trace, depends_on: Iterable[str]
    ) -> tuple[tuple[str, ...], tuple[Untraced, ...]]:
        """The names that a definition may read, and remarks on those that cannot be names of datasets.

        Who declares what is read needs no remarks on what else may be.
        """
        declared = {self._to_name(text) for text in depends_on}
        valid = {text: found for text in trace.guesses if (found := self._to_name(text)) is not None}
        self._found[name] = {
            found: None if declared else trace.guesses[text] for text, found in valid.items() if found not in declared
        }
        invalid = {text: remark for text, remark in trace.guesses.items() if text not in valid}
        reads = tuple(text for text in trace.inputs if text not in invalid)
        return reads, () if declared else tuple(invalid.values())

    def settle(self, specs: Iterable[DatasetSpec]) -> tuple[DatasetSpec, ...]:
        """The definitions without inputs that were guessed and that no definition provides."""
        specs = tuple(specs)
        names = {spec.name for spec in specs}
        return tuple(self._settle(spec, names) for spec in specs)

    def _settle(self, spec: DatasetSpec, names: set[DatasetName]) -> DatasetSpec:
        """Nothing is called like a staging table by chance, so such a name stays, and is checked."""
        guessed = self._found.get(spec.name, {})
        wrong = [
            name for name in spec.inputs if name in guessed and name not in names and name.database != STAGING_DATABASE
        ]
        if not wrong:
            return spec
        inputs = tuple(name for name in spec.inputs if name not in wrong)
        remarks = tuple(remark for name in wrong if (remark := guessed[name]) is not None)
        return replace(spec, inputs=inputs, untraced=(*spec.untraced, *remarks))

    def _to_name(self, text: str) -> DatasetName | None:
        try:
            return to_dataset_name(text, self.database)
        except ValueError:
            return None
