"""A project file that is right gives the project it describes; precedence is file, target, environment, command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from penstock.config.project_file import find_project_file, load_project
from penstock.errors import ConfigError
from penstock.model.project import DEFAULT_LAYOUT, LAYOUTS, Project

Load = Callable[..., Project]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def run(text: str, environment: Mapping[str, str] = {}, **options: object) -> Project:
        file = tmp_path / "penstock.yml"
        file.write_text(text, encoding="utf-8")
        return load_project(file, environment=environment, **options)  # type: ignore[arg-type]

    return run


def test_a_name_is_enough(load: Load, tmp_path: Path) -> None:
    project = load("name: shop\n")
    assert project.name == "shop"
    assert project.root == tmp_path
    assert project.storage == str(tmp_path / "storage")
    assert project.raw is not None
    assert (project.raw.path, project.raw.layout) == (str(tmp_path / "raw"), DEFAULT_LAYOUT)
    assert project.event_log == f"sqlite:///{tmp_path}/.penstock/events.db"
    assert (project.database, project.threads, project.target) == ("main", 4, None)
    assert project.libraries == ("transformations/**",)
    assert project.spark.master == "local[*]"


def test_every_field_is_read(load: Load, tmp_path: Path) -> None:
    project = load("""
name: shop
storage: abfss://lake@account.dfs.core.windows.net/tables/
database: Sales
libraries: [{glob: {include: a/**}}, {glob: {include: b.sql}}]
configuration: {spark.sql.shuffle.partitions: 4, spark.sql.ansi.enabled: true, spark.x: "no"}
raw: {path: s3a://bucket/raw, layout: "{batch}/{table}.parquet"}
event_log: postgresql://host/penstock
spark: {remote: "sc://host:15002", jars: jars}
threads: 8
vars: {days: 7, rate: 1.5, live: true, country: no, at: 22:30, day: 2024-01-01}
""")
    assert project.storage == "abfss://lake@account.dfs.core.windows.net/tables"
    assert project.database == "sales"
    assert project.libraries == ("a/**", "b.sql")
    assert project.configuration == {
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.ansi.enabled": "true",
        "spark.x": "no",
    }
    assert project.raw is not None
    assert (project.raw.path, project.raw.layout) == ("s3a://bucket/raw", LAYOUTS[1])
    assert project.event_log == "postgresql://host/penstock"
    assert (project.spark.remote, project.spark.jars) == ("sc://host:15002", str(tmp_path / "jars"))
    assert project.vars == {"days": 7, "rate": 1.5, "live": True, "country": "no", "at": "22:30", "day": "2024-01-01"}


@pytest.mark.parametrize(
    ("uri", "opened"),
    [
        ("sqlite:///log/e.db", "sqlite:///{root}/log/e.db"),
        ("sqlite:////srv/e.db", "sqlite:////srv/e.db"),
        ("delta:///log", "delta:///{root}/log"),
        ("delta+s3://bucket/log", "delta+s3://bucket/log"),
        ("delta+azure://container/log", "delta+azure://container/log"),
        ("delta+gs://bucket/log", "delta+gs://bucket/log"),
        ("postgresql://u:p%40@h:5432/db", "postgresql://u:p%40@h:5432/db"),
        ("memory://", "memory://"),
    ],
)
def test_event_log_uris(load: Load, tmp_path: Path, uri: str, opened: str) -> None:
    assert load(f"name: x\nevent_log: {uri}").event_log == opened.format(root=tmp_path)


TARGETS = """
name: shop
storage: lake
raw: {path: in, layout: "{batch}/{table}.parquet"}
spark: {master: "local[2]", jars: jars}
configuration: {a: 1, b: 2}
vars: {days: 7, who: ana}
targets:
  prod:
    storage: s3a://bucket/lake
    raw: s3a://bucket/raw
    spark: {remote: sc://host}
    configuration: {b: 3}
    vars: {days: 30}
    event_log: postgresql://u:${PASSWORD}@host/db
  empty:
"""


def test_a_target_is_merged_over_the_file(load: Load, tmp_path: Path) -> None:
    project = load(TARGETS, {"PASSWORD": "pw"}, target="prod")
    assert project.target == "prod"
    assert project.storage == "s3a://bucket/lake"
    assert project.raw is not None
    assert (project.raw.path, project.raw.layout) == ("s3a://bucket/raw", LAYOUTS[1])
    assert project.spark.remote == "sc://host"  # takes the place of the master below it
    assert project.spark.jars == str(tmp_path / "jars")
    assert project.configuration == {"a": "1", "b": "3"}
    assert project.vars == {"days": 30, "who": "ana"}
    assert project.event_log == "postgresql://u:pw@host/db"


def test_a_target_that_is_not_used_needs_none_of_its_variables(load: Load) -> None:
    assert load(TARGETS).spark.master == "local[2]"
    assert load(TARGETS, target="empty").target == "empty"


def test_default_target(load: Load) -> None:
    text = TARGETS + "default_target: prod\n"
    assert load(text, {"PASSWORD": "pw"}).target == "prod"
    assert load(text, target="empty").target == "empty"
    assert load(text, {"PENSTOCK__DEFAULT_TARGET": "empty"}).target == "empty"


def test_precedence(load: Load) -> None:
    override = {"PENSTOCK__VARS__DAYS": "60", "PASSWORD": ""}
    assert load(TARGETS).vars["days"] == 7
    assert load(TARGETS, override, target="prod").vars["days"] == 60
    assert load(TARGETS, override, target="prod", vars={"days": "90"}).vars["days"] == 90


def test_variables_that_only_a_definition_knows(load: Load) -> None:
    project = load("name: x", {"PENSTOCK__VARS__FROM_DAY": "2"}, vars={"to_day": "'3'"})
    assert project.vars == {"from_day": 2, "to_day": "3"}


@pytest.mark.parametrize(
    ("written", "environment", "storage"),
    [
        ("${A}", {"A": "/x"}, "/x"),
        ("/${A}/${B}", {"A": "x", "B": "y"}, "/x/y"),
        ("/${A:-fallback}", {}, "/fallback"),
        ("/${A:-fallback}", {"A": ""}, "/fallback"),
        ("/${A:-}z", {}, "/z"),
        ("/$${A}", {"A": "x"}, "/${A}"),
        ("/$A", {"A": "x"}, "/$A"),
        ("~/lake", {"HOME": "/home/ana"}, "/home/ana/lake"),
        ("'${A}'", {"A": "/x y"}, "/x y"),
        ("${A}", {"A": "/${B}"}, "/${B}"),
    ],
)
def test_references(load: Load, written: str, environment: Mapping[str, str], storage: str) -> None:
    assert load(f"name: x\nstorage: {written}", environment).storage == storage


def test_references_take_the_type_that_the_field_needs(load: Load) -> None:
    text = "name: ${N}\nthreads: ${T}\nvars:\n  a: '${T}'\n  b: ${T}x\n  c: ${T}"
    project = load(text, {"N": "null2", "T": "6"})
    assert (project.threads, project.vars) == (6, {"a": "6", "b": "6x", "c": 6})


def test_environment_overrides(load: Load, tmp_path: Path) -> None:
    project = load(
        TARGETS,
        {
            "PENSTOCK__NAME": "other",
            "PENSTOCK__THREADS": "2",
            "PENSTOCK__STORAGE": "/${x}",
            "PENSTOCK__RAW": "elsewhere",
            "PENSTOCK__RAW__LAYOUT": DEFAULT_LAYOUT,
            "PENSTOCK__SPARK__REMOTE": "sc://other",
            "PENSTOCK__VARS__WHO": "'12'",
            "PENSTOCK_UNRELATED": "x",
        },
    )
    assert (project.name, project.threads, project.storage) == ("other", 2, "/${x}")
    assert project.raw is not None
    assert (project.raw.path, project.raw.layout) == (str(tmp_path / "elsewhere"), DEFAULT_LAYOUT)
    assert (project.spark.remote, project.vars["who"]) == ("sc://other", "12")


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("SPARK__SQL__SHUFFLE__PARTITIONS", "spark.sql.shuffle.partitions"),
        ("SPARK__DATABRICKS__DELTA__SNAPSHOT_PARTITIONS", "spark.databricks.delta.snapshotPartitions"),
        ("spark__sql__files__maxRecordsPerFile", "spark.sql.files.maxRecordsPerFile"),
        ("spark__driver__maxResultSize", "spark.driver.maxResultSize"),
        ("SPARK__HIVE__ODD_CASE", "spark.hive.oddCASE"),
    ],
)
def test_a_spark_setting_from_the_environment(load: Load, variable: str, setting: str) -> None:
    project = load("name: x\nconfiguration: {spark.hive.oddCASE: 1}", {f"PENSTOCK__CONFIGURATION__{variable}": "9"})
    assert project.configuration[setting] == "9"


def test_merge_keys_and_anchors(load: Load) -> None:
    text = "name: x\ntargets:\n  a: &a {threads: 2, database: one}\n  b: {<<: *a, database: two}\n"
    project = load(text, target="b")
    assert (project.threads, project.database) == (2, "two")


def test_secrets_are_not_printed(load: Load) -> None:
    project = load("name: x\nevent_log: postgresql://u:hunter2@h/db\nconfiguration: {fs.key: hunter2}")
    assert "hunter2" not in repr(project)


def test_the_project_is_found_from_below(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "penstock.yml").write_text("name: x")
    assert find_project_file(below) == tmp_path / "penstock.yml"
    assert find_project_file(tmp_path / "penstock.yml") == tmp_path / "penstock.yml"


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        find_project_file(tmp_path)
    assert "penstock init" in (caught.value.hint or "")


def test_a_project_file_with_the_other_ending(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("name: x")
    with pytest.raises(ConfigError) as caught:
        find_project_file(tmp_path)
    assert "rename" in (caught.value.hint or "")


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys, penstock.config.project_file\n"
        "heavy = {'pydantic', 'pyspark', 'pyarrow', 'sqlglot', 'rich', 'typing_extensions', 'difflib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


ZONES = [
    "UTC",
    "Z",
    "+01:00",
    "-1",
    "+1:00",
    "+0100",
    "GMT+8",
    "UTC+1",
    "UT-08:00",
    "+01:00:30",
    "Europe/Berlin",
    "PST",
]


@pytest.mark.parametrize("zone", [*ZONES, "ACT", "US/Pacific", "SystemV/PST8", "Etc/GMT+8", "EST5EDT", "${zone}"])
def test_every_time_zone_that_spark_knows_is_accepted(load: Load, zone: str) -> None:
    text = f"name: x\nconfiguration: {{spark.sql.session.timeZone: '{zone}'}}"
    found = load(text, {"zone": "Asia/Tokyo"}).configuration["spark.sql.session.timeZone"]
    assert found == ("Asia/Tokyo" if "$" in zone else zone)


def test_on_a_machine_without_names_of_time_zones_spark_looks_at_them(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    configuration = load("name: x\nconfiguration: {spark.sql.session.timeZone: Africa/Wherever}").configuration
    assert configuration["spark.sql.session.timeZone"] == "Africa/Wherever"


@pytest.mark.parametrize("size", ["512m", "2G", "1t", "4294967296"])
def test_every_size_that_spark_and_java_know_is_accepted(load: Load, size: str) -> None:
    names = ("spark.driver.memory", "spark.executor.memory", "spark.driver.maxResultSize")
    configuration = load(f"name: x\nconfiguration: {{{', '.join(f'{name}: {size}' for name in names)}}}").configuration
    assert set(configuration.values()) == {size}
