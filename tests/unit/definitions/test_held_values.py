"""Logic that a value holds, rather than the text of a function: methods of objects, partials, members of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Folder

HEAD = """
import dataclasses, functools, re, uuid
from collections import namedtuple
from datetime import datetime
from functools import partial, partialmethod
"""
SHOP = "class Shop:\n    def scale(self, rate, x=1):\n        return rate * x\n"
CLASSES = [
    ("class Shop:\n    @classmethod\n    def net(cls): return 2\nnet = Shop.net\n", "net()"),
    ("def scale(r, x=1): return r * x\nclass Shop:\n    net = staticmethod(partial(scale, RATE))\n", "Shop.net()"),
    ("def scale(r, x=1): return r * x\nclass Shop:\n    net = partial(scale, RATE)\n", "Shop.net()"),
    (f"{SHOP}    net = partialmethod(scale, RATE)\n", "Shop().net()"),
    ((f"def make(r):\n    {SHOP.replace(chr(10), chr(10) + '    ')}    net = partialmethod(scale, r)\n    return Shop\n"
     "Shop = make(RATE)\n"), "Shop().net()"),
    ("def rates(): return [2]\n@dataclasses.dataclass\nclass Shop:\n    r: list = dataclasses.field(default_factory=rates)\n",
     "Shop().r"),
    ("@dataclasses.dataclass\nclass Shop:\n    r: list = dataclasses.field(default_factory=lambda: [RATE])\n", "Shop().r"),
    ("@dataclasses.dataclass(slots=True)\nclass Shop:\n    r: int = RATE\n", "Shop().r"),
    ("@dataclasses.dataclass(slots=True)\nclass Shop:\n    r: int = dataclasses.field(default=RATE)\n", "Shop().r"),
    ("class Meta(type):\n    @property\n    def rate(cls): return 2\nclass Shop(metaclass=Meta): ...\n", "Shop.rate"),
    ("class Rule: ...\nclass Net(Rule):\n    rate = 2\n", "[rule.rate for rule in Rule.__subclasses__()]"),
    (("class Rule:\n    @classmethod\n    def all(cls): return cls.__subclasses__()\nclass Net(Rule): ...\n"
     "class Low(Net):\n    rate = 2\n"), "Rule.all()"),
    (("def rated(r):\n    def outer(kind):\n        kind.of = lambda self: r\n        return kind\n    return outer\n"
     "@rated(RATE)\nclass Shop: ...\n"), "Shop().of()"),
    ("def rated(kind):\n    kind.of = property(lambda self: 2)\n    return kind\n@rated\nclass Shop: ...\n", "Shop().of"),
    (("class Shop:\n    @functools.singledispatchmethod\n    def f(self, x): return 0\n    @f.register\n"
     "    def _(self, x: int): return RATE\n    @f.register\n    def _(self, x: str): return 1\n"), "Shop().f(1)"),
    (("class Shop:\n    def _get(self): return 1\n    def _delete(self): return 2\n    x = property(_get, None, _delete)\n"
     "    del _delete\n"), "Shop().x"),
    ("class Row:\n    x: int = 2\nclass Shop:\n    make = staticmethod(partial(Row))\n", "Shop.make().x"),
    ("Pair = namedtuple('Pair', 'a b', defaults=[2])\n", "Pair(1).b"),
]  # fmt: skip
BOUND = [
    ("SQL = 'SELECT {} * 2'.format\n", "SQL('a')"),
    ("RATES = {'a': 2}.get\n", "RATES('a')"),
    ("JOIN = ', 2'.join\n", "JOIN(['a', 'b'])"),
    ("REPLACE = re.compile('2').sub\n", "REPLACE('-', 'abc')"),
    ("ALL = [{'a': 2}.get]\n", "ALL[0]('a')"),
    ("ADD = partial('{} * 2'.format, 'x')\n", "ADD()"),
    ("@dataclasses.dataclass(frozen=True)\nclass Clean:\n    r: int\n    def run(self): return self.r\nrun = Clean(2).run\n",
     "run()"),
    ("@dataclasses.dataclass(frozen=True)\nclass Clean:\n    def run(self): return 2\nrun = Clean().run\n", "run()"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "value"), [*CLASSES, *BOUND])
def test_an_edit_of_what_a_value_holds_is_seen(folder: Folder, before: str, value: str) -> None:
    text = f"{HEAD}RATE = 2\n{before}"
    first, same, second = (
        folder.define(f"return {value}", each) for each in (text, f"# why\n{text}", text.replace("2", "3"))
    )
    assert first.fingerprint == same.fingerprint != second.fingerprint
    assert first.untraced == second.untraced == ()


@pytest.mark.parametrize(
    ("before", "value", "code", "text"),
    [
        ("NOW = partial(datetime.now, None)\n", "NOW()", "not_deterministic", "uses NOW, which holds datetime"),
        ("NOW = {'a': datetime.now}\n", "NOW[x]()", "not_deterministic", "uses NOW, which holds datetime"),
        ("@dataclasses.dataclass\nclass Row:\n    id: str = dataclasses.field(default_factory=uuid.uuid4)\n",
         "Row().id", "not_deterministic", "uses id in Row, which holds uuid.uuid4"),
        ("READ = [open]\n", "READ[x]()", "untraced_read", "uses READ, which holds io.open"),
        ("READ = partial(dp.read)\n", "READ(x)", "untraced_read", "uses READ, which holds dp.read"),
        ("class Open: ...\nrun = Open().__eq__\n", "run(x)", "untraced_value", "a value of type 'Open'"),
    ],
)  # fmt: skip
def test_what_a_value_holds_is_judged(folder: Folder, before: str, value: str, code: str, text: str) -> None:
    (found,) = folder.define(f"return {value}", f"{HEAD}{before}").untraced
    assert (found.code, text in found.text) == (code, True), found
    assert found.location is not None
    assert found.location.file == "transformations/a.py"


@pytest.mark.parametrize(
    "before",
    [
        "@functools.lru_cache\ndef f(): return 1\n",
        "f = re.compile\n",
        "f = datetime.fromisoformat\n",
        "f = logging.getLogger().info\n",
    ],
)
def test_functions_of_packages_are_no_reason_to_recompute(folder: Folder, before: str) -> None:
    assert folder.define("return f", f"import functools, logging, re, sys\n{HEAD}{before}").untraced == ()


@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        ("pair(FAILING, 'a'), pair(FAILING, 'b')", {"a", "b"}),
        ("pair([FAILING], 'a'), pair({1: FAILING}, 'b')", {"a", "b"}),
        ("pair(LOOP, 'a'), pair(LOOP, 'b')", {"a", "b"}),
        ("Failing.of('a'), Failing.of('b')", {"a", "b"}),
        ("Failing.of(name='a', other=FAILING), Failing.of('b', FAILING)", {"a", "b"}),
        ("of_table(ONE), of_table(TWO)", {"one", "two"}),
        ("of_table(PAIR[0]), of_table(PAIR[1])", {"one", "two"}),
    ],
)
def test_values_are_told_apart_without_their_text(folder: Folder, call: str, inputs: set[str]) -> None:
    before = """
import dataclasses
class Failing:
    def __repr__(self): raise OSError("no connection")
    @classmethod
    def of(cls, name, other=1): return dp.read(name)
FAILING = Failing()
LOOP = []
LOOP.append(LOOP)
@dataclasses.dataclass(frozen=True)
class Table:
    name: str = dataclasses.field(repr=False)
ONE, TWO = PAIR = Table("one"), Table("two")
def pair(first, name): return dp.read(name)
def of_table(table): return dp.read(table.name)
"""
    spec = folder.define(f"return {call}", before)
    assert {str(name) for name in spec.inputs} == {f"main.{name}" for name in inputs}


@pytest.mark.parametrize(
    "body",
    [
        "global run\nrun = functools.partial(f, 1)\nreturn g()",
        "class Steps:\n    first = functools.partial(f, 1)\nreturn Steps.first()",
    ],
)
def test_what_other_code_may_call_under_another_name_is_followed(folder: Folder, body: str) -> None:
    before = "import functools\nrun = None\ndef f(n): return open('x'), dp.read('a')\ndef g(): return run()\n"
    spec = folder.define(body, before)
    assert [each.text for each in spec.untraced] == ["open() reads from outside the project"]
    assert [str(name) for name in spec.inputs] == ["main.a"]
