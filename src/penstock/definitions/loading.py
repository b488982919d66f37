"""From the files of a project to specs: finds definition files, loads them, and checks them against each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.definitions.checking import check_duplicates, check_tags, check_views
from penstock.definitions.conditions import check_conditions
from penstock.definitions.declarations import from_declaration, to_erasable_table
from penstock.definitions.definition_files import find_definition_files, is_sql
from penstock.definitions.flows import FlowNames, to_streaming_tables
from penstock.definitions.guesses import Guesses
from penstock.definitions.jobs import to_job, with_jobs
from penstock.definitions.loads import to_load
from penstock.definitions.local_views import without_local_views
from penstock.definitions.mistakes import Mistakes
from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.project_modules import ProjectFiles, ProjectFinder, project_imports
from penstock.definitions.python_files import check_callable, load_python_file
from penstock.definitions.sql_facts import ColumnNeed, QueryFacts, SqlStatement
from penstock.definitions.sql_facts import ResultColumns as SqlResult
from penstock.definitions.sql_files import read_sql_file
from penstock.definitions.sql_partitions import to_partitioning
from penstock.errors import DefinitionError, Location
from penstock.model.contract import Contract
from penstock.model.erasure import ErasableTable, check_tables
from penstock.model.names import STAGING_DATABASE, DatasetName, to_dataset_name
from penstock.model.partitions.declared import Partitioning, by_values
from penstock.model.partitions.refs import PartitionError
from penstock.model.partitions.schemes import ColumnScheme
from penstock.model.project import Project
from penstock.model.spec import (
    CertainColumns,
    DatasetKind,
    DatasetSpec,
    Expectation,
    NeededColumn,
    OnViolation,
    ResultColumns,
    TableLayout,
    Untraced,
)
from penstock.pipelines.registry import Definition, Registry, bind_variables, collect_definitions

if TYPE_CHECKING:
    from penstock.definitions.tracing import Tracer


def load_definitions(project: Project) -> tuple[DatasetSpec, ...]:
    """Load every definition of the project, ordered by file and place.

    Raises DefinitionError with the user's file and line before anything runs; SeveralDefinitionsError when several are wrong.
    Messages show paths from the project's root. Inputs and cycles are checked separately, by `check_inputs` and
    `check_cycles`.
    """
    return load_everything(project)[0]


def load_everything(project: Project) -> tuple[tuple[DatasetSpec, ...], Project]:
    """Load every definition; and the project with what the files declare about tables added to penstock.yml."""
    loader = _Loader(project)
    specs = loader.guesses.settle(without_local_views(loader.load(), project.database))
    mistakes = Mistakes()
    with mistakes.collected():
        check_duplicates(specs)
    with mistakes.collected():
        check_tags(specs)
    with mistakes.collected():
        check_views(specs, loader.qualified_reads, project.database)
    mistakes.raise_found()
    contracts = dict(project.staging)
    for table, contract in loader.contracts:
        if table in contracts:
            raise DefinitionError(
                f"the staging table {table} is declared twice: at {contracts[table].location} and at {contract.location}",
                hint="keep one of them",
                location=contract.location,
            )
        contracts[table] = contract
    tables = list(project.erasure.tables)
    for erasable in loader.erasables:
        tables.append(erasable)
        try:
            check_tables(tables)
        except ValueError as error:
            raise DefinitionError(str(error), hint="keep one of them", location=erasable.location) from None
    erasure = replace(project.erasure, tables=tuple(tables))
    return specs, with_jobs(replace(project, staging=contracts, erasure=erasure), specs)


class _Loader:
    """One load of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._files = ProjectFiles(project.root)
        self._cache = ParseCache(project.state_folder / "cache" / "sql.json")
        self.qualified_reads: list[tuple[DatasetName, Location]] = []
        self.contracts: list[tuple[str, Contract]] = []
        self.erasables: list[ErasableTable] = []
        self.guesses = Guesses(project.database)
        self._mistakes = Mistakes()

    def load(self) -> tuple[DatasetSpec, ...]:
        paths = find_definition_files(self._project)
        specs = [spec for path in paths if is_sql(path) for spec in self._load_sql(path)]
        python = [path for path in paths if not is_sql(path)]
        if python:
            specs += self._load_python(python)
        for each in self._project.loads:
            with self._mistakes.collected():
                specs.append(to_load(each, self._project, each.location, self._dataset_name))
        self._cache.save()
        self._mistakes.raise_found()
        return tuple(sorted(specs, key=lambda s: (s.location.file, s.location.line or 0, s.location.column or 0)))

    def _load_sql(self, path: Path) -> list[DatasetSpec]:
        specs = []
        with self._mistakes.collected():
            for statement in self._read_sql(path):
                with self._mistakes.collected():
                    specs.append(self._from_statement(self._files.shown(path), statement))
        return specs

    def _read_sql(self, path: Path) -> tuple[SqlStatement, ...]:
        file = self._files.shown(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise DefinitionError(f"this file cannot be read: {reason}", location=Location(file)) from error
        return read_sql_file(file, text, self._project.vars, self._cache)

    def _from_statement(self, file: str, statement: SqlStatement) -> DatasetSpec:
        location = Location(file, statement.line, statement.column)
        facts, given = statement.facts, statement.partitions
        qualified = self._input_names((text for text in facts.inputs if "." in text), location)
        self.qualified_reads += [(name, location) for name in qualified]
        return DatasetSpec(
            name=self._dataset_name(statement.name, location),
            kind=DatasetKind(statement.kind),
            location=location,
            inputs=self._input_names(facts.inputs, location),
            fingerprint=facts.fingerprint,
            untraced=tuple(Untraced(r.code, r.text, Location(file, r.line, r.column)) for r in facts.remarks),
            layout=TableLayout(
                statement.comment, statement.partition_cols, statement.cluster_by, statement.table_properties
            ),
            expectations=tuple(Expectation(n, c, OnViolation(what)) for n, c, what in statement.expectations),
            tags=statement.tags,
            sql=statement.query,
            query_line=statement.query_line,
            query_column=statement.query_column,
            columns=self._columns(facts),
            needs=tuple(self._need(need, Location(file, need.line, need.column)) for need in facts.needs),
            result=self._result(facts.result),
            partitioning=to_partitioning(given, self._source_name, location) if given is not None else None,
            job=to_job(dict(statement.job), location),
        )

    def _columns(self, facts: QueryFacts) -> dict[DatasetName, frozenset[str]]:
        names = {text: to_dataset_name(text, self._project.database) for text in facts.inputs}
        whole = {name for text, name in names.items() if text not in facts.columns}
        found: dict[DatasetName, frozenset[str]] = {}
        for text, columns in facts.columns.items():
            if names[text] not in whole:
                found[names[text]] = found.get(names[text], frozenset()).union(columns)
        return found

    def _need(self, need: ColumnNeed, place: Location) -> NeededColumn:
        reads, others = (
            tuple((self._input(text), column) for text, column in pairs) for pairs in (need.reads, need.others)
        )
        places = tuple(tuple(map(self._input, texts)) for texts in need.places)
        return NeededColumn(
            reads, place, others, need.is_open, need.name, need.is_qualifier, need.known, places, need.advice
        )

    def _result(self, given: SqlResult) -> ResultColumns:
        certain = (
            CertainColumns(each.name, self._input(each.input) if each.input else None, frozenset(each.without))
            for each in given.certain
        )
        inputs = tuple(map(self._input, given.inputs))
        return ResultColumns(frozenset(given.names), inputs, given.is_open, given.has_texts, tuple(certain))

    def _input(self, text: str) -> DatasetName:
        return to_dataset_name(text, self._project.database)

    def _load_python(self, paths: list[Path]) -> list[DatasetSpec]:
        finder = ProjectFinder(self._files)
        with project_imports(finder, self._files):
            with collect_definitions(self._project.vars) as registry:
                before = self._mistakes.count
                for path in paths:
                    with self._mistakes.collected():
                        load_python_file(path, self._files, finder)
            is_whole = self._mistakes.count == before
            for error in registry.mistakes:
                with self._mistakes.collected():
                    raise self._with_shown_place(error)
            if not is_whole:
                return []  # what the other files define may need what these do not
            return self._from_registry(registry)

    def _from_registry(self, registry: Registry) -> list[DatasetSpec]:
        from penstock.definitions.tracing import Tracer

        mistakes = self._mistakes
        for declared in registry.declarations:
            with mistakes.collected():
                self.contracts.append(from_declaration(declared, self._shown(declared.location)))
        for erasable in registry.erasables:
            with mistakes.collected():
                place = self._shown(erasable.location)
                self.erasables.append(to_erasable_table(erasable, self._project.database, place))
        tracer = Tracer(self._files, self._project.vars, self._cache)
        tracer.follow_all(definition.function for definition in registry.definitions)
        specs: list[DatasetSpec] = []
        for definition in registry.definitions:
            with mistakes.collected():
                specs.append(self._from_definition(definition, registry, tracer))
        for load in registry.loads:
            with mistakes.collected():
                specs.append(to_load(load, self._project, self._shown(load.location), self._dataset_name))
        if not registry.mistakes:  # a target or a dataset that is wrong is no missing one
            with mistakes.collected():
                self._check_complete(registry)
            names, shown = FlowNames(self._dataset_name, self._source_name), self._files.shown
            with mistakes.collected():
                specs += to_streaming_tables(registry.targets, registry.flows, shown, names, self._project.root)
        with mistakes.collected():
            check_conditions(specs, tracer.sources, self._cache)
        return specs

    def _shown(self, place: Location) -> Location:
        return Location(self._files.shown(place.file), place.line)

    def _check_complete(self, registry: Registry) -> None:
        try:
            registry.check_complete()
        except DefinitionError as error:
            raise self._with_shown_place(error) from None

    def _with_shown_place(self, error: DefinitionError) -> DefinitionError:
        shown = self._shown(error.location) if error.location else None
        return DefinitionError(error.message, hint=error.hint, location=shown)

    def _from_definition(self, definition: Definition, registry: Registry, tracer: Tracer) -> DatasetSpec:
        from penstock.definitions.trace_needs import find_python_query

        location, decorator = self._shown(definition.location), self._shown(definition.decorator)
        name = self._dataset_name(definition.name, decorator)
        check_callable(definition, location)
        trace = tracer.trace(definition.function, has_depends_on=bool(definition.depends_on))
        query = find_python_query(definition.function, tracer.sources, self._cache)
        reads, remarks = self.guesses.take(name, trace, definition.depends_on)
        return DatasetSpec(
            name=name,
            kind=definition.kind,
            location=location,
            inputs=self._input_names((*reads, *definition.depends_on), location),
            fingerprint=trace.fingerprint,
            untraced=(*trace.untraced, *remarks),
            earlier_fingerprint=trace.earlier,
            layout=definition.layout,
            expectations=registry.expectations_of(definition.function),
            tags=definition.tags,
            local_views=trace.views,
            needs=tuple(self._need(*found) for found in query.needs),
            result=self._result(query.result),
            function=bind_variables(definition.function, self._project.vars),
            partitioning=self._partitioning(definition, decorator),
            job=to_job(definition.job, decorator),
        )

    def _partitioning(self, definition: Definition, location: Location) -> Partitioning | None:
        given = definition.partitions
        if given is None:
            return None
        mapped = {self._source_name(text, location): mapping for text, mapping in given.inputs.items()}
        if not isinstance(given.scheme, ColumnScheme):
            return Partitioning(given.scheme, mapped, given.takes_many)
        try:
            return by_values(given.scheme.key, mapped, takes_many=given.takes_many)
        except PartitionError as error:
            raise DefinitionError(error.message, hint=error.hint, location=location) from None

    def _source_name(self, text: str, location: Location) -> DatasetName:
        return self._input_names([text], location)[0]

    def _dataset_name(self, text: str, location: Location) -> DatasetName:
        try:
            name = to_dataset_name(text, self._project.database)
        except ValueError as error:
            example = "orders" if is_sql(Path(location.file)) else "name='orders'"
            raise DefinitionError(str(error), hint=f"give a name, such as {example}", location=location) from None
        if name.database == STAGING_DATABASE:
            raise DefinitionError(
                f"{name} cannot be defined: the database {STAGING_DATABASE!r} holds the tables made from raw files",
                hint="choose another database",
                location=location,
            )
        return name

    def _input_names(self, texts: Iterable[str], location: Location) -> tuple[DatasetName, ...]:
        found: dict[DatasetName, None] = {}
        for text in texts:
            try:
                found[to_dataset_name(text, self._project.database)] = None
            except ValueError:
                raise DefinitionError(
                    f"reads {text!r}, which is not a valid dataset name: use name or database.name", location=location
                ) from None
        return tuple(found)
