"""Which calls make a definition differ from run to run, or read from outside the project."""

from __future__ import annotations

import re

from penstock.definitions.sql_facts import NOT_DETERMINISTIC, WITHOUT_PARENTHESES

CHANGING = frozenset({
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
    "datetime.date.now", "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
    "time.perf_counter_ns", "time.process_time", "time.process_time_ns", "time.thread_time", "time.thread_time_ns",
    "time.clock_gettime", "time.clock_gettime_ns", "time.localtime", "time.gmtime", "time.ctime", "uuid.uuid1",
    "uuid.uuid4", "uuid.uuid6", "uuid.uuid7", "uuid.getnode", "os.urandom", "os.getrandom", "os.getpid", "os.getppid",
    "os.times", "os.getloadavg", "socket.gethostname", "getpass.getuser", "os.getlogin", "builtins.id", "builtins.hash",
    "pandas.Timestamp.now", "pandas.Timestamp.today", "pandas.Timestamp.utcnow", "pendulum.now", "pendulum.today",
    "pendulum.yesterday", "pendulum.tomorrow", "arrow.now", "arrow.utcnow", "dateutil.utils.today",
})  # fmt: skip
CHANGING_MODULES = ("random.", "secrets.", "numpy.random.")
_CHANGING_UNLESS_GIVEN = {
    "time.strftime": 2, "time.asctime": 1, "email.utils.formatdate": 1, "email.utils.localtime": 1,
}  # fmt: skip
"""Functions that read the clock, unless they are called with this many arguments."""
NAMING_NOW = frozenset({
    "pandas.Timestamp", "pandas.to_datetime", "pandas.Period", "pandas.DatetimeIndex", "numpy.datetime64",
})  # fmt: skip
"""Functions to which the text `now` or `today` means the clock."""

READING = frozenset({
    "builtins.open", "io.open", "io.open_code", "io.FileIO", "codecs.open", "tokenize.open", "mmap.mmap",
    "os.environ", "os.getenv", "os.environb", "os.getenvb", "os.listdir", "os.scandir", "os.walk", "os.fwalk",
    "os.popen", "os.system", "os.stat", "os.lstat", "os.open", "os.fdopen", "os.read", "os.readlink", "os.access",
    "os.getcwd", "os.getcwdb", "os.uname", "os.path.exists", "os.path.lexists", "os.path.isfile", "os.path.isdir",
    "os.path.islink", "os.path.ismount", "os.path.getmtime", "os.path.getctime", "os.path.getatime",
    "os.path.getsize", "os.path.expandvars", "os.path.expanduser", "os.path.samefile", "pathlib.Path.cwd",
    "pathlib.Path.home", "glob.glob", "glob.iglob", "shutil.disk_usage", "shutil.which", "pkgutil.get_data",
    "builtins.input", "sys.argv", "sys.stdin", "netrc.netrc", "locale.getlocale", "locale.getdefaultlocale",
    "delta.tables.DeltaTable.forPath", "delta.DeltaTable.forPath", "toml.load", "joblib.load", "torch.load",
    "asyncio.open_connection", "xmlrpc.client.ServerProxy", "ssl.get_server_certificate", "mysql.connector.connect",
})  # fmt: skip
READING_MODULES = tuple(f"{name}." for name in (
    "requests", "urllib.request", "urllib3", "httpx", "aiohttp", "socket", "http.client", "ftplib", "imaplib",
    "poplib", "smtplib", "boto3", "botocore", "s3fs", "fsspec", "gcsfs", "adlfs", "obstore", "smart_open", "deltalake",
    "subprocess", "sqlite3", "psycopg", "psycopg2", "asyncpg", "pymysql", "MySQLdb", "pymssql", "pyodbc", "oracledb",
    "cx_Oracle", "sqlalchemy", "duckdb", "redis", "pymongo", "cassandra", "elasticsearch", "opensearchpy", "kafka",
    "confluent_kafka", "pika", "snowflake.connector", "trino", "prestodb", "clickhouse_connect", "clickhouse_driver",
    "databricks.sql", "databricks.sdk", "hvac", "mlflow", "paramiko", "pysftp", "importlib.resources", "pkg_resources",
    "dotenv", "decouple", "environs", "configparser", "linecache", "fileinput", "platform", "psutil", "shelve", "dbm",
    "google.cloud", "azure.storage", "azure.keyvault", "pyspark.SparkFiles",
))  # fmt: skip
_FILE_READERS = (
    "gzip.open", "gzip.GzipFile", "bz2.open", "bz2.BZ2File", "lzma.open", "lzma.LZMAFile", "zipfile.ZipFile",
    "zipfile.Path", "tarfile.open", "tarfile.TarFile", "xml.etree.ElementTree.parse", "xml.etree.ElementTree.iterparse",
    "xml.dom.minidom.parse", "xml.sax.parse", "lxml.etree.parse", "lxml.etree.iterparse", "pandas.read_", "pandas.io.",
    "pandas.ExcelFile", "pandas.HDFStore", "geopandas.read_", "polars.read_", "polars.scan_", "pyarrow.parquet.",
    "pyarrow.csv.", "pyarrow.json.", "pyarrow.orc.", "pyarrow.feather.", "pyarrow.dataset.", "pyarrow.fs.",
    "pyarrow.memory_map", "pyarrow.OSFile", "pyarrow.input_stream", "numpy.load", "numpy.fromfile", "numpy.genfromtxt",
    "numpy.memmap", "openpyxl.load_workbook", "xlrd.open_workbook", "h5py.File", "xarray.open_", "fastparquet.",
    "PIL.Image.open",
)  # fmt: skip
"""What may also read bytes that are in memory."""
IN_MEMORY = frozenset({"io.BytesIO", "io.StringIO"})
READING_METHODS = frozenset({
    "read_text", "read_bytes", "iterdir", "glob", "rglob", "urlopen", "forPath", "textFile", "wholeTextFiles",
    "binaryFiles", "binaryRecords", "sequenceFile", "pickleFile", "hadoopFile", "newAPIHadoopFile",
})  # fmt: skip
"""Methods of an object that only a run knows, such as a path or Spark's context."""
READING_WITHOUT_ARGUMENTS = frozenset({
    "exists", "is_file", "is_dir", "is_symlink", "is_mount", "stat", "lstat", "readline", "readlines",
})  # fmt: skip
"""The same; with arguments they are likely something else."""

_CODE_FROM_TEXT = frozenset({
    "builtins.exec", "builtins.eval", "builtins.__import__", "builtins.compile", "importlib.import_module",
    "importlib.__import__", "importlib.reload", "importlib.spec_from_file_location", "importlib.spec_from_loader",
    "importlib.module_from_spec", "importlib.LazyLoader", "importlib.SourceFileLoader", "importlib.SourcelessFileLoader",
    "importlib.ExtensionFileLoader", "importlib.metadata.entry_points", "importlib.metadata.EntryPoint",
    "runpy.run_path", "runpy.run_module", "pkgutil.resolve_name", "pkgutil.find_loader", "pkgutil.get_loader",
    "pydoc.locate", "pydoc.safeimport", "pydoc.importfile", "imp.load_source", "imp.load_compiled", "imp.load_module",
    "imp.load_package", "imp.load_dynamic", "imp.reload", "zipimport.zipimporter", "site.addsitedir", "site.addpackage",
    "sys.meta_path", "sys.path_hooks", "code.InteractiveInterpreter", "code.InteractiveConsole", "marshal.load",
    "marshal.loads", "pickle.load", "pickle.loads", "pickle.Unpickler", "cloudpickle.load", "cloudpickle.loads",
    "dill.load", "dill.loads",
})  # fmt: skip
_CODE_IF_CALLED = frozenset({
    "types.FunctionType", "types.LambdaType", "types.CodeType", "builtins.function", "builtins.code",
})  # fmt: skip
"""Types that make code; elsewhere they are only compared with."""
CODE_METHODS = frozenset({"load_module", "exec_module"})
"""Methods of a loader of modules."""

CATALOG_METHODS = frozenset({
    "listCatalogs", "listDatabases", "listTables", "listColumns", "listFunctions", "listCachedTables", "tableExists",
    "databaseExists", "functionExists", "getDatabase", "getTable", "getFunction",
})  # fmt: skip
"""What `spark.catalog` can be asked."""

SQL_TEXT_METHODS = frozenset({"expr", "selectExpr", "filter", "where"})
"""Methods that take SQL expressions as text."""

VIEW_METHODS = {
    "createTempView": "",
    "createOrReplaceTempView": "",
    "registerTempTable": "",
    "createGlobalTempView": "global_temp.",
    "createOrReplaceGlobalTempView": "global_temp.",
}
"""Methods that make a temporary view, with what is before its name where it is read."""

_CREATE_VIEW = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?P<is_global>GLOBAL\s+)?TEMP(?:ORARY)?\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"(?P<name>\w+|`[^`]+`)\s+AS\s+(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
_SQL_FUNCTION = re.compile(
    rf"\b(?:({'|'.join(sorted(NOT_DETERMINISTIC))})\s*\(|({'|'.join(sorted(WITHOUT_PARENTHESES))})\b"
    r"|(unix_timestamp)\s*\(\s*\))",
    re.IGNORECASE,
)

_HIDDEN = tuple((re.compile(pattern), public) for pattern, public in (
    (r"^(?:_frozen_importlib(?:_external)?|importlib\.(?:machinery|util|_bootstrap(?:_external)?))\.", "importlib."),
    (r"^(?:posixpath|ntpath|genericpath)\.", "os.path."), (r"^(?:posix|nt)\.", "os."), (r"^_(?=[a-z])", ""),
    (r"^pathlib\._\w+\.", "pathlib."), (r"^pandas\.(?:_libs|core)\.[a-z_.]+\.(?=[A-Z]|to_datetime)", "pandas."),
    (r"^numpy\.(?:lib|core|_core)\.[a-z_.]+\.", "numpy."), (r"^pyarrow\.(?:lib|_\w+)\.", "pyarrow."),
    (r"^pyspark\.(?:core\.)?files\.", "pyspark."),
))  # fmt: skip
_SUBQUERY = re.compile(r"\(\s*(?:SELECT|WITH|FROM|TABLE|VALUES)\b", re.IGNORECASE)


def split_view(text: str) -> tuple[str, str] | None:
    """The name of the temporary view that a SQL text makes, as it is read, and its query; None for other texts."""
    found = _CREATE_VIEW.fullmatch(text)
    if found is None:
        return None
    return f"{'global_temp.' if found['is_global'] else ''}{found['name'].strip('`')}".lower(), found["query"]


def may_make_view(text: str) -> bool:
    """Whether a SQL text, of which parts may be unknown, can make a view."""
    return text.lstrip()[:6].upper() == "CREATE"


def changing_sql(text: str) -> str | None:
    """The first SQL function in the text whose result differs from run to run."""
    found = _SQL_FUNCTION.search(text)
    return next(name for name in found.groups() if name) if found else None


def has_subquery(text: str) -> bool:
    """Tell whether a SQL expression may read a table."""
    return _SUBQUERY.search(text) is not None


def is_changing(dotted: str, given: int = 0) -> bool:
    """Tell whether the function with this dotted name returns a different result on every run, with so many arguments."""
    name = public_name(dotted)
    module, _, last = name.rpartition(".")
    is_spark = module.startswith("pyspark.sql") and "functions" in module
    is_clock = given < _CHANGING_UNLESS_GIVEN.get(name, 0)
    return name in CHANGING or name.startswith(CHANGING_MODULES) or is_clock or (is_spark and last in NOT_DETERMINISTIC)


def is_code_from_text(dotted: str, *, is_called: bool) -> bool:
    """Tell whether the function with this dotted name runs code, or loads it, that no text of the definition names."""
    name = public_name(dotted)
    return name in _CODE_FROM_TEXT or (is_called and name in _CODE_IF_CALLED)


def is_reading(dotted: str, *, is_in_memory: bool = False) -> bool:
    """Tell whether the function or value with this dotted name reads from outside the project."""
    name = public_name(dotted)
    return name in READING or name.startswith(READING_MODULES) or (not is_in_memory and name.startswith(_FILE_READERS))


def public_name(dotted: str) -> str:
    """The name that users write, for a function that knows only the hidden module that it is made in."""
    for pattern, public in _HIDDEN:
        dotted = pattern.sub(public, dotted)
    return dotted
