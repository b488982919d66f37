"""What a Python definition reads, and what cannot be traced, each with its line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from penstock.errors import DefinitionError

if TYPE_CHECKING:
    from conftest import Folder


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("return dp.read('a')", "a"),
        ("from penstock.pipelines import read\nreturn read('a')", "a"),
        ("return read_rows('a')", "a"),
        ("return spark.table('x.a')", "x.a"),
        ("return dp.spark.table('a').join(dp.spark.read.table('b'), 'id')", "a b"),
        ("return spark.read.option('x', 1).format('delta').table('a')", "a"),
        ("return spark.read.table('a').where('id > 1').join(dp.spark.read.table('b').alias('b'), 'id')", "a b"),
        ("return dp.spark.read.option('x', 1).table('a').select('id')", "a"),
        ("r = dp.spark.read\nreturn r.table('a')", "a"),
        ("r = spark.read.format('delta')\nr = r.option('x', 1)\nreturn r.table('a').alias('x')", "a"),
        ("s = dp.spark\nreturn s.read.table('a').alias('x').join(s.read.table('b'), 'id')", "a b"),
        ("s = get()\nreturn s.table('staging.a')", "staging.a"),
        ("return spark.sql('SELECT * FROM a JOIN b USING (id)')", "a b"),
        ("return spark.sql(f'SELECT * FROM {TABLE} WHERE x > 1')", "const"),
        ("return spark.sql('SELECT * FROM {rows}', rows=dp.read('a'))", "a"),
        (
            "d = dp.read('a')\nreturn spark.sql('SELECT {d.x}, {n:.2f}, \"{{{s!s}\" FROM {d} JOIN b', d=d, n=1, s=2)",
            "a b",
        ),
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
        ("get = lambda n: dp.read(f'x.{n}')\nreturn get('a').join(get(n='b'), 'id')", "x.a x.b"),
        ("get = functools.partial(lib.tables.find, dp.spark)\nreturn get('a')", "x.a"),
        ("get = functools.partial(lib.tables.find, spark=dp.spark, prefix='y')\nreturn get(name='a')", "y.a"),
        ("return Loader().rows()", "method"),
        ("return ACTIONS['x']()", "plain"),
        ("return wrapped()", "in_wrapped"),
        ("return spark.range(3), 'x'.join(['a'])", ""),
        ("from delta.tables import DeltaTable\nreturn DeltaTable.forName(spark, 'a').toDF()", "a"),
    ],
)
def test_inputs_are_found(folder: Folder, body: str, inputs: str) -> None:
    folder.vars = {"t": "from_var"}
    folder.write(
        "lib/tables.py",
        "from penstock import pipelines as dp\ndef load(name):\n    return dp.read(name)\n"
        "def find(spark, name, *, prefix='x'):\n    return spark.table(f'{prefix}.{name}')\n",
    )
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


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("return SOURCE.rows()", "x.a"),
        ("return [source.rows() for source in SOURCES]", "x.a y.b"),
        ("return Child().build()", "child"),
        ("job = Child()\nreturn job.build()", "child"),
        ("return Base().build()", "base"),
        ("return Child.of_class()", "child"),
        ("return Child().of_class()", "child"),
        ("return Child().around()", "child"),
        ("return Own().build()", ""),
        ("job = Child()\njob.table = 'x'.upper()\nreturn job.build()", ""),
        ("return Field('x').build()", ""),
    ],
)
def test_what_an_object_reads_is_found_by_its_class_and_its_values(folder: Folder, body: str, inputs: str) -> None:
    before = """
import dataclasses

@dataclasses.dataclass(frozen=True)
class Source:
    database: str
    name: str

    @property
    def full(self):
        return f"{self.database}.{self.name}"

    def rows(self):
        return dp.spark.table(self.full)

SOURCE = Source("x", "a")
SOURCES = [SOURCE, Source("y", "b")]

class Base:
    table = "base"

    def build(self):
        return self.checked(dp.read(self.table))

    def around(self):
        return self.build()

    @classmethod
    def of_class(cls):
        return dp.read(cls.table)

    def checked(self, rows):
        return rows

class Child(Base):
    table = "child"

class Own(Base):
    def __init__(self):
        self.table = "c".upper()

@dataclasses.dataclass(frozen=True)
class Field(Base):
    table: str = "unused"
"""
    spec = folder.define(body, before)
    assert {str(name).removeprefix("main.") for name in spec.inputs} == set(inputs.split())
    # Another caller may give a method another object: the plan says what to do if a run reads something else.
    assert {item.code for item in spec.untraced} == {"untraced_read"}
    assert all("the run fails" in item.text and "depends_on" in item.text for item in spec.untraced)


UNSEEN = [
    ("return dp.read(get())", "untraced_read", 1, "name is known only at run time"),
    ("x = 1\nreturn spark.table(some.name)", "untraced_read", 2, "some.name"),
    ("return spark.sql(get())", "untraced_read", 1, "SQL whose text is known only at run time"),
    ("return spark.sql('SELEC')", "untraced_read", 1, "cannot be traced"),
]


@pytest.mark.parametrize(
    ("body", "code", "line", "text"),
    [
        *UNSEEN,
        ("return spark.read.parquet('/x')", "untraced_read", 1, "spark.read"),
        ("return spark.read.format('jdbc').options(a=1).load()", "untraced_read", 1, "spark.read"),
        ("r = spark.read\nreturn r.csv('x')", "untraced_read", 1, "spark.read"),
        ("return spark.read.jdbc('x', 'table').table", "untraced_read", 1, "spark.read"),
        ("r = spark.read\nreturn r.table('a').join(r.option('x', 1).parquet('x'), 'id')", "untraced_read", 1, "spark.read"),
        ("r = spark.read\nr = r.option('x', 1)\nreturn r.load()", "untraced_read", 1, "spark.read"),
        ("r = spark.read\nreturn 1", "untraced_read", 1, "spark.read"),
        ("global r\nr = spark.read\nreturn r.table('a')", "untraced_read", 2, "spark.read"),
        ("class Job:\n    r = spark.read\nreturn Job.r.load('x')", "untraced_read", 2, "spark.read"),
        ("get = dp.spark.read.table\nreturn get('a')", "untraced_read", 1, "dp.spark.read.table as a value"),
        ("return len(spark.read)", "untraced_read", 1, "spark.read"),
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
        ("return types.FunctionType(get.__code__, {})()", "untraced_import", 1, "types.FunctionType()"),
        ("c = dp.spark.catalog\nreturn c.listTables('x')", "untraced_read", 2, "c.listTables() reads the catalog"),
        ("return dp.spark.catalog.tableExists('x')", "untraced_read", 1, "tableExists() reads the catalog"),
        ("return CONNECTION", "untraced_value", 1, "CONNECTION"),
        ("x = 1\nreturn [y for y in MIXED]", "untraced_value", 2, "MIXED"),
        ("return UNKNOWN()", "untraced_value", 1, "UNKNOWN"),
        ("return LOOSE", "untraced_value", 1, "not frozen"),
        ("return NAMESPACE.a", "untraced_value", 1, "SimpleNamespace"),
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
NAMESPACE = types.SimpleNamespace(a=1)

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


@pytest.mark.parametrize(
    ("change", "given", "inputs"),
    [
        ("name = f'staging.{name}'", "'a'", {"staging.a"}),
        ("name = name.lower()", "'A'", {"main.a"}),
        ("name = name or 'staging.b'", "None", {"staging.b"}),
        ("if '.' not in name:\n        name = 'staging.' + name", "'a'", {"staging.a"}),
        ("if '.' not in name:\n        name = 'staging.' + name", "'x.a'", {"x.a"}),
        ("if name is None:\n        name = 'b'", "None", {"main.b"}),
        ("if unknown:\n        name = 'b'", "'a'", {"main.a", "main.b"}),
        ("for name in ['a', 'b']: pass", "'c'", {"main.a", "main.b", "main.c"}),
        ("if len([name]) and name: name = 'b'", "'a'", {"main.b"}),
        ("if name == 'a' or name.upper(): name = name + 'b'", "'a'", {"main.ab"}),
    ],
)
def test_a_parameter_that_gets_another_value_is_followed(
    folder: Folder, change: str, given: str, inputs: set[str]
) -> None:
    before = f"def load(name):\n    {change}\n    return dp.read(name)\n"
    spec = folder.define(f"return load({given})", before)
    assert ({str(name) for name in spec.inputs}, spec.untraced) == (inputs, ())


def test_depends_on_does_not_hide_files(folder: Folder) -> None:
    spec = folder.define("return spark.read.parquet('/x')", decorator="@dp.table(depends_on=['x'])")
    assert [item.code for item in spec.untraced] == ["untraced_read"]


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


@pytest.mark.parametrize("error", ["OSError", "RuntimeError"])
def test_an_object_that_raises_whatever_it_is_asked_is_an_error_of_its_definition(folder: Folder, error: str) -> None:
    before = (
        f"class Proxy:\n    def __getattribute__(self, name):\n        raise {error}('no context')\nproxy = Proxy()\n"
    )
    with pytest.raises(DefinitionError, match=rf"cannot be traced \({error}\)") as caught:
        folder.define("return proxy.x", before)
    assert caught.value.location is not None
    assert caught.value.location.file == "transformations/a.py"
