"""What looks like a definition and is not read is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.definitions.definition_files import find_definition_files, find_ignored_files

if TYPE_CHECKING:
    from conftest import Folder

VIEW = "CREATE MATERIALIZED VIEW {} AS SELECT 1 AS a"


def test_an_ending_in_upper_case_is_sql_too(folder: Folder) -> None:
    folder.write("transformations/A.SQL", VIEW.format("a"))
    assert [str(spec.name) for spec in folder.load()] == ["main.a"]
    assert find_ignored_files(folder.project) == ()


def test_what_looks_like_a_definition_and_is_none_is_told(folder: Folder) -> None:
    folder.write("shared/a.sql", VIEW.format("a"))
    folder.write("transformations/B.PY", "")
    folder.write("transformations/.hidden.sql", "")
    folder.write("transformations/notes.txt", "")
    place = folder.root / "transformations"
    (place / "linked.sql").symlink_to("../shared/a.sql")
    (place / "shared").symlink_to("../shared")
    (place / "dead.sql").symlink_to("nowhere")
    (place / "loop.py").symlink_to("loop.py")
    (place / "dead").symlink_to("nowhere")
    (place / "folder.sql").mkdir()
    os.mkfifo(place / "pipe.sql")
    assert [file.name for file in find_definition_files(folder.project)] == ["linked.sql"]
    assert find_ignored_files(folder.project) == (
        "transformations/B.PY is ignored: it is not called .py in lower case",
        "transformations/dead.sql is ignored: it is a link that leads nowhere",
        "transformations/folder.sql is ignored: it is a folder",
        "transformations/loop.py is ignored: it is a link that leads nowhere",
        "transformations/pipe.sql is ignored: it is not a file",
        "transformations/shared is ignored: it is a link to a folder, which `**` does not follow; name it in libraries",
    )


def test_a_linked_folder_that_libraries_name_is_read(folder: Folder) -> None:
    folder.write("shared/a.sql", VIEW.format("a"))
    folder.write("transformations/b.sql", VIEW.format("b"))
    (folder.root / "transformations/shared").symlink_to("../shared")
    folder.libraries = ("transformations/**", "transformations/shared/**")
    assert len(folder.load()) == 2
    assert find_ignored_files(folder.project) == ()


def test_a_link_to_a_folder_above_is_not_followed_for_ever(folder: Folder) -> None:
    folder.write("transformations/a.sql", VIEW.format("a"))
    (folder.root / "transformations/again").symlink_to("..")
    assert len(folder.load()) == 1
    assert len(find_ignored_files(folder.project)) == 1


def test_a_glob_that_names_no_definitions_is_told(folder: Folder) -> None:
    folder.write("transformations/a.sql", "CREATE MATERIALIZED VIEW a AS SELECT 1 AS x;\n")
    folder.libraries = ("transformations", "nosuch/**", "transformations/**")
    assert find_ignored_files(folder.project) == (
        "libraries names transformations, where no definition file is; for the files in it, write transformations/**",
        "libraries names nosuch/**, where no definition file is",
    )
    folder.libraries = ("transformations/**",)
    (folder.root / "transformations/a.sql").unlink()
    assert find_ignored_files(folder.project) == (), "a project of staging tables has no definitions"
