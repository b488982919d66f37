"""What the command line, a web page or a notebook may ask of the tables of other systems. Starts no JVM.

advised = advise(SqliteSource("shop.db", "orders"), Declared(keys=("id",)))
advised.advice.chosen
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.databases.evidence import collect_evidence, to_declared
from penstock.databases.passwords import with_password
from penstock.errors import UsageError
from penstock.model.advice import Advice, decide_strategy
from penstock.model.evidence import Declared, Evidence
from penstock.model.load_snippets import propose_name, to_python, to_yaml
from penstock.model.loads import Connection, DeltaSource, JdbcSource, LoadOptions, Source, SqliteSource
from penstock.model.names import to_dataset_name
from penstock.model.nearest import did_you_mean
from penstock.model.project import Project
from penstock.model.references import ReferenceFillError, fill_text
from penstock.model.spec import DatasetSpec


@dataclass(frozen=True, slots=True)
class Advised:
    """An advice, the evidence behind it, and the load that follows it."""

    name: str
    advice: Advice
    evidence: Evidence
    python: str
    yaml: str

    def to_json(self) -> dict[str, object]:
        """For `--json`; `facts` is the evidence in the form that a load records."""
        return {
            "dataset": self.name,
            **self.advice.to_json(),
            "facts": self.evidence.to_json(),
            "python": self.python,
            "yaml": self.yaml,
        }


def advise(
    source: Source, declared: Declared, name: str | None = None, options: Mapping[str, str] | None = None
) -> Advised:
    """Look at a table and recommend a load strategy. `options` reach the object store of a Delta table."""
    evidence = collect_evidence(with_password(source), declared, options)
    advice = decide_strategy(evidence)
    chosen = name or propose_name(source)
    return Advised(chosen, advice, evidence, to_python(chosen, source, advice), to_yaml(chosen, source, advice))


def find_load(specs: Sequence[DatasetSpec], text: str, project: Project) -> tuple[DatasetSpec, LoadOptions]:
    """The load that a user means by `name` or `database.name`."""
    loads = {spec.name: spec for spec in specs if spec.load is not None}
    try:
        name = to_dataset_name(text, project.database)
    except ValueError as error:
        raise UsageError(str(error)) from None
    spec = loads.get(name)
    if spec is None or spec.load is None:
        if any(other.name == name for other in specs):
            raise UsageError(
                f"{name} is not a load", hint="only a table that dp.load or `loads:` declares has a source"
            )
        near = did_you_mean(text, [*map(str, loads), *(known.name for known in loads)])
        known = ", ".join(map(str, sorted(loads))) or "none"
        raise UsageError(f"there is no load {text}{near}", hint=f"loads of this project: {known}")
    return spec, spec.load


def find_connection(project: Project, name: str) -> Connection:
    """A connection of penstock.yml."""
    if name not in project.connections:
        known = ", ".join(sorted(project.connections)) or "none"
        raise UsageError(
            f"there is no connection {name}{did_you_mean(name, project.connections)}",
            hint=f"penstock.yml has under `connections`: {known}",
        )
    return project.connections[name]


def to_connection(url: str, user: str | None, environment: Mapping[str, str]) -> Connection:
    """A connection from a URL that the user typed; `${NAME}` is filled in from the environment."""
    try:
        return Connection(fill_text(url, environment), user)
    except ReferenceFillError as problem:
        raise UsageError(f"--url: {problem.message}", hint=problem.hint) from None


__all__ = [
    "Advised",
    "Connection",
    "Declared",
    "DeltaSource",
    "JdbcSource",
    "Source",
    "SqliteSource",
    "advise",
    "find_connection",
    "find_load",
    "to_connection",
    "to_declared",
]
