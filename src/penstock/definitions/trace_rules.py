"""Which calls make a definition differ from run to run, or read from outside the project."""

from __future__ import annotations

import re

from penstock.definitions.sql_facts import NOT_DETERMINISTIC, WITHOUT_PARENTHESES

CHANGING = frozenset({
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
    "datetime.date.now", "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
    "time.perf_counter_ns", "time.process_time", "time.localtime", "time.gmtime", "time.ctime", "uuid.uuid1",
    "uuid.uuid4", "uuid.uuid7", "os.urandom", "os.getpid", "os.times", "socket.gethostname", "getpass.getuser",
    "pandas.Timestamp.now", "pandas.Timestamp.today", "pandas.Timestamp.utcnow",
})  # fmt: skip
CHANGING_MODULES = ("random.", "secrets.", "numpy.random.", "_random.")

READING = frozenset({
    "builtins.open", "io.open", "_io.open", "os.environ", "os.getenv", "os.environb", "os.listdir", "os.scandir",
    "os.walk", "os.popen", "os.system", "os.stat", "os.path.exists", "os.path.getmtime", "os.path.getsize",
    "glob.glob", "glob.iglob", "pkgutil.get_data", "builtins.input", "sys.argv", "sys.stdin",
    "delta.tables.DeltaTable.forPath", "delta.DeltaTable.forPath",
})  # fmt: skip
READING_MODULES = tuple(f"{name}." for name in (
    "requests", "urllib.request", "urllib3", "httpx", "aiohttp", "socket", "http.client", "ftplib", "imaplib",
    "boto3", "botocore", "s3fs", "fsspec", "gcsfs", "adlfs", "obstore", "deltalake", "subprocess", "sqlite3", "psycopg",
    "psycopg2", "pymysql", "MySQLdb", "pyodbc", "oracledb", "sqlalchemy", "duckdb", "redis", "pymongo", "kafka",
    "paramiko", "importlib.resources", "dotenv", "shelve", "dbm", "google.cloud", "azure.storage",
))  # fmt: skip
READING_PREFIXES = (
    "pandas.read_", "pandas.io.", "polars.read_", "polars.scan_", "pyarrow.parquet.", "pyarrow.csv.",
    "pyarrow.dataset.", "pyarrow.fs.", "numpy.load", "numpy.fromfile", "numpy.genfromtxt",
)  # fmt: skip
READING_METHODS = frozenset({"read_text", "read_bytes", "iterdir", "rglob", "urlopen", "forPath"})
"""Methods of an object that only a run knows, such as a path."""

CODE_FROM_TEXT = frozenset({"builtins.exec", "builtins.eval", "builtins.__import__", "builtins.compile",
    "importlib.import_module", "importlib.__import__", "importlib.reload", "runpy.run_path", "runpy.run_module",
    "importlib.util.spec_from_file_location"})  # fmt: skip

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


def is_changing(dotted: str) -> bool:
    """Tell whether the function with this dotted name returns a different result on every run."""
    module, _, name = dotted.rpartition(".")
    is_spark = module.startswith("pyspark.sql") and "functions" in module
    return dotted in CHANGING or dotted.startswith(CHANGING_MODULES) or (is_spark and name in NOT_DETERMINISTIC)


def is_reading(dotted: str) -> bool:
    """Tell whether the function or value with this dotted name reads from outside the project."""
    return dotted in READING or dotted.startswith((*READING_MODULES, *READING_PREFIXES))
