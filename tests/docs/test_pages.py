"""What the pages say about the program is so."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from penstock.config.json_schema import schema_text
from penstock.config.project_shape import PROJECT
from penstock.config.shape import Record
from penstock.faults import VARIABLE
from penstock.session.jars import GROUPS
from tests.docs.codes import error_codes, plan_codes
from tests.docs.markdown import DOCS, PACKAGE, PAGES, ROOT, anchors, fences, first_column, links, section


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_internal_links_resolve(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} points to {link}"
        assert not anchor or anchor in anchors(file), f"{page.name} points to {link}; there are {sorted(anchors(file))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_paths_of_a_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"/(?:tmp|root|work|home)/", text)


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = {ROOT / "README.md"}, [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            target = target / "README.md" if target.is_dir() else target
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                waiting.append(target)
    assert set(PAGES) - reached == set()


def test_every_code_of_a_plan_is_explained() -> None:
    documented = first_column(section(DOCS / "incremental.md", "Reason codes"))
    assert sorted(documented) == sorted(set(documented)), "a code is listed twice"
    # A raw file or a Delta log that cannot be read, and a missing secret, give their error's code to the problem or damage.
    assert set(documented) == plan_codes() | {"raw_file", "log_damaged", "config"}


def test_every_error_code_is_explained() -> None:
    documented = first_column(section(DOCS / "operations.md", "Error codes"))
    assert sorted(documented) == sorted(error_codes())


def test_the_schema_for_editors_is_up_to_date() -> None:
    assert (DOCS / "penstock.schema.json").read_text(encoding="utf-8") == schema_text(), "run `make docs`"


def test_every_field_of_the_project_file_is_explained() -> None:
    fields = set()
    for name, field in PROJECT.fields.items():
        shape = field.shape
        if not isinstance(shape, Record):
            fields.add(name)
            continue
        fields |= {f"{name}.{below}" for below in shape.fields} | ({name} if shape.short else set())
    assert set(first_column(section(DOCS / "project-file.md", "Fields"))) >= fields
    assert {name for name in first_column(section(DOCS / "project-file.md", "Fields")) if "://" not in name} == fields


def _layers() -> list[list[str]]:
    linter = ConfigParser()
    linter.read(ROOT / ".importlinter")
    lines = linter["importlinter:contract:layers"]["layers"].strip().splitlines()
    return [line.split(" | ") for line in lines]


def test_the_picture_of_the_layers_is_that_of_import_linter() -> None:
    (picture,) = fences(DOCS / "architecture.md", "layers")
    assert [line.split(" | ") for line in picture.text.splitlines()] == _layers()


def test_the_picture_lists_exactly_the_rooms_that_exist() -> None:
    packages = {folder.parent.name for folder in PACKAGE.glob("*/__init__.py")}
    rooms = packages | {file.stem for file in PACKAGE.glob("*.py")} - {"__init__"}
    assert set(first_column(section(DOCS / "architecture.md", "Rooms"))) == rooms
    assert {room for layer in _layers() for room in layer} == rooms


def test_versions_and_variables_are_named_as_they_are() -> None:
    operations = (DOCS / "operations.md").read_text(encoding="utf-8")
    for _, name, version in GROUPS["delta"].exact:
        assert f"`{name}-{version}.jar`" in operations
    assert {"PENSTOCK_CACHE", VARIABLE} <= set(first_column(section(DOCS / "operations.md", "Environment variables")))


def test_the_readme_names_the_test_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^    make test  ", text, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        named = re.findall(r"(?:^    |`)make ([a-z- ]+?)(?:  |`|$)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert {target for words in named for target in words.split()} <= targets


def test_the_words_name_code_that_exists() -> None:
    rows = [line for line in section(DOCS / "architecture.md", "Words").splitlines() if line.startswith("| ")]
    names = {name for row in rows for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", row.split("|")[3])}
    assert len(names) > 30
    assert {name for name in names if not _is_code(name.split("."))} == set()


def _is_code(parts: list[str]) -> bool:
    """Whether the dotted name is a room or module of ours, or stands in one: a class and its members."""
    for count in range(len(parts), 0, -1):
        place = PACKAGE.joinpath(*parts[:count])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.exists():
            text = file.read_text(encoding="utf-8")
            return all(re.search(rf"\b{name}\b", text) for name in parts[count:])
    return False


def test_an_extension_touches_at_most_three_shared_files() -> None:
    rows = [line.split("|") for line in section(ROOT / "CONTRIBUTING.md", "Files to touch").splitlines()]
    shared = {row[1].strip(): re.split(r"\b\d\. ", row[3])[1:] for row in rows if len(row) == 5 and "1. " in row[3]}
    assert set(shared) == {"a kind of dataset", "a drift rule", "an event-log backend", "a command"}
    for steps in shared.values():
        assert 1 <= len(steps) <= 3
        for file in (re.findall(r"`([^`]+)`", step)[0] for step in steps):
            assert (ROOT / file).is_file(), file
