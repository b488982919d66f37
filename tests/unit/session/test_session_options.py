"""Settings of a session that Penstock starts, its class archive, and the statement that replaces a table: no JVM."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SessionError
from penstock.lake.statements import complete_layout, replace_statement
from penstock.model.project import SparkSettings
from penstock.model.spec import TableLayout
from penstock.model.types import Struct
from penstock.session.class_archive import _adopt, archive_options
from penstock.session.java import Java
from penstock.session.opening import _environment, check_delta
from penstock.session.settings import CATALOG, EXTENSION, QUICK_COMPILER, SessionRequest, to_session_options

JAVA = Java(Path("/jdk"), "17.0.1")
JARS = [Path("/jars/a.jar"), Path("/jars/b.jar")]
LARGE = 10_000_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def options(master: str = "local[*]", *, is_short: bool = False, **configuration: str) -> dict[str, str]:
    given = {key.replace("__", "."): value for key, value in configuration.items()}
    request = SessionRequest(SparkSettings(master), given, "/storage", Path("/state"), "shop", is_short)
    return to_session_options(request, JAVA, JARS)


def test_a_local_session_has_delta_on_its_class_path_and_speaks_to_this_machine_only() -> None:
    made = options()
    assert (made["spark.master"], made["spark.app.name"]) == ("local[*]", "shop")
    assert made["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert (made["spark.sql.extensions"], made["spark.sql.catalog.spark_catalog"]) == (EXTENSION, CATALOG)
    assert made["spark.driver.bindAddress"] == made["spark.driver.host"] == "127.0.0.1"
    assert made["spark.sql.session.timeZone"] == "UTC"
    assert made["spark.sql.warehouse.dir"] == "/state/warehouse"
    assert "spark.jars" not in made


def test_a_cluster_gets_the_jars_and_no_settings_made_for_one_machine() -> None:
    made = options("spark://host:7077", is_short=True)
    assert made["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert (made["spark.sql.extensions"], made["spark.sql.session.timeZone"]) == (EXTENSION, "UTC")
    assert not [key for key in made if key.startswith("spark.driver.") or key == "spark.sql.shuffle.partitions"]


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [
        ("local[2]", {"spark__sql__session__timeZone": "Europe/Berlin"}, "Europe/Berlin"),
        ("local[2]", {"spark__driver__memory": "8g"}, "8g"),
        ("local[2]", {"spark__sql__shuffle__partitions": "50"}, "50"),
        ("local[2]", {"spark__app__name": "mine"}, "mine"),
        ("local[2]", {"spark__driver__extraClassPath": "/x.jar"}, "/x.jar:/jars/a.jar:/jars/b.jar"),
        ("local[2]", {"spark__jars": "/x.jar"}, "/x.jar"),
        ("yarn", {"spark__jars": "/x.jar,/jars/b.jar"}, "/x.jar,/jars/b.jar,/jars/a.jar"),
        ("yarn", {"spark__driver__extraClassPath": "/x.jar"}, "/x.jar"),
        ("yarn", {"spark__sql__extensions": "org.Other"}, f"org.Other,{EXTENSION}"),
        ("yarn", {"spark__sql__extensions": f"{EXTENSION},org.Other"}, f"{EXTENSION},org.Other"),
    ],
)
def test_the_users_configuration_wins_or_is_joined_with_ours(master: str, given: dict[str, str], expected: str) -> None:
    (key,) = given
    assert options(master, is_short=True, **given)[key.replace("__", ".")] == expected


def test_java_options_of_the_user_come_after_ours() -> None:
    made = options(is_short=True, spark__driver__extraJavaOptions="-Dx=1")["spark.driver.extraJavaOptions"].split()
    assert made[-3:] == [*QUICK_COMPILER, "-Dx=1"]
    assert made[0].startswith("-XX:ArchiveClassesAtExit=")
    assert options("yarn", spark__driver__extraJavaOptions="-Dx=1")["spark.driver.extraJavaOptions"] == "-Dx=1"


def test_the_environment_is_put_back_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_A", "before")
    with _environment({"PENSTOCK_TEST_A": "in", "PENSTOCK_TEST_B": "in"}):
        assert (os.environ["PENSTOCK_TEST_A"], os.environ["PENSTOCK_TEST_B"]) == ("in", "in")
    assert os.environ["PENSTOCK_TEST_A"] == "before"
    assert "PENSTOCK_TEST_B" not in os.environ


class Conf:
    """The settings of a session; the one thing of it that the check looks at."""

    def __init__(self, **values: str) -> None:
        self.conf = self
        self._values = {key.replace("__", "."): value for key, value in values.items()}

    def get(self, key: str, default: str) -> str:
        return self._values.get(key, default)


@pytest.mark.parametrize(
    ("given", "ok"),
    [
        ({}, False),
        ({"spark__sql__extensions": EXTENSION}, False),
        ({"spark__sql__catalog__spark_catalog": CATALOG}, False),
        ({"spark__sql__extensions": EXTENSION, "spark__sql__catalog__spark_catalog": CATALOG}, True),
        ({"spark__sql__extensions": f"x,{EXTENSION}", "spark__sql__catalog__spark_catalog": CATALOG}, True),
    ],
)
def test_a_session_of_the_user_must_have_delta(given: dict[str, str], ok: bool) -> None:
    session: Any = Conf(**given)
    if ok:
        check_delta(session)
    else:
        with pytest.raises(SessionError, match="not configured for Delta"):
            check_delta(session)


def archive(cache: Path) -> Path:
    made = archive_options(JAVA, JARS)[0]
    assert made.startswith("-XX:ArchiveClassesAtExit=")
    assert made.endswith(f".{os.getpid()}.part")
    return Path(made.removeprefix("-XX:ArchiveClassesAtExit=").removesuffix(f".{os.getpid()}.part"))


def part(of: Path, process: int, size: int = LARGE) -> Path:
    file = of.with_name(f"{of.name}.{process}.part")
    with file.open("wb") as stream:
        stream.truncate(size)
    return file


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_the_archive_of_an_ended_session_is_adopted_and_the_other_leftovers_are_dropped(cache: Path) -> None:
    target = archive(cache)
    for process in (dead_process(), dead_process()):
        part(target, process)
    small = part(target, dead_process(), size=100)
    assert archive_options(JAVA, JARS)[0] == f"-XX:SharedArchiveFile={target}"
    assert [file.name for file in target.parent.iterdir()] == [target.name]
    assert not small.exists()


def test_archives_that_nobody_has_used_for_long_are_removed(cache: Path) -> None:
    target = archive(cache)
    part(target, dead_process())
    archive_options(JAVA, JARS)
    unused, used = target.with_name("of-an-environment-that-is-gone.jsa"), target.with_name("of-another.jsa")
    for path, days in ((target, 60), (unused, 31), (used, 29)):
        path.touch()
        os.utime(path, (time.time() - days * 86_400,) * 2)
    assert archive_options(JAVA, JARS)[0] == f"-XX:SharedArchiveFile={target}"
    assert {path.name for path in target.parent.iterdir()} == {target.name, used.name}


def test_what_a_killed_session_left_half_written_is_dropped(cache: Path) -> None:
    target = archive(cache)
    part(target, dead_process(), size=LARGE - 1)
    assert archive_options(JAVA, JARS)[0].startswith("-XX:ArchiveClassesAtExit=")
    assert list(target.parent.iterdir()) == []


def test_the_archive_of_a_living_session_is_left_alone(cache: Path) -> None:
    target = archive(cache)
    mine = part(target, os.getpid())
    assert archive_options(JAVA, JARS)[0].startswith("-XX:ArchiveClassesAtExit=")
    assert mine.exists()


def test_an_archive_that_a_jvm_still_writes_is_left_alone_though_its_session_ended(cache: Path) -> None:
    target = archive(cache)
    orphan = part(target, dead_process())
    command = [sys.executable, "-c", "print(1, flush=True); input()", f"-XX:ArchiveClassesAtExit={orphan}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as jvm:
        assert jvm.stdout is not None
        assert jvm.stdout.readline() == b"1\n"
        assert archive_options(JAVA, JARS)[0].startswith("-XX:ArchiveClassesAtExit=")
        jvm.communicate(b"end\n")
    assert archive_options(JAVA, JARS)[0] == f"-XX:SharedArchiveFile={target}"


def test_sessions_that_adopt_at_the_same_time_do_not_stop_each_other(cache: Path) -> None:
    target = archive(cache)
    process = dead_process()
    failures: list[BaseException] = []

    def adopt() -> None:
        try:
            _adopt(target)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    for number in range(5):
        for index in range(10):
            part(target, int(f"{process}0000{number}{index}"), size=1)
        threads = [threading.Thread(target=adopt) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_another_java_or_class_path_has_another_archive(cache: Path) -> None:
    first = archive_options(JAVA, JARS)[0]
    assert archive_options(JAVA, JARS)[0] == first
    assert archive_options(Java(JAVA.home, "21"), JARS)[0] != first
    assert archive_options(JAVA, JARS[:1])[0] != first


def test_a_cache_that_cannot_be_made_costs_only_the_archive(cache: Path) -> None:
    cache.write_text("a file")
    assert archive_options(JAVA, JARS) == []


@pytest.mark.parametrize(
    ("layout", "columns", "middle"),
    [
        (TableLayout(), ["id"], ""),
        (TableLayout(partition_cols=("day", "a`b")), ["id"], " PARTITIONED BY (`day`, `a``b`)"),
        (TableLayout(cluster_by=("day",)), ["id"], " CLUSTER BY (`day`)"),
        (TableLayout(comment="it's {x}"), ["id"], " COMMENT 'it\\'s {{x}}'"),
        (TableLayout(table_properties=(("a.b", "c"), ("d", "e"))), ["id"], " TBLPROPERTIES ('a.b' = 'c', 'd' = 'e')"),
        (TableLayout(), ["id", "a b"], " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"),
        (TableLayout(), ["timestamp_ntz"], ""),
        (
            TableLayout(table_properties=(("delta.columnMapping.mode", "id"),)),
            ["a;b"],
            " TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
        ),
    ],
)
def test_a_table_is_replaced_in_one_statement_with_everything_quoted(
    layout: TableLayout, columns: list[str], middle: str
) -> None:
    assert replace_statement(
        "file:///s/{main}/t", 7, complete_layout(layout, Struct(tuple((name, "bigint") for name in columns)))
    ) == (
        "CREATE OR REPLACE TABLE delta.`file:///s/{{main}}/t` USING DELTA "
        f"OPTIONS ('txnAppId' = 'penstock', 'txnVersion' = '7'){middle} AS SELECT * FROM {{rows}}"
    )
