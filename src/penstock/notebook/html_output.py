"""Results as HTML, for a notebook: what the command line shows, in tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from rich.text import Text

from penstock.cli.text_output import TextOutput

_RIGHT = frozenset({"rows", "version", "time", "reads"})
_CELL = "text-align:{};vertical-align:top"


class _Page:
    """Takes sentences where a console would print them."""

    is_terminal = False

    def __init__(self) -> None:
        self.parts: list[str] = []

    def print(self, text: Any = "", *, markup: bool = True, **_: Any) -> None:
        """A sentence; text without markup, such as SQL, keeps its lines."""
        if markup:
            self.parts.append(f"<div>{escape(Text.from_markup(str(text), emoji=False).plain)}</div>")
        else:
            self.parts.append(f"<pre>{escape(str(text))}</pre>")


class HtmlOutput(TextOutput):
    """Tables and sentences as HTML; nothing from a table can become markup."""

    def __init__(self) -> None:
        self._page = _Page()
        super().__init__(self._page)  # type: ignore[arg-type]  # only `print` and `is_terminal` are used

    @property
    def html(self) -> str:
        """Everything that was shown."""
        return "".join(self._page.parts)

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        cells = ((f"<b>{escape(label)}</b>", escape(value)) for label, value in facts)
        rows = "".join(f"<tr>{_cell(label, 'right')}{_cell(value)}</tr>" for label, value in cells)
        self._page.parts.append(f"<table>{rows}</table>")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        sides = ["right" if column in _RIGHT else "left" for column in columns]
        head = "".join(
            f'<th style="{_CELL.format(side)}">{escape(column)}</th>'
            for column, side in zip(columns, sides, strict=True)
        )
        body = "".join(
            f"<tr>{''.join(_cell(escape(cell), side) for cell, side in zip(row, sides, strict=True))}</tr>"
            for row in rows
        )
        self._page.parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _cell(content: str, side: str = "left") -> str:
    return f'<td style="{_CELL.format(side)}">{content}</td>'
