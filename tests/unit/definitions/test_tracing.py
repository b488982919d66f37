"""What a Python definition rests on: which edits change its fingerprint, what it reads, what cannot be traced."""

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


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("return dp.read('a')", "a"),
        ("from penstock.pipelines import read\nreturn read('a')", "a"),
        ("return read_rows('a')", "a"),
        ("return spark.table('x.a')", "x.a"),
        ("return dp.spark.table('a').join(dp.spark.read.table('b'), 'id')", "a b"),
        ("return spark.read.option('x', 1).format('delta').table('a')", "a"),
        ("s = get()\nreturn s.table('a')", "a"),
        ("return spark.sql('SELECT * FROM a JOIN b USING (id)')", "a b"),
        ("return spark.sql(f'SELECT * FROM {TABLE} WHERE x > 1')", "const"),
        ("return spark.sql('SELECT * FROM {rows}', rows=dp.read('a'))", "a"),
        ("return dp.read(TABLE)", "const"),
        ("return dp.read(f'{PREFIX}_{TABLE!s:>5}')", "p_const"),
        ("return dp.read(PREFIX + '.' + TABLE)", "p.const"),
        ("return dp.read('%s_x' % PREFIX)", "p_x"),
        ("return dp.read('{}_y'.format(PREFIX))", "p_y"),
        ("return dp.read(NAMES['k'])", "v"),
        ("return dp.read(CONFIG.table)", "conf"),
        ("return dp.read(dp.var('t'))", "from_var"),
        ("name = 'a'\nreturn dp.read(name)", "a"),
        ("name = 'a' if x else 'b'\nreturn dp.read(name)", "a b"),
        ("return [dp.read(n) for n in ['a', 'b']]", "a b"),
        ("for key, value in NAMES.items():\n    dp.read(value)", "v"),
        ("pairs = enumerate(['a'])\nfor _, n in pairs:\n    dp.read(n)\n[dp.read(n + 'x') for _, n in pairs]", "a ax"),
        ("x = 'a'\n" + "".join(f"x{i} = x + x\nx = 'a'\n" for i in range(40)) + "return dp.read(x)", "a"),
        ("for n in sorted(NAMES):\n    dp.read(n)", "k"),
        ("return helper('a')", "a helped"),
        ("return helper(name=TABLE)", "const helped"),
        ("return default_helper()", "by_default"),
        ("return dp.read('a').transform(plain_helper)", "a plain"),
        ("return lib.tables.load('a')", "a"),
        ("return load_it('a')", "a"),
        ("from lib.tables import load as late\nreturn late('a')", "a"),
        ("def inner(n):\n    return dp.read(n)\nreturn inner('a'), inner('b')", "a b"),
        ("return (lambda: dp.read('a'))()", "a"),
        ("return Loader().rows()", "method"),
        ("return ACTIONS['x']()", "plain"),
        ("return wrapped()", "in_wrapped"),
        ("return spark.range(3), 'x'.join(['a'])", ""),
        ("from delta.tables import DeltaTable\nreturn DeltaTable.forName(spark, 'a').toDF()", "a"),
    ],
)
def test_inputs_are_found(folder: Folder, body: str, inputs: str) -> None:
    folder.vars = {"t": "from_var"}
    folder.write("lib/tables.py", "from penstock import pipelines as dp\ndef load(name):\n    return dp.read(name)\n")
    before = """
import dataclasses, functools, typing
import lib.tables
from lib.tables import load as load_it
from penstock.pipelines import read as read_rows

TABLE, PREFIX, NAMES = "const", "p", {"k": "v"}

class Config(typing.NamedTuple):
    table: str

CONFIG = Config("conf")

def helper(name):
    return dp.read(name), dp.read("helped")

def default_helper(name="by_default"):
    return dp.read(name)

def plain_helper(rows=None):
    return dp.read("plain")

ACTIONS = {"x": plain_helper}

def twice(f):
    @functools.wraps(f)
    def run(*args):
        return f(*args)
    return run

@twice
def wrapped():
    return dp.read("in_wrapped")

class Loader:
    def rows(self):
        return dp.read("method")
"""
    spec = folder.define(body, before)
    # A loop over possible names gives them in the order of the text; the order does not matter to a plan.
    assert {str(name).removeprefix("main.") for name in spec.inputs} == set(inputs.split())
    assert spec.untraced == ()


UNSEEN = [
    ("return dp.read(get())", "untraced_read", 1, "name cannot be seen"),
    ("x = 1\nreturn spark.table(some.name)", "untraced_read", 2, "some.name"),
    ("return spark.sql(get())", "untraced_read", 1, "SQL whose text cannot be seen"),
    ("return spark.sql('SELEC')", "untraced_read", 1, "cannot be traced"),
]


@pytest.mark.parametrize(
    ("body", "code", "line", "text"),
    [
        *UNSEEN,
        ("return spark.read.parquet('/x')", "untraced_read", 1, "spark.read"),
        ("return spark.read.format('jdbc').options(a=1).load()", "untraced_read", 1, "spark.read"),
        ("r = spark.read\nreturn r.csv('x')", "untraced_read", 1, "spark.read"),
        ("return spark.sql('''SELECT *\nFROM parquet.`/x`''')", "untraced_read", 2, "parquet.`/x`"),
        ("return spark.sql('''SELECT\n\nrand()''')", "not_deterministic", 3, "rand()"),
        ("return F.rand()", "not_deterministic", 1, "F.rand()"),
        ("from pyspark.sql.functions import current_timestamp as ct\nreturn ct()", "not_deterministic", 2, "ct()"),
        ("from pyspark.sql import functions as G\nreturn G.uuid()", "not_deterministic", 2, "G.uuid()"),
        ("return F.expr('a + rand()')", "not_deterministic", 1, "rand"),
        ("return dp.read('a').selectExpr('b', 'current_date as d')", "not_deterministic", 1, "current_date"),
        ("return dp.read('a').where('x > now()')", "not_deterministic", 1, "now"),
        ("return F.unix_timestamp()", "not_deterministic", 1, "unix_timestamp"),
        ("return dp.read('a').sample(0.1)", "not_deterministic", 1, "seed"),
        ("return datetime.now()", "not_deterministic", 1, "datetime.now()"),
        ("import datetime as dt\nreturn dt.datetime.utcnow()", "not_deterministic", 2, "utcnow"),
        ("return date.today()", "not_deterministic", 1, "date.today()"),
        ("return time.time()", "not_deterministic", 1, "time.time()"),
        ("return now_alias()", "not_deterministic", 1, "now_alias()"),
        ("return random.choice([1])", "not_deterministic", 1, "random.choice()"),
        ("return pick([1])", "not_deterministic", 1, "pick()"),
        ("return uuid.uuid4()", "not_deterministic", 1, "uuid.uuid4()"),
        ("return os.environ['X']", "untraced_read", 1, "os.environ"),
        ("return os.getenv('X')", "untraced_read", 1, "os.getenv()"),
        ("return open('x')", "untraced_read", 1, "open()"),
        ("return Path('x').read_text()", "untraced_read", 1, "read_text"),
        ("import requests\nreturn requests.get('x')", "untraced_read", 2, "requests.get()"),
        ("import urllib.request\nreturn urllib.request.urlopen('x')", "untraced_read", 2, "urlopen"),
        ("return socket.create_connection(('a', 1))", "untraced_read", 1, "socket"),
        ("return importlib.import_module(get())", "untraced_import", 1, "import_module"),
        ("return __import__(get())", "untraced_import", 1, "__import__"),
        ("return eval('1')", "untraced_import", 1, "eval()"),
        ("exec('x = 1')", "untraced_import", 1, "exec()"),
        ("return CONNECTION", "untraced_value", 1, "CONNECTION"),
        ("x = 1\nreturn [y for y in MIXED]", "untraced_value", 2, "MIXED"),
        ("return UNKNOWN()", "untraced_value", 1, "UNKNOWN"),
        ("return LOOSE", "untraced_value", 1, "not frozen"),
    ],
)  # fmt: skip
def test_what_cannot_be_traced_is_said_with_its_line(
    folder: Folder, body: str, code: str, line: int, text: str
) -> None:
    before = """
import dataclasses, importlib, os, random, socket, threading, time, uuid
from datetime import date, datetime
from pathlib import Path
from random import choice as pick
from time import time as now_alias
import sys, types
F = sys.modules.setdefault("pyspark.sql.functions", None) or types.ModuleType("pyspark.sql.functions")
if not hasattr(F, "rand"):
    sys.modules.pop("pyspark.sql.functions")
    F.rand = F.expr = F.unix_timestamp = len
CONNECTION = threading.Lock()
MIXED = [1, object()]
UNKNOWN = eval("lambda: 1")  # noqa: S307

@dataclasses.dataclass
class Open:
    x: int

LOOSE = Open(1)

def get():
    return sys.platform.swapcase()
"""
    if "UNKNOWN" not in body:
        before = before.replace('UNKNOWN = eval("lambda: 1")  # noqa: S307', "")
    spec = folder.define(body, before)
    found = [item for item in spec.untraced if text in item.text]
    assert [item.code for item in found] == [code], spec.untraced
    place = found[0].location
    assert place is not None
    assert place.file == "transformations/a.py"
    lines = (folder.root / "transformations/a.py").read_text().splitlines()
    assert place.line == lines.index("def orders():") + 1 + line


@pytest.mark.parametrize("body", [body for body, *_ in UNSEEN])
def test_depends_on_stands_for_reads_that_cannot_be_seen(folder: Folder, body: str) -> None:
    spec = folder.define(body, "def get(): return len\nsome = len", "@dp.table(depends_on=['x'])")
    assert spec.untraced == ()
    assert [str(name) for name in spec.inputs] == ["main.x"]


def test_depends_on_does_not_hide_files(folder: Folder) -> None:
    spec = folder.define("return spark.read.parquet('/x')", decorator="@dp.table(depends_on=['x'])")
    assert [item.code for item in spec.untraced] == ["untraced_read"]


def test_trouble_in_a_helper_is_said_where_it_is(folder: Folder) -> None:
    folder.write("lib/clock.py", "import datetime\n\ndef now():\n    return datetime.datetime.now()\n")
    spec = folder.define("return clock.now()", "from lib import clock")
    assert [(item.code, str(item.location)) for item in spec.untraced] == [("not_deterministic", "lib/clock.py:4")]


def test_a_computed_import_in_a_helper_module_is_reported(folder: Folder) -> None:
    folder.write("lib/plugins.py", "import importlib\nname = 'json'\nmodule = importlib.import_module(name)\n")
    spec = folder.define("return 1", "from lib import plugins")
    assert [(item.code, str(item.location)) for item in spec.untraced] == [("untraced_import", "lib/plugins.py:3")]


def test_virtual_environments_below_the_root_are_not_the_project(folder: Folder) -> None:
    folder.write("env/pyvenv.cfg", "")
    folder.write("env/vendored.py", "def f():\n    return object()\n")
    before = "import sys, pathlib\nsys.path.append(str(pathlib.Path(__file__).parents[1] / 'env'))\nimport vendored\n"
    try:
        assert folder.define("return vendored.f()", before).untraced == ()
    finally:
        sys.path.remove(str(folder.root / "env"))
        del sys.modules["vendored"]


def test_recursion_ends(folder: Folder) -> None:
    before = "def a(n):\n    return b(n + 1)\n\ndef b(n):\n    return a(n), dp.read('t')\n"
    assert [str(name) for name in folder.define("return a(1)", before).inputs] == ["main.t"]


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
        ("import collections\nD = collections.defaultdict(list, a=1)\n", "return D", "a=1", "a=2"),
        ("import types\nN = types.SimpleNamespace(a=1)\n", "return N.a", "a=1", "a=2"),
        ("import operator\nG = operator.itemgetter('a')\n", "return G", "'a'", "'b'"),
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


def test_a_function_of_unknown_text_is_always_recomputed(folder: Folder) -> None:
    spec = folder.define("return 1", "make = eval('lambda f: lambda: f')", "@dp.table(name='x')\n@make")
    assert {item.code for item in spec.untraced} >= {"untraced_value"}


def test_parameters_of_a_definition_are_their_defaults(folder: Folder) -> None:
    text = """
from penstock import pipelines as dp
for region in ["eu", "us"]:
    @dp.table(name=f"orders_{region}")
    def orders(region=region, *, kind="raw"):
        return dp.read(f"{kind}_{region}")
"""
    folder.write("transformations/a.py", text)
    first, second = folder.load()
    assert [str(name) for spec in (first, second) for name in spec.inputs] == ["main.raw_eu", "main.raw_us"]
    assert first.fingerprint != second.fingerprint
    assert first.untraced == second.untraced == ()


def test_a_helper_that_a_factory_holds_is_followed_as_it_is_called(folder: Folder) -> None:
    text = """
from penstock import pipelines as dp
def load(name):
    return dp.read(name)
def make(loader, name):
    @dp.table(name=name)
    def orders():
        return loader("t_" + name)
make(load, "a")
"""
    folder.write("transformations/a.py", text)
    spec = folder.one()
    assert ([str(name) for name in spec.inputs], spec.untraced) == (["main.t_a"], ())


def test_an_object_that_refuses_to_be_looked_at_is_reported(folder: Folder) -> None:
    before = (
        "class Proxy:\n    def __getattr__(self, name):\n        raise RuntimeError('no context')\nproxy = Proxy()\n"
    )
    spec = folder.define("return proxy.x", before)
    assert [item.code for item in spec.untraced] == ["untraced_value"]
