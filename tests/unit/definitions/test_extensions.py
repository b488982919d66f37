"""Members that the project adds to classes of packages, and what code asks for without naming it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from penstock.definitions import tracing
from penstock.errors import DefinitionError

if TYPE_CHECKING:
    from conftest import Folder

PLACED = "def with_net(self): return self.select('net2')\n"
IMPORT = "from frames import Frame\n"


@pytest.fixture(autouse=True)
def frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package with a class."""
    module = ModuleType("frames")
    exec("class Frame:\n    def select(self, name): ...\n", vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, "frames", module)
    return module


@pytest.mark.parametrize(
    "text",
    [
        f"{PLACED}Frame.with_net = with_net\n",
        "Frame.with_net = lambda self: self.select('net2')\n",
        f"{PLACED}setattr(Frame, 'with_net', with_net)\n",
        f"{PLACED}_ = setattr(Frame, 'with_net', with_net)\n",
        f"{PLACED}class _Install:\n    Frame.with_net = with_net\n",
        f"{PLACED}def install():\n    Frame.with_net = with_net\ninstall()\n",
        f"def added(f):\n    setattr(Frame, f.__name__, f)\n    return f\n@added\n{PLACED}",
        f"{PLACED}Frame.with_net = property(with_net)\n",
        "def base(rate, self): ...\nimport functools\nFrame.with_net = functools.partial(base, 2)\n",
        "class Tools:\n    rate = 2\nFrame.with_net = Tools\n",
    ],
)
@pytest.mark.parametrize("where", ["same", "imported", "other"])
def test_an_edited_extension_changes_its_users_only(folder: Folder, text: str, where: str) -> None:
    head = "from penstock import pipelines as dp\n"
    body = "@dp.table\ndef user():\n    return dp.read('staging.a').with_net\n"
    other = "@dp.table\ndef neighbour():\n    return dp.read('staging.a')\n"
    found = []
    for number in "23":
        extension = (IMPORT + text).replace("2", number)
        folder.write("lib/__init__.py", "")
        folder.write("lib/ext.py", extension if where != "same" else "")
        before = {"same": extension, "imported": "from lib import ext\ndef g(): return ext\n", "other": ""}[where]
        folder.write("transformations/a.py", head + before + body)
        folder.write("transformations/b.py", f"{head}import lib.ext\n{other}" if where == "other" else head)
        folder.write("transformations/c.py", head + other.replace("neighbour", "far"))
        found.append({spec.name.name: spec for spec in folder.load()})
        assert [spec.untraced for spec in found[-1].values()] == [()] * len(found[-1])
    changed = {name for name in found[0] if found[0][name].fingerprint != found[1][name].fingerprint}
    assert changed >= {"user"}
    assert "far" not in changed


@pytest.mark.parametrize(
    ("use", "inputs"),
    [
        ("dp.read('staging.a').joined('staging.b')", {"staging.a", "staging.b"}),
        ("getattr(dp.read('staging.a'), 'joined')", {"staging.a"}),
        ("Frame().joined(name='staging.b')", {"staging.b"}),
    ],
)
def test_an_extension_is_followed_as_it_is_called(folder: Folder, use: str, inputs: set[str]) -> None:
    before = f"{IMPORT}def joined(self, name):\n    return self.union(dp.read(name), dp.read('staging.c'))\n"
    spec = folder.define(f"return {use}", f"{before}Frame.joined = joined\n")
    assert {str(name) for name in spec.inputs} == {*inputs, "staging.c"}
    assert bool(spec.untraced) is ("getattr" in use)


def test_an_extension_of_a_former_load_is_forgotten(folder: Folder) -> None:
    use = "return dp.read('staging.a').with_net()"
    plain = folder.define(use, IMPORT).fingerprint
    assert folder.define(use, f"{IMPORT}{PLACED}Frame.with_net = with_net\n").fingerprint != plain
    assert folder.define(use, IMPORT).fingerprint == plain


DOCUMENTED = 'def words():\n    """a * 2"""\n'


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ('class Query:\n    """SELECT 2 FROM a"""\n', "return spark.sql(Query.__doc__)"),
        (DOCUMENTED, "return dp.read('a').selectExpr(words.__doc__)"),
        (DOCUMENTED, "return dp.read('a').selectExpr(getattr(words, '__doc__'))"),
        (f"import inspect\n{DOCUMENTED}", "return dp.read('a').selectExpr(inspect.getdoc(words))"),
        ("import helpers\n", "return dp.read('a').selectExpr(helpers.words.__doc__)"),
        ("RATE_A = 2\n", "return [globals()[f'RATE_{n}'] for n in input]"),
        ("def rate_a(): return 2\n", "return globals()['rate_a']()"),
        ("import sys\nRATE_A = 2\n", "return getattr(sys.modules[__name__], 'RATE_A')"),
        ("RATE_A = 2\n", "return vars()['RATE_A']"),
        ("def rate_a(): return 2\nRATES = [rate_a]\n", "return globals()['RATES'][0]()"),
        ("def rate(): ...\nrate.value = 2\n", "return rate.value"),
        ("def rate(): ...\ndef other(): return 2\nrate.of = other\n", "return rate.of()"),
        ("def rate(): ...\nrate.of = lambda: 2\n", "return rate.of()"),
    ],
)  # fmt: skip
def test_what_is_asked_for_counts(folder: Folder, before: str, body: str) -> None:
    found = []
    for number in "23":
        folder.write("helpers.py", DOCUMENTED.replace("2", number))
        found.append(folder.define(body.replace("input", "('A',)"), before.replace("2", number)))
    assert found[0].fingerprint != found[1].fingerprint
    assert [item for item in found[0].untraced if item.code != "untraced_read"] == []


def test_a_docstring_in_a_decorator_that_runs_it_counts(folder: Folder) -> None:
    run = "    @functools.wraps(f)\n    def run(): return spark.sql(f.__doc__)\n    return run\n"
    before = f"import functools\ndef query(f):\n{run}"
    decorator = "@dp.table(depends_on=['staging.a'])\n@query"
    texts = [f'"""SELECT {number} FROM staging.a"""' for number in "23"]
    first, second = (folder.define(text, before, decorator) for text in texts)
    assert (first.fingerprint != second.fingerprint, first.untraced) == (True, ())


def test_a_docstring_that_is_only_passed_on_does_not_count(folder: Folder) -> None:
    before = "def named(f):\n    def run(): return f()\n    run.__doc__ = f.__doc__\n    return run\n"
    texts = [f'"""About {number}."""\nreturn 1' for number in "23"]
    first, second = (folder.define(text, before, "@dp.table(name='a')\n@named") for text in texts)
    assert first.fingerprint == second.fingerprint


def test_what_a_lookup_may_find_is_not_read(folder: Folder) -> None:
    """A neighbour in the same file may read anything, this table too."""
    before = "def other(): return dp.read('staging.b')\nALL = [other]\n"
    spec = folder.define("return globals()[dp.read('staging.a').name]", before)
    assert [str(name) for name in spec.inputs] == ["staging.a"]


def test_objects_that_refuse_to_be_looked_at_are_left_alone(folder: Folder) -> None:
    before = """
class Proxy:
    @property
    def __class__(self): raise RuntimeError("no context")
    def __getattr__(self, name): raise RuntimeError("no context")
proxy = Proxy()
Frame.proxy = proxy
"""
    assert folder.define("return dp.read('staging.a')", f"{IMPORT}{before}").untraced == ()


JOINED = "from penstock import pipelines as dp\ndef joined(self):\n    return self.union(dp.read('staging.rates')).limit(2)\n"


def _edited(folder: Folder, extension: str, before: str = "", body: str = "") -> tuple[set[str], set[str]]:
    """What `user` reads in the first load, and what an edit of the extension changes; another file imports the module."""
    head = "from penstock import pipelines as dp\n"
    folder.write("lib/__init__.py", "")
    user = f"@dp.table\ndef user():\n    {body}\n    return dp.read('staging.a').joined()\n"
    folder.write("transformations/a.py", f"{head}{user}@dp.table\ndef other():\n    return dp.read('staging.b')\n")
    folder.write("transformations/b.py", f"{head}{before}")
    found = []
    for number in "23":
        folder.write("lib/ext.py", extension.replace("2", number))
        found.append({spec.name.name: spec for spec in folder.load()})
    changed = {name for name in found[0] if found[0][name].fingerprint != found[1][name].fingerprint}
    return {str(name) for name in found[0]["user"].inputs}, changed


@pytest.mark.parametrize("where", ["own", "other", "later"])
def test_an_extension_in_a_module_that_a_function_imports_is_followed(folder: Folder, where: str) -> None:
    """In the first load of a process too: the module is loaded by tracing."""
    inside = "@dp.table\ndef later():\n    import lib.ext\n    return dp.read('staging.b')\n"
    before = {"own": "", "other": "import lib.ext\n", "later": inside}[where]
    body = "import lib.ext" if where == "own" else "pass"
    reads, changed = _edited(folder, f"{IMPORT}{JOINED}Frame.joined = joined\n", before, body)
    assert reads == {"staging.a", "staging.rates"}
    assert changed - {"later"} == {"user"}


DECORATORS = """
import functools
def wraps(f):
    @functools.wraps(f)
    def run(*a, **k): return f(*a, **k)
    return run
def plain(f):
    def run(*a, **k): return f(*a, **k)
    return run
def times(number):
    def decorate(f):
        def run(*a, **k): return f(*a, **k).limit(number)
        return run
    return decorate
def many(*fs):
    def run(self): return [f(self) for f in fs]
    return run
class Property(property): ...
class Partial(functools.partial): ...
class Called:
    def __init__(self, f): self.f = f
    def __call__(self, *a): return self.f(*a)
class Descriptor(Called):
    def __get__(self, frame, kind=None): return functools.partial(self.f, frame)
"""


@pytest.fixture
def deco(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with decorators."""
    module = ModuleType("deco")
    exec(compile(DECORATORS, "/usr/lib/deco.py", "exec"), vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, "deco", module)


@pytest.mark.usefixtures("deco")
@pytest.mark.parametrize(
    "put",
    [
        "Frame.joined = deco.wraps(joined)",
        "Frame.joined = deco.plain(joined)",
        "Frame.joined = deco.plain(deco.wraps(deco.plain(joined)))",
        "Frame.joined = deco.times(5)(joined)",
        "Frame.joined = deco.many(joined)",
        "Frame.joined = property(deco.plain(joined))",
        "Frame.joined = deco.Property(joined)",
        "Frame.joined = deco.Partial(joined)",
        "Frame.joined = staticmethod(deco.wraps(joined))",
        "Frame.joined = deco.Called(joined)",
        "Frame.joined = deco.Descriptor(joined)",
        "Frame.joined = deco.plain(functools.partial(joined))",
        "Frame.joined = functools.lru_cache(joined)",
        "Frame.joined = functools.singledispatchmethod(joined)",
        "Frame.joined = functools.cached_property(deco.plain(joined))",
    ],
)
def test_an_extension_that_a_package_wraps_is_followed(folder: Folder, put: str) -> None:
    reads, changed = _edited(folder, f"import deco, functools\n{IMPORT}{JOINED}{put}\n", "import lib.ext\n", "pass")
    assert reads == {"staging.a", "staging.rates"}
    assert changed == {"user"}


@pytest.mark.usefixtures("deco")
def test_what_a_wrapper_was_given_counts(folder: Folder) -> None:
    extension = f"import deco\n{IMPORT}{JOINED.replace('2', '7')}Frame.joined = deco.times(2)(joined)\n"
    assert _edited(folder, extension, "import lib.ext\n", "pass")[1] == {"user"}


NET = "class Net:\n    __call__ = __get__ = go = lambda self, *_: 2\n"
GET = "    def __get__(self, *_): return self.n\n    __call__ = go = __get__\n"
STATE = f"class Net:\n    def __init__(self, n): self.n = n\n{GET}"
DATA = f"import dataclasses\n@dataclasses.dataclass(frozen=True{{}})\nclass Net:\n    n: object\n{GET}"
SLOTS = DATA.format(", slots=True")
BASE = "def base(rate, self): ...\n"


@pytest.mark.usefixtures("deco")
@pytest.mark.parametrize(
    ("put", "is_traced"),
    [
        (f"{BASE}Frame.joined = property(functools.partial(base, 2))", True),
        (f"{BASE}Frame.joined = functools.cached_property(functools.partial(base, 2))", True),
        (f"{BASE}Frame.joined = functools.lru_cache(functools.partial(base, 2))", True),
        ("def base(*_): ...\nFrame.joined = property(deco.times(2)(base))", True),
        (f"{NET}Frame.joined = Net()", True),
        (f"{NET}Frame.joined = Net().go", True),
        (f"{NET}Frame.joined = property(Net())", True),
        (f"{STATE}Frame.joined = Net(2)", False),
        (f"{STATE}Frame.joined = Net(2).go", False),
        (f"{STATE}Frame.joined = deco.plain(Net(2))", False),
        (f"{DATA.format('')}Frame.joined = Net(2)", True),
        (f"{SLOTS}Frame.joined = Net(2).go", True),
        (f"{SLOTS}def inner(): return 2\nFrame.joined = Net(inner)", True),
        (f"{SLOTS}def inner(): return 2\nFrame.joined = Net(inner).go", True),
        ("class Net:\n    @classmethod\n    def go(cls): return 2\nFrame.joined = Net.go", True),
        ("@functools.singledispatch\ndef go(*_): return 2\nFrame.joined = go", True),
        ("class Net:\n    @functools.singledispatchmethod\n    def go(*_): return 2\nFrame.joined = Net().go", True),
        ("class Net(property):\n    rate = 2\nFrame.joined = Net(len)", True),
        (f"{BASE}Frame.__matmul__ = functools.partial(base, 2)", True),
    ],
)  # fmt: skip
def test_what_a_member_holds_counts(folder: Folder, put: str, is_traced: bool) -> None:
    extension = f"import deco, functools\n{IMPORT}{put}\n"
    head = "from penstock import pipelines as dp\n"
    folder.write("lib/__init__.py", "")
    folder.write("transformations/a.py", f"{head}@dp.table\ndef user(): return dp.read('staging.a').joined @ 1\n")
    folder.write("transformations/b.py", f"{head}import lib.ext\n")
    found = []
    for number in "23":
        folder.write("lib/ext.py", extension.replace("2", number))
        found.append(folder.one())
    assert [each.code for each in found[1].untraced] == ([] if is_traced else ["untraced_value"])
    assert not is_traced or found[0].fingerprint != found[1].fingerprint


@pytest.mark.usefixtures("deco")
def test_a_wrapper_may_call_with_other_arguments(folder: Folder) -> None:
    """What is given to the wrapper is not what the function gets."""
    before = f"import deco\n{IMPORT}def joined(self, name='staging.c'):\n    return dp.read(name)\n"
    spec = folder.define("return Frame().joined('staging.b')", f"{before}Frame.joined = deco.plain(joined)\n")
    assert "untraced_read" in {item.code for item in spec.untraced}


@pytest.mark.parametrize(
    "put",
    [
        "import shop_pkg.frames\nshop_pkg.frames.Frame.joined = joined",
        "import shop_pkg.frames as f\nf.Frame.joined = joined",
        "import shop_pkg\nshop_pkg.frames.Frame.joined = joined",
        "import shop_pkg\ngetattr(shop_pkg, 'frames').Frame.joined = joined",
        "def install():\n    from shop_pkg.frames import Frame\n    Frame.joined = joined\ninstall()",
        "import importlib\nimportlib.import_module('shop_pkg.frames').Frame.joined = joined",
        "import shop_pkg.deep.frames\nshop_pkg.deep.frames.Frame.joined = joined",
        "import shop_pkg.frames\nshop_pkg.frames.joined = joined",
    ],
)
def test_an_extension_of_what_a_dotted_name_leads_to_is_followed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, put: str
) -> None:
    for name in ("shop_pkg", "shop_pkg.deep", "shop_pkg.deep.frames", "shop_pkg.frames"):
        module = ModuleType(name)
        module.__path__ = []
        exec("class Frame: ...", vars(module))  # noqa: S102
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    reads, changed = _edited(folder, f"{JOINED}{put}\n", "import lib.ext\n", "pass")
    assert reads == {"staging.a", "staging.rates"}
    assert changed == {"user"}


@pytest.mark.parametrize(
    "before",
    [
        "Frame.kind = type('K', (), {'__module__': []})\n",
        "K = type('K', (), {'__module__': []})\n",
        "import types\nFrame.f = types.FunctionType((lambda: 1).__code__, {'__name__': []})\n",
    ],
)
def test_modules_that_have_no_name_are_left_alone(folder: Folder, before: str) -> None:
    assert folder.define("return dp.read('staging.a')", f"{IMPORT}{before}").untraced == ()


def test_a_failing_search_is_an_error_of_the_definition(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(files: object) -> None:
        raise TypeError("unhashable")

    monkeypatch.setattr(tracing, "find_extensions", fail)
    with pytest.raises(DefinitionError, match=r"cannot be traced \(TypeError\)") as caught:
        folder.define("return dp.read('staging.a')")
    assert caught.value.location is not None
    assert caught.value.location.file == "transformations/a.py"
