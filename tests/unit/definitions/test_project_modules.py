"""Which modules are the project's, however Python came to them, and that their newest text is what is traced and run."""

from __future__ import annotations

import importlib.machinery
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.definitions.project_modules import ProjectFiles, ProjectFinder, ProjectLoader
from penstock.definitions.user_code import UserCode

if TYPE_CHECKING:
    from conftest import Folder

USE = "return f(dp.read('staging.x'))"


@pytest.fixture(autouse=True)
def _kept_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def shop(folder: Folder) -> Folder:
    """A project whose folder has neighbours."""
    folder.root /= "shop"
    folder.root.mkdir()
    return folder


def limited(number: int) -> str:
    return f"def f(df):\n    return df.limit({number})\n"


def fingerprints(folder: Folder, file: str, before: str, texts: tuple[str, str]) -> tuple[str, str]:
    """The fingerprints of one definition with two versions of a module."""
    found = []
    for text in texts:
        folder.write(file, text)
        spec = folder.define(USE, before)
        assert spec.untraced == ()
        found.append(spec.fingerprint)
    return found[0], found[1]


def test_a_module_on_a_path_with_dots_is_traced(shop: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nb").mkdir()
    monkeypatch.chdir(tmp_path / "nb")
    sys.path.append("../shop/lib")
    first, second = fingerprints(shop, "lib/dotted.py", "from dotted import f\n", (limited(2), limited(3)))
    assert first != second


@pytest.mark.parametrize("root", ["shop", "link"])
def test_a_module_behind_a_link_is_traced(shop: Folder, tmp_path: Path, root: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "shop")
    sys.path.append(str(tmp_path / "link" / "lib"))
    shop.root = tmp_path / root
    first, second = fingerprints(shop, "lib/linked.py", "from linked import f\n", (limited(2), limited(3)))
    assert first != second


def test_a_folder_that_is_linked_into_the_project_is_traced(shop: Folder, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (shop.root / "lib").symlink_to(tmp_path / "shared")
    first, second = fingerprints(shop, "lib/inner.py", "from lib.inner import f\n", (limited(2), limited(3)))
    assert first != second


def test_a_module_outside_of_the_project_is_a_package(shop: Folder, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    before = "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent / '../../shared'))\n"
    texts = (limited(2), limited(3))
    first, second = fingerprints(shop, "../shared/outer.py", f"{before}from outer import f\n", texts)
    assert first == second


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        ("shop/lib/a.py", "lib/a.py"),
        ("shop//lib/./a.py", "lib/a.py"),
        ("nb/../shop/lib/a.py", "lib/a.py"),
        ("shop/../shop2/a.py", None),
        ("shop2/a.py", None),
        ("link/lib/a.py", "lib/a.py"),
        ("shop/away/../a.py", None),
        ("shop/away/a.py", "away/a.py"),
        ("shop/env/lib/a.py", None),
        ("shop/conda/lib/a.py", None),
        ("shop/lib/site-packages/a.py", None),
        ("link/lib/site-packages/a.py", None),
    ],
)
def test_one_rule_says_which_files_are_the_projects(
    shop: Folder, tmp_path: Path, file: str, is_own: str | None
) -> None:
    for folder in ("nb", "shop2", "other/far", "shop/lib", "shop/env/lib", "shop/conda/conda-meta"):
        (tmp_path / folder).mkdir(parents=True)
    (shop.root / "env" / "pyvenv.cfg").touch()
    (shop.root / "away").symlink_to(tmp_path / "other" / "far")
    (tmp_path / "link").symlink_to(shop.root)
    found = ProjectFiles(shop.root).own_path(f"{tmp_path}/{file}")
    assert found == (None if is_own is None else shop.root / is_own)


def test_text_that_is_no_file_is_not_the_projects(shop: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.root)
    files = ProjectFiles(shop.root)
    assert not any(files.is_project_file(text) for text in ("<string>", "a.py", "", "None", f"{shop.root}/.."))


ON_PATH = "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent.parent / 'src'))\n"
CODE = "def f(df):\n    return df.limit(RATE)\n"


@pytest.mark.parametrize(
    ("file", "before"),
    [
        ("src/hx.py", f"{ON_PATH}from hx import RATE, f\n"),
        ("src/nspkg/mod.py", f"{ON_PATH}from nspkg import mod\nRATE, f = mod.RATE, mod.f\n"),
        ("src/nspkg/deep/mod.py", f"{ON_PATH}from nspkg.deep.mod import RATE, f\n"),
        ("nspkg2/mod.py", "from nspkg2.mod import RATE, f\n"),
    ],
)
def test_what_runs_is_what_was_edited_last(
    shop: Folder, monkeypatch: pytest.MonkeyPatch, file: str, before: str
) -> None:
    """Edited at the same size and time, Python's own cache gives the old code; modules that stay loaded do, too."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    found = []
    for number in "23":
        shop.write(file, f"RATE = {number}\n{CODE}")
        os.utime(shop.root / file, (1_700_000_000, 1_700_000_000))
        spec = shop.define(USE, before)
        assert spec.function is not None
        found.append((inspect.unwrap(spec.function).__globals__["RATE"], spec.fingerprint))
    assert [rate for rate, _ in found] == [2, 3]
    assert found[0][1] != found[1][1]


def test_a_package_that_is_installed_as_editable_is_compiled_from_its_text(shop: Folder) -> None:
    class Editable:
        def find_spec(self, name: str, path: object = None, target: object = None) -> object:
            place = str(shop.root / "src")
            return importlib.machinery.PathFinder.find_spec(name, [place]) if name == "edited" else None

    sys.meta_path.append(Editable())
    first, second = fingerprints(shop, "src/edited.py", "from edited import f\n", (limited(2), limited(3)))
    assert first != second
    assert isinstance(sys.modules["edited"].__loader__, ProjectLoader)


def test_an_installed_module_before_the_projects_on_the_path_stays_first(shop: Folder, tmp_path: Path) -> None:
    installed = tmp_path / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "twice.py").write_text("RATE = 1\ndef f(df): return df\n")
    sys.path[:0] = [str(installed), str(shop.root / "src")]
    shop.write("src/twice.py", limited(2))
    spec = shop.define(USE, "from twice import RATE, f\n")
    assert spec.function is not None
    assert inspect.unwrap(spec.function).__globals__["RATE"] == 1


HEAD = "from penstock import pipelines as dp\n"
LATER = (
    "@dp.table\ndef later():\n    import loader_.paths, frames_\n    return dp.read('staging.x').limit(frames_.RATE)\n"
)


def test_a_module_that_another_definition_makes_reachable_counts(shop: Folder) -> None:
    """`first` asks for it before `later` puts its folder on Python's path."""
    shop.write("frames_.py", "RATE = 1\n")
    shop.write("loader_/__init__.py", "")
    shop.write("loader_/paths.py", f"{ON_PATH.replace('src', 'extra')}import late\n")
    body = "    try:\n        import late\n    except ImportError:\n        return dp.read('staging.x')\n    return late.f()\n"
    shop.write("transformations/a.py", f"{HEAD}@dp.table\ndef first():\n{body}")
    shop.write("transformations/b.py", HEAD + LATER)
    found = []
    for number in "23":
        sys.path[:] = [entry for entry in sys.path if not entry.endswith("/extra")]
        shop.write("extra/late.py", f"RATE = {number}\n{HEAD}def f():\n    return dp.read('staging.late')\n")
        found.append({spec.name.name: spec for spec in shop.load()})
    assert found[0]["later"].fingerprint != found[1]["later"].fingerprint
    assert found[0]["first"].fingerprint != found[1]["first"].fingerprint
    assert [str(name) for name in found[0]["first"].inputs] == ["staging.x", "staging.late"]


def test_a_module_on_the_path_that_is_imported_inside_a_function_is_followed(shop: Folder) -> None:
    shop.write("src/inside.py", f"{HEAD}def f():\n    return dp.read('staging.inside')\n")
    spec = shop.define("import inside\nreturn inside.f()", ON_PATH)
    assert [str(name) for name in spec.inputs] == ["staging.inside"]


@pytest.mark.parametrize("entry", ["", "../shop/src"])
def test_an_entry_of_the_path_may_be_relative(shop: Folder, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    shop.write("src/inside.py", f"{HEAD}def f():\n    return dp.read('staging.inside')\n")
    monkeypatch.chdir(shop.root / "src" if not entry else shop.root)
    sys.path.insert(0, entry)
    assert [str(name) for name in shop.define("import inside\nreturn inside.f()").inputs] == ["staging.inside"]


def _two_projects(folder: Folder, tmp_path: Path) -> list[tuple[UserCode, Callable[[], str]]]:
    """The boundaries and functions of two projects, loaded one after the other; each function says whose modules it gets."""
    found = []
    for name in ("first", "second"):
        folder.root = tmp_path / name
        folder.write("lib/prices.py", f"WHO = '{name}'\n")
        spec = folder.define("from lib.prices import WHO\nreturn WHO")
        assert spec.function is not None
        found.append((UserCode(folder.root, spec), spec.function))
    return found


def test_of_two_projects_each_gets_its_own_modules(folder: Folder, tmp_path: Path) -> None:
    (first, call_first), (second, call_second) = _two_projects(folder, tmp_path)
    for code, call, who in [
        (first, call_first, "first"),
        (second, call_second, "second"),
        (first, call_first, "first"),
    ]:
        with code.boundary("the definition"):
            assert call() == who
        assert [type(each) for each in sys.meta_path].count(ProjectFinder) == 1


def test_a_project_does_not_take_away_the_modules_of_code_that_runs(folder: Folder, tmp_path: Path) -> None:
    """Of two projects at the same time the first keeps its modules, and nobody waits for the other."""
    (first, call_first), (second, call_second) = _two_projects(folder, tmp_path)
    with first.boundary("the definition"):
        with ThreadPoolExecutor(1) as threads, second.boundary("the definition"):
            threads.submit(call_second).result(timeout=20)
        assert call_first() == "first"
    with second.boundary("the definition"):
        assert call_second() == "second"
