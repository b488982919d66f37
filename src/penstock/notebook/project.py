"""`penstock.open`: a project in a notebook, planned, run and inspected on the Spark session that is there."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.console import Console

from penstock.cli.text_output import TextOutput
from penstock.engine import Engine, open_engine
from penstock.errors import PenstockError, UsageError
from penstock.model.nearest import nearest_hint
from penstock.model.plan import Plan
from penstock.model.results import RunResult
from penstock.notebook.html_output import HtmlOutput

if TYPE_CHECKING:
    from penstock.run.planner import PlanRequest

T = TypeVar("T")
_WIDTH = 120
_REFRESH_HINT = 'write full_refresh="orders" or full_refresh_all=True'
_WISHES = ("full_refresh", "full_refresh_all", "allow_history_loss", "drop_retired")


@dataclass(frozen=True, slots=True, repr=False)
class Shown(Generic[T]):
    """A result that a notebook shows as a table; `value` is the result itself."""

    value: T
    draw: Callable[[TextOutput], None]

    def __repr__(self) -> str:
        """As the command line shows it."""
        text = io.StringIO()
        self.draw(
            TextOutput(
                Console(file=text, width=_WIDTH, highlight=False, emoji=False, color_system=None, soft_wrap=True)
            )
        )
        return text.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        output = HtmlOutput()
        self.draw(output)
        return output.html


@dataclass(frozen=True, slots=True, repr=False)
class ShownRun(Shown[RunResult]):
    """The result of a pipeline run."""

    @property
    def has_failed(self) -> bool:
        return self.value.has_failed

    def check(self) -> None:
        """Raise PenstockError if a dataset failed: for jobs, which must not end as if nothing had happened."""
        problems = [item.problem for item in self.value.items if item.problem is not None]
        if self.value.has_failed:
            said = "; ".join(map(str, problems))
            raise PenstockError(
                f"the pipeline run failed: {said}", hint=next((each.hint for each in problems if each.hint), None)
            )


@dataclass(frozen=True, slots=True)
class NotebookProject:
    """A project in a notebook. Each call reads the files of the project again, so that edits count."""

    folder: Path
    target: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    def plan(
        self, select: str | Sequence[str] = (), *, exclude: str | Sequence[str] = (), **wishes: Any
    ) -> Shown[Plan]:
        """What `run` would do to each dataset, and why; writes nothing and starts no JVM.

        Takes the same as the command line: `full_refresh`, `full_refresh_all`, `allow_history_loss`, `drop_retired`.
        """
        engine = self._open()
        plan = engine.plan(_request(engine, select, exclude, wishes))
        return Shown(plan, lambda output: output.plan(plan))

    def run(self, select: str | Sequence[str] = (), *, exclude: str | Sequence[str] = (), **wishes: Any) -> ShownRun:
        """Run the pipeline on the active Spark session, or on one that is started for this run; takes the same as `plan`.

        A dataset that fails does not raise: it is shown, and `check()` of the result raises.
        """
        engine = self._open()
        plans: list[Plan] = []
        result = engine.run(_request(engine, select, exclude, wishes), on_plan=plans.append)
        return ShownRun(result, lambda output: output.run(plans[0] if plans else None, result))

    def show(self, name: str | None = None, *, rows: int = 0, quarantine: bool = False) -> Shown[Any]:
        """All datasets; one dataset in detail; or some of its rows, or of its quarantined rows."""
        if not isinstance(rows, int) or rows < 0:
            raise UsageError(f"rows must be a number of rows, not {rows!r}", hint="write rows=20")
        inspector = self._open().inspector
        if name is None:
            datasets = inspector.datasets()
            return Shown(datasets, lambda output: output.datasets(datasets))
        if rows or quarantine:
            found = inspector.rows(name, rows or 20, quarantine=quarantine)
            return Shown(found, lambda output: output.rows(found))
        details = inspector.show(name)
        return Shown(details, lambda output: output.details(details))

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()

    def _open(self) -> Engine:
        return open_engine(self.folder, target=self.target, variables=self.variables)


def open(  # noqa: A001 - `penstock.open`
    folder: Path | str | None = None, *, target: str | None = None, variables: Mapping[str, str] | None = None
) -> NotebookProject:
    """Open the project of a folder (or one above it; by default the current one) for a notebook.

    Raises at once if penstock.yml or a definition is wrong.
    """
    for name, value in (variables or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(
                f"the variable {name!r} must be a text, not {type(value).__name__}",
                hint=f"write variables={{{str(name)!r}: {str(value)!r}}}",
            )
    engine = open_engine(Path(folder) if folder is not None else None, target=target, variables=variables)
    return NotebookProject(engine.project.root, target, dict(variables or {}))


def _request(
    engine: Engine, select: str | Sequence[str], exclude: str | Sequence[str], wishes: Mapping[str, Any]
) -> PlanRequest:
    for name in wishes:
        if name not in _WISHES:
            raise UsageError(
                f"plan and run take no {name!r}", hint=f"{nearest_hint(name, _WISHES)}they take {', '.join(_WISHES)}"
            )
    for name in ("full_refresh", "allow_history_loss"):
        if not _is_texts(wishes.get(name, "")):
            raise UsageError(f"{name} must be a name or a list of names, not {wishes[name]!r}", hint=_REFRESH_HINT)
    named: dict[str, Any] = {
        name: ",".join(value) if isinstance(value, list | tuple) else value for name, value in wishes.items()
    }
    return engine.request(_texts(select), _texts(exclude), **named)


def _is_texts(given: object) -> bool:
    return isinstance(given, str) or (isinstance(given, list | tuple) and all(isinstance(each, str) for each in given))


def _texts(given: str | Sequence[str]) -> list[str]:
    if not _is_texts(given):
        raise UsageError(f"a selection must be a selector or a list of them, not {given!r}", hint='such as "orders+"')
    return [given] if isinstance(given, str) else list(given)
