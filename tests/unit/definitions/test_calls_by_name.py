"""Calls of packages are known by their names: which read a clock or a file, and which load code that no text tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Folder

CLOCKS = """
time.strftime('%Y') | time.asctime() | time.localtime() | time.clock_gettime(0) | email.utils.formatdate() | hash('a')
id(len) | os.getppid() | os.getlogin() | platform_user() | secrets.token_hex() | pd.Timestamp('now') | pd.Timestamp.now()
pd.Timestamp.today() | pd.to_datetime('Today') | np.datetime64('now') | np.random.rand() | pendulum.now() | uuid.uuid6()
"""
READERS = """
codecs.open('x') | gzip.open('x') | bz2.open('x') | lzma.open('x') | configparser.ConfigParser() | linecache.getline('x', 1)
fileinput.input('x') | ET.parse('x') | zipfile.ZipFile('x') | tarfile.open('x') | np.loadtxt('x') | np.load('x')
np.genfromtxt('x') | pyarrow.feather.read_table('x') | pyarrow.memory_map('x') | os.open('x', 0) | os.path.expandvars('$X')
os.path.isfile('x') | os.path.exists('x') | is_there('x') | pathlib.Path('x').exists() | some('x').glob('*') | os.getcwd()
pathlib.Path('x').stat() | pyspark.SparkFiles.get('x') | sqlite3.connect('x') | shelve.open('x') | dbm.open('x') | listed()
subprocess.run('x') | platform.node() | shutil.disk_usage('x') | some().textFile('x') | pathlib.Path.cwd() | mmap.mmap(0, 0)
pd.read_csv('x') | snowflake.connector.connect() | zipfile.ZipFile(some())
"""
PURE = """
time.strftime('%Y', x) | time.asctime(x) | email.utils.formatdate(0) | pd.Timestamp('2024-01-01') | np.datetime64('2024-01-01')
pd.to_datetime(x) | gzip.decompress(b'') | zipfile.ZipFile(io.BytesIO(b'')) | ET.parse(io.StringIO('')) | ET.fromstring('')
os.path.join('a', 'b') | os.path.abspath('x') | os.path.basename('x') | np.array([1]) | np.lib.pad([1], 1) | gzip.open(buffer)
F.exists('a', len) | pd.read_csv(io.StringIO('a')) | x.exists('a', len) | pathlib.Path('x').name | Hashed() | posix.fspath('a')
"""
USED = """
import bz2, codecs, configparser, dbm, email.utils, fileinput, gzip, io, linecache, lzma, mmap, os, pathlib, platform, posix
import secrets, shelve, shutil, sqlite3, subprocess, tarfile, time, uuid, zipfile
import xml.etree.ElementTree as ET
from getpass import getuser as platform_user
from os import listdir as listed
from os.path import exists as is_there

class Hashed:
    def __hash__(self): return hash('a')
"""
# What is imported inside a function is known by its name only: these packages need not be installed.
LATE = """
import numpy as np, pandas as pd, pendulum, pyarrow.feather, pyspark, snowflake.connector
from pyspark.sql import functions as F
buffer = io.BytesIO(b'')
"""


def _calls(table: str) -> list[str]:
    return [call.strip() for line in table.strip().splitlines() for call in line.split(" | ")]


@pytest.mark.parametrize(
    ("call", "codes"),
    [
        *((call, {"not_deterministic"}) for call in _calls(CLOCKS)),
        *((call, {"untraced_read"}) for call in _calls(READERS)),
        *((call, set()) for call in _calls(PURE)),
    ],
)
def test_calls_of_packages_are_judged_by_name(folder: Folder, call: str, codes: set[str]) -> None:
    spec = folder.define(f"{LATE}x = dp.read('a').first()\nreturn {call}", f"{USED}def some(*a): ...\n")
    assert {item.code for item in spec.untraced} == codes


def test_trouble_in_a_helper_is_said_where_it_is(folder: Folder) -> None:
    folder.write("lib/clock.py", "import datetime\n\ndef now():\n    return datetime.datetime.now()\n")
    spec = folder.define("return clock.now()", "from lib import clock")
    assert [(item.code, str(item.location)) for item in spec.untraced] == [("not_deterministic", "lib/clock.py:4")]


def test_a_computed_import_in_a_helper_module_is_reported(folder: Folder) -> None:
    folder.write("lib/plugins.py", "import importlib\nname = 'json'\nmodule = importlib.import_module(name)\n")
    spec = folder.define("return 1", "from lib import plugins")
    assert [(item.code, str(item.location)) for item in spec.untraced] == [("untraced_import", "lib/plugins.py:3")]


LOADERS = """
pkgutil.resolve_name('lib.x:z')() | resolve('lib.x:z')() | pydoc.locate('lib.x.z')() | pydoc.importfile('lib/x.py').z()
importlib.machinery.SourceFileLoader('q', 'lib/x.py').load_module().z() | Loader('q', 'lib/x.py').create_module(None)
importlib.machinery.SourcelessFileLoader('q', 'x.pyc') | importlib.util.module_from_spec(spec) | location('q', 'lib/x.py')
spec.loader.load_module('lib.x').z() | zipimport.zipimporter('x.zip') | marshal.loads(b'') | pickle.loads(b'') | code_type()
importlib.reload(json).z() | site.addsitedir('lib') | sys.meta_path[0] | importlib.metadata.entry_points(group='x')
imp.load_source('q', 'lib/x.py').z() | runpy.run_path('lib/x.py')['z']() | importlib.__import__(str(spec))
"""
HARMLESS = """
isinstance(spec, types.FunctionType) | pickle.dumps(1) | importlib.util.find_spec('x') is None | importlib.metadata.version('x')
dp.spark.catalog.currentDatabase() | spec.listTables() | importlib.import_module('json').dumps(1) | spec.getTable('x')
"""


@pytest.mark.parametrize(
    ("call", "codes"),
    [*((call, {"untraced_import"}) for call in _calls(LOADERS)), *((call, set()) for call in _calls(HARMLESS))],
)
def test_code_that_is_loaded_by_name_is_said(folder: Folder, call: str, codes: set[str]) -> None:
    before = """
import importlib.machinery, importlib.metadata, importlib.util, json, marshal, pickle, pkgutil, pydoc, runpy, site, sys, types
import zipimport
from importlib.machinery import SourceFileLoader as Loader
from importlib.util import spec_from_file_location as location
from pkgutil import resolve_name as resolve
from types import CodeType as code_type
"""
    spec = folder.define(f"import imp\nspec = dp.read('a').first()\nreturn {call}", before)
    assert {item.code for item in spec.untraced} == codes, spec.untraced


def test_a_helper_module_that_loads_code_by_name_is_reported(folder: Folder) -> None:
    folder.write("lib/x.py", "def z():\n    return 1\n")
    folder.write("lib/plugins.py", "import pkgutil\n\nVALUE = pkgutil.resolve_name('lib.x:z')()\n")
    spec = folder.define("return 1", "from lib import plugins")
    assert [(item.code, str(item.location)) for item in spec.untraced] == [("untraced_import", "lib/plugins.py:3")]
