"""Reading Markdown, as far as these tests need it: fences, tables, links, anchors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "penstock"
PAGES = tuple(sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")]))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block of a page."""

    language: str
    text: str


def fences(page: Path, language: str) -> list[Fence]:
    """The blocks of one language, in order."""
    found = (Fence(*match.groups()) for match in _FENCE.finditer(page.read_text(encoding="utf-8")))
    return [fence for fence in found if fence.language == language]


def links(page: Path) -> list[str]:
    """Where the page points to; what only looks like a link inside a block of code is left out."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", text))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    words = (re.sub(r"[`*]", "", heading).strip().lower() for heading in _HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", word).replace(" ", "-") for word in words}


def section(page: Path, heading: str) -> str:
    """The text below a heading, up to the next one of the same or a higher level."""
    text = page.read_text(encoding="utf-8")
    match = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert match is not None, f"{page.name} has no section {heading!r}"
    rest = text[match.end() :]
    end = re.search(rf"^#{{1,{len(match[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def first_column(text: str) -> list[str]:
    """The names in backticks that stand in the first column of the tables in a text."""
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [re.findall(r"`([^`]+)`", row.split("|")[1])[0] for row in rows]
