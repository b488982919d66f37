"""The fingerprint of a Python definition: which edits change it, and that nothing else does."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Folder
    from penstock.model.spec import DatasetSpec

HELPERS = {
    "lib/__init__.py": "",
    "lib/near.py": "from lib import far\n\ndef price():\n    return far.rate() * 2\n",
    "lib/far.py": "from .deep.base import BASE\n\ndef rate():\n    return BASE\n",
    "lib/deep/__init__.py": "",
    "lib/deep/base.py": "BASE = 1\n",
    "lib/unused.py": "X = 1\n",
}
START = """\
import dataclasses, datetime, decimal, enum, functools, logging, re
from collections import namedtuple
from pathlib import Path
from penstock import pipelines as dp
from penstock.pipelines import spark
from lib.near import price
import lib.far

LIMIT = 10
NAMES = {"b", "a", "c"}
OPTIONS = {"x": [1, 2], "y": (None, True, 1.5, b"z")}
log = logging.getLogger(__name__)

class Colour(enum.Enum):
    RED = 1

@dataclasses.dataclass(frozen=True)
class Rule:
    when: datetime.date
    colour: Colour
    def test(self):
        return self.when

RULE = Rule(datetime.date(2024, 1, 1), Colour.RED)
Pair = namedtuple("Pair", "a b")
MISC = [decimal.Decimal("1.0"), datetime.timedelta(days=1), Path(__file__).parent, re.compile("x"), Pair(1, 2)]

def helper(x):
    '''Doc.'''
    return inner(x)

def inner(x):
    return x + 1

@functools.lru_cache
def cached():
    return 1

def other():
    return 1

class Shop:
    rate = 2
    def total(self):
        return inner(self.rate)

TABLE = {"one": other_one} if False else {"one": inner}

def make(day, step=lambda: 1):
    @dp.materialized_view(name="made")
    def made():
        return [day for _ in range(3)], step
    return made

make("monday")

@dp.materialized_view(comment="c")
def orders(default=7):
    '''Doc.'''
    # a comment
    log.info("x")
    rows = [LIMIT for _ in NAMES]
    wide = (lambda: OPTIONS)()
    return rows, wide, RULE, helper(1), cached(), Shop().total(), MISC, TABLE["one"], price(), lib.far.rate(), default

@dp.table
def unrelated():
    return 3
"""


def specs(folder: Folder, text: str = START, **files: str) -> dict[str, DatasetSpec]:
    for name, content in {**HELPERS, **files, "transformations/a.py": text}.items():
        folder.write(name, content)
    return {spec.name.name: spec for spec in folder.load()}


def edited(old: str, new: str) -> str:
    assert old in START
    return START.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("# a comment", "# another comment, with more words", ""),
        ("    '''Doc.'''\n    # a", "    '''Other words.'''\n    # a", ""),
        ("    '''Doc.'''\n    return inner", "    return inner", ""),
        ("LIMIT = 10\n", "\n\nLIMIT   =   10  # ten\n", ""),
        ("def other():\n    return 1", "def other():\n    return 2", ""),
        ('comment="c"', 'comment="d"', ""),
        ("    return 3\n", "    return 4\n", "unrelated"),
        ("log = logging", "UNUSED = 5\nlog = logging", ""),
        ('{"b", "a", "c"}', '{"c", "a", "b"}', ""),
        ('{"x": [1, 2], "y": (None, True, 1.5, b"z")}', '{"y": (None, True, 1.5, b"z"), "x": [1, 2]}', ""),
        ("LIMIT = 10", "LIMIT = 11", "orders"),
        ("LIMIT = 10", "LIMIT = 10.0", "orders"),
        ('{"b", "a", "c"}', '{"b", "a"}', "orders"),
        ("[1, 2]", "[2, 1]", "orders"),
        ("datetime.date(2024, 1, 1)", "datetime.date(2024, 1, 2)", "orders"),
        ("return self.when", "return self.colour", "orders"),
        ("RED = 1", "RED = 2", "orders"),
        ('Decimal("1.0")', 'Decimal("1.00")', "orders"),
        ("days=1", "days=2", "orders"),
        ('re.compile("x")', 're.compile("x", re.I)', "orders"),
        ("Pair(1, 2)", "Pair(1, 3)", "orders"),
        ("return x + 1", "return x + 2", "orders"),
        ("return inner(x)\n", "return inner(x) or 1\n", "orders"),
        ("def cached():\n    return 1", "def cached():\n    return 2", "orders"),
        ("rate = 2", "rate = 3", "orders"),
        ("return inner(self.rate)", "return inner(1)", "orders"),
        ("default=7", "default=8", "orders"),
        ('make("monday")', 'make("tuesday")', "made"),
        ("step=lambda: 1", "step=lambda: 2", "made"),
        ("for _ in range(3)", "for _ in range(4)", "made"),
        ("(lambda: OPTIONS)()", "(lambda: [OPTIONS])()", "orders"),
    ],
)  # fmt: skip
def test_only_edits_that_matter_change_the_fingerprint(folder: Folder, old: str, new: str, changed: str) -> None:
    before = specs(folder)
    after = specs(folder, edited(old, new))
    assert {name for name in before if before[name].fingerprint != after[name].fingerprint} == ({changed} - {""})
    assert [spec.untraced for spec in before.values()] == [(), (), ()]


@pytest.mark.parametrize(
    ("file", "text", "is_changed"),
    [
        ("lib/near.py", HELPERS["lib/near.py"].replace("* 2", "* 3"), True),
        ("lib/far.py", HELPERS["lib/far.py"] + "\nZ = 1\n", True),
        ("lib/deep/base.py", "BASE = 2\n", True),
        ("lib/deep/base.py", "# why\nBASE = 1\n", False),
        ("lib/deep/__init__.py", "Y = 1\n", True),
        ("lib/__init__.py", "Y = 1\n", True),
        ("lib/unused.py", "X = 2\n", False),
    ],
)
def test_edited_modules_change_what_imports_them(folder: Folder, file: str, text: str, is_changed: bool) -> None:
    before = specs(folder)["orders"].fingerprint
    after = specs(folder, **{file: text})["orders"].fingerprint
    assert (before != after) is is_changed


def test_an_import_inside_a_function_counts(folder: Folder) -> None:
    fingerprints = set()
    for value in (1, 2):
        folder.write("lib/late.py", f"def f():\n    return {value}\n")
        fingerprints.add(folder.define("from lib.late import f\nreturn f()").fingerprint)
    assert len(fingerprints) == 2


def test_an_environment_value_in_a_module_constant_counts(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("lib/settings.py", "import os\nLIMIT = os.environ['LIMIT']\n")
    fingerprints = set()
    for value in ("1", "2"):
        monkeypatch.setenv("LIMIT", value)
        fingerprints.add(folder.define("return lib.settings.LIMIT", "import lib.settings").fingerprint)
    assert len(fingerprints) == 2


def test_variables_that_are_read_count(folder: Folder) -> None:
    found = {}
    for values in ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}):
        folder.vars = dict(values)
        found[tuple(values.values())] = folder.define("return dp.var('a', default=3)").fingerprint
    assert found[1, 1] != found[2, 1]
    assert found[1, 1] == found[1, 2]


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("", "lo, hi = map(dp.var, ['a', 'b'])\nreturn lo"),
        ("read = functools.partial(dp.var, 'a')\n", "return read()"),
        ("class Settings:\n    get = staticmethod(functools.partial(dp.var, 'a'))\n", "return Settings.get()"),
        ("", "return getattr(dp, 'var')('a')"),
        ("", "get = dp.var\nreturn get('a')"),
        ("", "get = dp.var\nreturn list(map(get, ['a']))"),
        ("def get(n):\n    n = n[::-1]\n    return dp.var(n)\n", "return get('a')"),
        ("def get(n):\n    n = n + ''\n    return dp.var(n)\n", "return get('a')"),
        ("def get(n):\n    if n:\n        n = 'a'\n    return dp.var(n)\n", "return get('b')"),
        ("NAME = 'b'\ndef choose():\n    global NAME\n    NAME = 'a'\n", "choose()\nreturn dp.var(NAME)"),
        ("NAMES = {'n': 'b'}\ndef choose(): NAMES['n'] = 'a'\n", "choose()\nreturn dp.var(NAMES['n'])"),
        ("NAMES = ['b']\ndef choose(): NAMES.insert(0, 'a')\n", "choose()\nreturn dp.var(NAMES[0])"),
        ("", "names = ['b']\nother = names\nother[0] = 'a'\nreturn dp.var(names[0])"),
        ("", "names = {}\nnames.setdefault('n', 'a')\nreturn dp.var(names.get('n', 'b'))"),
        ("", "extra = {'n': 'a'}\nreturn dp.var(dict(m='b', **extra).get('n', 'b'))"),
        ("", "get = dp.var\nif get:\n    get = lambda n: n\nreturn get('a')"),
        ("_var = None\ndef choose():\n    global _var\n    _var = dp.var\n", "choose()\nreturn _var('a')"),
        ("", "class Settings:\n    get = dp.var\nreturn Settings.get('a')"),
    ],
)  # fmt: skip
def test_a_variable_counts_in_whatever_way_it_is_named(folder: Folder, before: str, body: str) -> None:
    found = []
    for value in (1, 2):
        folder.vars = {"a": value, "b": 1}
        found.append(folder.define(body, f"import functools\n{before}"))
    assert found[0].fingerprint != found[1].fingerprint
    assert found[0].untraced == found[1].untraced == ()


GETTER = "def f(n='b', *_): return dp.var(n)\n"
LOCAL = "get = lambda n: dp.var(n)\n"


@pytest.mark.parametrize(
    ("before", "body"),
    [
        (f"{GETTER}run = None\ndef choose():\n    global run\n    run = partial(f, 'a')\n", "choose()\nreturn run()"),
        (GETTER, "class Steps:\n    first = partial(f, 'a')\nreturn Steps.first()"),
        (GETTER, "class Steps:\n    first = partial(f, 'a')\n    second = first\nreturn Steps.second()"),
        (GETTER, "def run(): ...\ndef choose():\n    nonlocal run\n    run = partial(f, 'a')\nchoose()\nreturn run()"),
        (GETTER, "options = {'n': 'a'}\nget = partial(f, **options)\nreturn get()"),
        ("", f"{LOCAL}return get('b'), *map(get, ['a'])"),
        ("", "def get(n): return dp.var(n)\nreturn get('b'), *map(get, ['a'])"),
        ("", f"{LOCAL}other = get\nreturn get('b'), other('a')"),
        ("def helper(get): return get('a')\n", f"{LOCAL}return get('b'), helper(get)"),
        ("", "one = get = lambda n: dp.var(n)\nreturn one('a'), get('b')"),
        ("", f"class Local:\n    {LOCAL}get = lambda n: n\nreturn get('b'), Local.get('a')"),
        ("", "class Local:\n    @staticmethod\n    def get(n): return dp.var(n)\nget = len\nreturn get('b'), Local.get('a')"),
        ("def other(f): return lambda n: f('a')\n", "@other\ndef get(n): return dp.var(n)\nreturn get('b')"),
    ],
)  # fmt: skip
def test_a_variable_counts_if_other_code_may_call_what_reads_it(folder: Folder, before: str, body: str) -> None:
    found = set()
    for value in (1, 2):
        folder.vars = {"a": value, "b": 1}
        found.add(folder.define(body, f"from functools import partial\n{before}").fingerprint)
    assert len(found) == 2


@pytest.mark.parametrize(
    "body",
    ["get = dp.var\nreturn get('b')", "rows = []\nrows.append(1)\nreturn dp.var('b')", f"{LOCAL}return get('b')"],
)
def test_a_variable_that_is_not_read_does_not_count(folder: Folder, body: str) -> None:
    found = set()
    for value in (1, 2):
        folder.vars = {"a": value, "b": 1}
        found.add(folder.define(body).fingerprint)
    assert len(found) == 1


def test_the_fingerprint_is_the_same_in_every_process_and_folder(folder: Folder) -> None:
    top = folder.root
    found = set()
    for index, seed in enumerate(["0", "1", "2"]):
        folder.root = top / str(index)
        for name, text in {**HELPERS, "transformations/a.py": START}.items():
            folder.write(name, text)
        code = f"""
from pathlib import Path
from penstock.definitions.loading import load_definitions
from penstock.model.project import Project
root = Path({str(folder.root)!r})
print([s.fingerprint for s in load_definitions(Project(root=root, file=root / "p.yml", name="n", storage="x"))])
"""
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        found.add(done.stdout)
    assert len(found) == 1
    assert next(iter(found)).count(",") == 2


def test_fingerprints_of_older_versions_still_hold(folder: Folder) -> None:
    """A table that an older Penstock wrote is up to date after an upgrade: change these values only with a good reason."""
    assert {name: spec.earlier_fingerprint for name, spec in specs(folder).items()} == {
        "made": "67219e78975cc793c1538ba35063288f",
        "orders": "cbff04149fe8aa2721cb0165f2636afc",
        "unrelated": "ad49ec1fa6ea901e851cf61366eae350",
    }


@pytest.mark.parametrize(
    ("before", "body", "old", "new"),
    [
        ("@functools.singledispatch\ndef f(x): return 1\n@f.register\ndef _(x: int): return 2\n",
         "return f(1)", "2", "3"),
        ("TIMES = 3\n@shop.retry(TIMES)\ndef f(): return 1\n", "return f()", "TIMES = 3", "TIMES = 4"),
        ("def g(): return 1\nf = shop.loose(g)\n", "return f()", "return 1", "return 2"),
        ("f = shop.made(1)\n", "return f()", "made(1)", "made(2)"),
        ("def g(): return 1\nf = functools.partial(g, 5)\n", "return f()", "5", "6"),
        ("def g(): return 1\nFS = {g, len}\n", "return FS", "return 1", "return 2"),
        ("import sys\nsys.path.append(str(ROOT / 'shared'))\nimport sums\n", "return sums.total()", "sums", "sums"),
        ("from pyspark.sql import types as T\nS = T.StructType([T.StructField('a', T.LongType())])\n",
         "return S", "Long", "String"),
        ("from pyspark.sql import functions as F, types as T\nf = F.udf(lambda x: x, T.LongType())\n", "return f",
         "T.Long", "T.String"),
        ("from pyspark.sql import functions as F, types as T\nf = F.udf(lambda x: x + 1, T.LongType())\n", "return f",
         "x + 1", "x + 2"),
    ],
)  # fmt: skip
def test_what_is_put_together_counts_too(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, before: str, body: str, old: str, new: str
) -> None:
    library = folder.root.parent / f"{folder.root.name}_library"
    library.mkdir()
    (library / "shop.py").write_text(
        "import functools\n"
        "def retry(times):\n    def outer(f):\n        @functools.wraps(f)\n        def run(): return f()\n"
        "        return run\n    return outer\n"
        "def loose(f):\n    def run(): return f()\n    return run\n"
        "def made(n):\n    def run(): return n\n    return run\n"
    )
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    head = "import functools, pathlib\nimport shop\nROOT = pathlib.Path(__file__).parents[1]\n"
    folder.write("shared/sums.py", "X = 1\ndef total(): return X\n")
    first = folder.define(body, head + before)
    folder.write("shared/sums.py", "X = 2\ndef total(): return X\n")
    second = folder.define(body, head + before.replace(old, new))
    third = folder.define(body, head + before.replace(old, new))
    assert (first.untraced, second.untraced) == ((), ())
    assert first.fingerprint != second.fingerprint == third.fingerprint
