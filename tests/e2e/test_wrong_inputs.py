"""Wrong inputs, as a user makes them: each gives a clear message, the right exit code, no stack trace, nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.projects import ProjectFolder, fork_command, make_shop


def _write(relative: str, content: str | bytes) -> Callable[[ProjectFolder], None]:
    def change(shop: ProjectFolder) -> None:
        file = shop.root / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def _nothing(_: ProjectFolder) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Case:
    """What is wrong, the command that meets it, and what the user must be told."""

    change: Callable[[ProjectFolder], None]
    exit_code: int
    words: tuple[str, ...]
    command: tuple[str, ...] = ("run",)
    environment: dict[str, str] = field(default_factory=dict)


DP = "from penstock import pipelines as dp\n\n"
CASES = {
    "bad YAML": Case(_write("penstock.yml", "name: [shop\nraw: raw\n"), 2, ("penstock.yml:",)),
    "unknown field": Case(_write("penstock.yml", "name: shop\nstorge: x\n"), 2, ("penstock.yml:2:1", "storage")),
    "wrong type": Case(_write("penstock.yml", "name: shop\nthreads: many\n"), 2, ("penstock.yml:2:10", "threads")),
    "bad URI": Case(_write("penstock.yml", "name: shop\nevent_log: sqlit:///x\n"), 2, ("penstock.yml:2", "sqlite")),
    "missing variable": Case(_write("penstock.yml", "name: shop\nstorage: ${NO_SUCH_X}\n"), 2, ("NO_SUCH_X",)),
    "unknown target": Case(_nothing, 2, ("prd",), ("run", "--target", "prd")),
    "no project": Case(lambda shop: (shop.root / "penstock.yml").unlink(), 2, ("penstock init",)),
    "cycle": Case(
        _write(
            "transformations/c.sql",
            "CREATE MATERIALIZED VIEW x AS SELECT * FROM y;\nCREATE MATERIALIZED VIEW y AS SELECT * FROM x",
        ),
        2,
        ("main.x", "main.y", "c.sql:1", "c.sql:2"),
    ),
    "missing table": Case(
        _write("transformations/c.sql", "CREATE MATERIALIZED VIEW x AS SELECT * FROM staging.order"),
        2,
        ("c.sql:1", "staging.order", "did you mean 'staging.orders'"),
    ),
    "SQL syntax": Case(
        _write("transformations/c.sql", "CREATE MATERIALIZED VIEW x AS\nSELECT (a FROM staging.orders"), 2, ("c.sql:2",)
    ),
    "SQL statement": Case(
        _write("transformations/c.sql", "DROP TABLE orders"), 2, ("c.sql:1", "CREATE MATERIALIZED VIEW")
    ),
    "Python syntax": Case(_write("transformations/c.py", "def x(:\n"), 2, ("c.py:1",)),
    "exception while loading": Case(
        _write("transformations/c.py", "x = 1\ny = x / 0\n"), 2, ("c.py:2", "ZeroDivisionError")
    ),
    "exit while loading": Case(
        _write("transformations/c.py", "import sys\nsys.exit(3)\n"), 2, ("c.py:2", "SystemExit")
    ),
    "session while loading": Case(
        _write("transformations/c.py", "from pyspark.sql import SparkSession\nspark = SparkSession.active()\n"),
        2,
        ("c.py:2", "dp.spark"),
    ),
    "duplicate name": Case(
        _write("transformations/c.sql", "CREATE MATERIALIZED VIEW totals AS SELECT 1 AS a"),
        2,
        ("totals.sql", "c.sql", "twice"),
    ),
    "bad decorator": Case(
        _write("transformations/c.py", DP + "@dp.table(nme='x')\ndef x():\n    return 1\n"), 2, ("c.py:3", "name")
    ),
    "unknown dataset": Case(_nothing, 2, ("totls", "totals"), ("show", "totls")),
    "unknown selector": Case(_nothing, 2, ("nope",), ("plan", "--select", "nope")),
    "rebuild of nothing": Case(_nothing, 2, ("TABLE",), ("rebuild",)),
    "rebuild of an unknown table": Case(_nothing, 2, ("totls", "totals"), ("rebuild", "totals", "totls")),
    "unknown option": Case(_nothing, 2, ("--fulll",), ("run", "--fulll")),
    "bad variable": Case(_nothing, 2, ("name=value",), ("run", "--var", "x")),
    "unknown variable": Case(_nothing, 0, ("--var nosuch", "mentions"), ("plan", "--var", "nosuch=1")),
    "everything excluded": Case(_nothing, 2, ("--exclude *", "nothing is left"), ("plan", "-x", "*")),
    "rebuild of a name that nobody has": Case(_nothing, 2, ("rebuild nosuch", "no dataset"), ("rebuild", "nosuch")),
    "full refresh of what": Case(_nothing, 2, ("--full-refresh-all",), ("run", "--full-refresh")),
    "full refresh of an option": Case(_nothing, 2, ("--full-refresh-all",), ("plan", "--full-refresh", "--json")),
    "storage in DBFS": Case(
        _write("penstock.yml", "name: shop\nstorage: dbfs:/x\n"), 2, ("penstock.yml:2:10", "/dbfs/")
    ),
    "no raw folder": Case(
        _write("penstock.yml", "name: shop\nraw: nowhere\n"),
        2,
        ("penstock.yml:2:6: the raw folder", "nowhere does not exist"),
        ("plan",),
    ),
    "pipelines of pyspark": Case(
        _write("transformations/c.py", "from pyspark import pipelines as dp\n\n@dp.table\ndef x():\n    return 1\n"),
        2,
        ("c.py:3", "from penstock import pipelines"),
    ),
    "long name": Case(
        _write("transformations/c.sql", f"CREATE MATERIALIZED VIEW {'a' * 240} AS SELECT 1 AS b"), 2, ("240", "120")
    ),
    "no master": Case(
        _nothing,
        1,
        ("spark://127.0.0.1:1", "spark.master"),
        ("run",),
        {"PENSTOCK__SPARK__MASTER": "spark://127.0.0.1:1"},
    ),
    "unreadable file": Case(
        _write("raw/orders/0002.parquet", b"PAR1 not really"), 1, ("orders/0002.parquet",), ("plan",)
    ),
    "empty file": Case(_write("raw/orders/0002.parquet", b""), 1, ("orders/0002.parquet",), ("plan",)),
    "bad table name": Case(_write("raw/my-orders/1.parquet", b""), 1, ("my-orders",), ("plan",)),
    "missing Java": Case(_nothing, 1, ("Java", "JAVA_HOME"), ("run",), {"JAVA_HOME": "/nowhere"}),
    "jars without Delta": Case(_nothing, 1, ("delta-spark",), ("run",), {"PENSTOCK__SPARK__JARS": "."}),
    "no event log": Case(
        _nothing, 1, ("event log",), ("run",), {"PENSTOCK__EVENT_LOG": "sqlite:////sys/penstock/x.db"}
    ),
    "no Connect server": Case(
        _nothing, 1, ("sc://127.0.0.1:1",), ("run",), {"PENSTOCK__SPARK__REMOTE": "sc://127.0.0.1:1"}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_input_is_told_clearly(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    shop = make_shop(tmp_path / "shop", fork_command)
    case.change(shop)
    done = shop.penstock(*case.command, check=None, **case.environment)
    said = done.stdout + done.stderr
    assert done.returncode == case.exit_code, said
    assert "Traceback" not in said
    assert "site-packages" not in said
    for words in case.words:
        assert words in said
    assert not (shop.root / "storage").exists(), "nothing may be written"


def test_a_storage_that_is_a_file_is_told(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop", fork_command)
    _write("storage", "x")(shop)
    assert "which is a file" in shop.penstock("plan", check=1).stderr


def test_what_a_definition_prints_is_not_in_the_json(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop", fork_command)
    _write("transformations/c.py", "print('hello')\n")(shop)
    done = shop.penstock("plan", "--json")
    assert json.loads(done.stdout)["project"] == "shop"
    assert "transformations/c.py: hello" in done.stderr


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop")
    for uri in ("postgresql://me:hunter2@127.0.0.1:1/x", "postgres+bad://me:hunter2@h/x"):
        done = shop.penstock("run", check=None, PENSTOCK__EVENT_LOG=uri)
        assert done.returncode in {1, 2}
        assert "hunter2" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_a_plan_writes_no_table_and_starts_no_jvm(tmp_path: Path) -> None:
    """Without any Java on the machine the plan is the same."""
    shop = make_shop(tmp_path / "shop")
    folder = tmp_path / "bin"
    folder.mkdir()
    done = shop.penstock("plan", JAVA_HOME="/nowhere", PATH=str(folder))
    assert "first load, 1 file" in done.stdout
    assert not (shop.root / "storage").exists()
    assert shop.penstock("plan", "--detailed-exitcode", check=2).returncode == 2


def test_piped_output_is_plain_and_no_color_is_kept(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop")
    done = shop.penstock("plan", NO_COLOR="1", TERM="xterm-256color")
    assert "\x1b" not in done.stdout
    assert "─" not in done.stdout
    assert done.stdout.splitlines()[0].split() == ["dataset", "action", "reads", "why"]


def test_a_closed_pipe_does_not_change_the_exit_code(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop")
    with shop.start("plan", "--detailed-exitcode") as plan:
        assert plan.stdout is not None
        plan.stdout.close()
        assert plan.wait(60) == 2
        assert plan.stderr is not None
        assert plan.stderr.read() == ""


def test_an_object_store_that_does_not_answer_is_named(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop")
    shop.configure(
        "name: shop\nstorage: s3a://nowhere/lake\nconfiguration:\n"
        "  spark.hadoop.fs.s3a.endpoint: http://127.0.0.1:1\n  spark.hadoop.fs.s3a.access.key: k\n"
        "  spark.hadoop.fs.s3a.secret.key: hunter2\n  spark.hadoop.fs.s3a.endpoint.region: us-east-1\n"
    )
    done = shop.penstock("plan", check=1)
    assert "cannot reach s3a://nowhere/lake" in done.stderr
    assert "hunter2" not in done.stderr
    assert "FAIL storage" in shop.penstock("doctor", check=1).stdout


def test_init_refuses_a_folder_in_use(tmp_path: Path) -> None:
    shop = ProjectFolder(tmp_path)
    shop.penstock("init", "shop")
    before = sorted(path.name for path in (tmp_path / "shop").iterdir())
    again = shop.penstock("init", "shop", check=2)
    assert "shop" in again.stderr
    assert sorted(path.name for path in (tmp_path / "shop").iterdir()) == before
