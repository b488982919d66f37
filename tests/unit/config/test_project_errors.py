"""Whatever is wrong with a project file: one clear message with its place, no stack trace, no secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.config.project_file import load_project
from penstock.errors import ConfigError, Location


def fail(folder: Path, text: str | bytes, environment: Mapping[str, str] = {}, **options: object) -> ConfigError:
    file = folder / "penstock.yml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_project(file, environment=environment, **options)  # type: ignore[arg-type]
    assert caught.value.location is not None
    assert caught.value.exit_code == 2
    return caught.value


WRONG = [
    # text, line, column, words that the message must have
    ("", 1, 1, ["empty"]),
    ("# only a comment\n", 1, 1, ["empty"]),
    ("- a\n- b\n", 1, 1, ["mapping"]),
    ("just text", 1, 1, ["mapping"]),
    ("name: [", 2, 1, ["not valid YAML"]),
    ("name: x\n\tthreads: 1", 2, 1, ["not valid YAML"]),
    ("name: a: b", 1, 8, ["not valid YAML"]),
    ("name: x\nstorage: *nope", 2, 10, ["not valid YAML", "alias"]),
    ("name: x\n---\nname: y", 2, 1, ["single document"]),
    ("name: x\x07", 1, 8, ["not allowed"]),
    ("name: x\nthreads: 1\nname: y", 3, 1, ["`name` is given twice", "line 1"]),
    ("name: x\nvars: {a: 1, a: 2}", 2, 14, ["`a` is given twice"]),
    ("name: x\n? [a]\n: 1", 2, 3, ["key is missing"]),
    ("name: x\nvars: {a: !!python/object:os.system x}", 2, 11, ["tags"]),
    ("name: x\nvars: &a {b: *a}", 2, 7, ["contains itself"]),
    ("name: x\nvars: {<<: 1}", 2, 12, ["`<<` needs a mapping"]),
    ("name: " + "[" * 5000, 1, 46, ["nested too deep"]),
    (b"name: x\nstorage: \xff\xfe", 2, 10, ["UTF-8"]),
    ("storage: a", 1, 1, ["`name` is missing"]),
    ("name:", 1, 6, ["`name` has no value"]),
    ("name: ''", 1, 7, ["`name` is empty"]),
    ("name: my shop!", 1, 7, ["must start with a letter"]),
    ("name: 2024", 1, 7, ["`name` must be text"]),
    ("name: {a: b}", 1, 7, ["must be text, not a mapping"]),
    ("name: [a]", 1, 7, ["must be text, not a list"]),
    ("name: |\n  x\n", 1, 7, ["line break"]),
    ("name: x\nstorag: a", 2, 1, ["unknown field `storag`", "did you mean `storage`?"]),
    ("name: x\nSTORAGE: a", 2, 1, ["unknown field `STORAGE`", "did you mean `storage`?"]),
    ("name: x\nzzz: a", 2, 1, ["unknown field `zzz`"]),
    ("name: x\nthreads: many", 2, 10, ["`threads` must be a whole number", "many"]),
    ("name: x\nthreads: true", 2, 10, ["whole number"]),
    ("name: x\nthreads: '4'", 2, 10, ["whole number"]),
    ("name: x\nthreads: 1.5", 2, 10, ["whole number"]),
    ("name: x\nthreads: 0", 2, 10, ["between 1 and"]),
    ("name: x\nthreads: -3", 2, 10, ["between 1 and"]),
    ("name: x\ndatabase: a-b", 2, 11, ["letters, digits"]),
    ("name: x\ndatabase: Staging", 2, 11, ["reserved for staging tables"]),
    ("name: x\nlibraries: transformations", 2, 12, ["`libraries` must be a list"]),
    ("name: x\nlibraries: [a]", 2, 13, ["`libraries[1]` must be a mapping"]),
    ("name: x\nlibraries: [{}]", 2, 13, ["`libraries[1].glob` is missing"]),
    ("name: x\nlibraries: [{glob: {inclde: a}}]", 2, 21, ["`inclde`", "did you mean `include`?"]),
    ("name: x\nlibraries: [{glob: {include: ../a}}]", 2, 30, ["inside the project"]),
    ("name: x\nconfiguration: {spark.sql.shuffle.partitions: abc}", 2, 47, ["must be a whole number of at least 1"]),
    ("name: x\nconfiguration: {spark.sql.shuffle.partitions: 0}", 2, 47, ["shuffle.partitions`", "at least 1"]),
    ("name: x\nconfiguration: {spark.sql.ansi.enabled: yes}", 2, 41, ["must be true or false"]),
    ("name: x\nconfiguration: {spark.sql.session.timeZone: Mars}", 2, 45, ["must be a time zone"]),
    ("name: x\nconfiguration: {spark.sql.session.timeZone: Europe/Berln}", 2, 45, ["did you mean `Europe/Berlin`?"]),
    ("name: x\nconfiguration: {spark.sql.session.timeZone: europe/berlin}", 2, 45, ["did you mean `Europe/Berlin`?"]),
    ("name: x\nconfiguration: {spark.sql.session.timeZone: utc}", 2, 45, ["did you mean `UTC`?"]),
    (
        "name: x\nconfiguration: {spark.driver.memory: lots}",
        2,
        38,
        ["`configuration.spark.driver.memory` must be a size"],
    ),
    ("name: x\nconfiguration: {spark.driver.memory: 1.5g}", 2, 38, ["such as 512m or 2g"]),
    ("name: x\nconfiguration: {spark.driver.memory: 2gb}", 2, 38, ["such as 512m or 2g"]),
    ("name: x\nconfiguration: {spark.executor.memory: 2 gigs}", 2, 40, ["must be a size, such as 512m or 2g"]),
    ("name: x\nconfiguration: [a]", 2, 16, ["`configuration` must be a mapping"]),
    ("name: x\nconfiguration: {a: {b: c}}", 2, 20, ["a single value, not a mapping"]),
    ("name: x\nconfiguration: {a: }", 2, 20, ["`configuration.a` has no value"]),
    ("name: x\nraw: {pth: a}", 2, 7, ["unknown field `pth` in `raw`", "did you mean `path`?"]),
    ("name: x\nraw: {layout: '{table}.parquet'}", 2, 15, ["must be one of", "{batch}/{table}.parquet"]),
    ("name: x\nraw: [a]", 2, 6, ["`raw` must be a mapping"]),
    ("name: x\nstorage: s3b://bucket", 2, 10, ["must be a folder", "did you mean `s3`?"]),
    ("name: x\nstorage: file:///srv", 2, 10, ["must be a folder"]),
    ("name: x\nstorage: s3a:///lake", 2, 10, ["no bucket"]),
    ("name: x\nstorage: abfss://account/lake", 2, 10, ["container@account"]),
    ("name: x\nstorage: raw", 2, 10, ["must be separate"]),
    ("name: x\nraw: storage/raw", 2, 6, ["must be separate"]),
    ("name: x\nevent_log: events.db", 2, 12, ["must be a URI"]),
    ("name: x\nevent_log: sqllite:///e.db", 2, 12, ["did you mean `sqlite`?"]),
    ("name: x\nevent_log: sqlite://e.db", 2, 12, ["three slashes"]),
    ("name: x\nevent_log: 'sqlite:///:memory:'", 2, 12, ["memory://"]),
    ("name: x\nevent_log: delta+s3:///log", 2, 12, ["no bucket"]),
    ("name: x\nevent_log: postgresql://host", 2, 12, ["no database"]),
    ("name: x\nspark: {master: local, remote: sc://h}", 2, 24, ["cannot be given together"]),
    ("name: x\nspark: {master: loca}", 2, 17, ["`spark.master` must be"]),
    ("name: x\nspark: {master: 'sc://h'}", 2, 17, ["spark.remote"]),
    ("name: x\nspark: {remote: 'http://h'}", 2, 17, ["Spark Connect"]),
    ("name: x\nvars: {a b: 1}", 2, 8, ["`a b`"]),
    ("name: x\nvars: {a: [1]}", 2, 11, ["a single value, not a list"]),
    ("name: x\ntargets: {prod: {storag: a}}", 2, 18, ["`storag` in `targets.prod`", "`storage`"]),
    ("name: x\ntargets: {prod: {threads: lots}}", 2, 27, ["`targets.prod.threads`"]),
    ("name: x\ntargets: {prod: {targets: {}}}", 2, 18, ["unknown field `targets`"]),
    ("name: x\ndefault_target: prd\ntargets: {prod: {}}", 2, 17, ["unknown target `prd`", "`prod`"]),
    ("name: x\nstorage: ${NOPE}", 2, 10, ["environment variable NOPE is not set"]),
    ("name: x\nstorage: ${NOPE", 2, 10, ["followed by a name and `}`"]),
    ("name: x\nstorage: ${a-b}", 2, 10, ["followed by a name and `}`"]),
    ("name: x\nthreads: ${NOPE:-many}", 2, 10, ["whole number"]),
]


@pytest.mark.parametrize(("text", "line", "column", "words"), WRONG, ids=[str(row[0])[:40] for row in WRONG])
def test_a_wrong_file(tmp_path: Path, text: str | bytes, line: int, column: int, words: list[str]) -> None:
    error = fail(tmp_path, text)
    assert all(word in error.message for word in words), error.message
    assert (error.location.line, error.location.column) == (line, column)  # type: ignore[union-attr]
    assert error.location.file == str(tmp_path / "penstock.yml")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("PENSTOCK__STORAG", "x", ["did you mean PENSTOCK__STORAGE?"]),
        ("PENSTOCK__SPARK__MASTR", "x", ["did you mean PENSTOCK__SPARK__MASTER?"]),
        ("PENSTOCK__SPARK", "x", ["does not exist"]),
        ("PENSTOCK__", "x", ["does not exist"]),
        ("PENSTOCK__TARGETS__A", "x", ["does not exist"]),
        ("PENSTOCK__NAME__A", "x", ["`name` has no fields below it"]),
        ("PENSTOCK__CONFIGURATION", "x", ["names no entry"]),
        ("PENSTOCK__CONFIGURATION__", "x", ["names no entry"]),
        ("PENSTOCK__THREADS", "many", ["`threads` must be a whole number"]),
        ("PENSTOCK__STORAGE", "", ["`storage` has no value"]),
        ("PENSTOCK__DEFAULT_TARGET", "prod", ["unknown target `prod`"]),
    ],
)
def test_a_wrong_override(tmp_path: Path, variable: str, value: str, words: list[str]) -> None:
    error = fail(tmp_path, "name: x\nvars: {days: 1}", {variable: value})
    assert str(error).startswith(f"environment variable {variable}: ")
    assert all(word in str(error) for word in words), str(error)


def test_two_overrides_of_one_field(tmp_path: Path) -> None:
    error = fail(tmp_path, "name: x", {"PENSTOCK__RAW": "a", "PENSTOCK__RAW__PATH": "b"})
    assert "PENSTOCK__RAW sets the same field" in error.message


def test_an_unknown_target(tmp_path: Path) -> None:
    error = fail(tmp_path, "name: x\ntargets: {prod: {}, test: {}}", target="prd")
    assert "did you mean `prod`?" in error.message
    assert error.hint == "known targets: prod, test"


def test_a_variable_of_the_command_that_is_no_name(tmp_path: Path) -> None:
    error = fail(tmp_path, "name: x", vars={"a-b": "1"})
    assert str(error).startswith("variable a-b: ")


SECRETS = [
    ("name: x\nevent_log: postgress://ana:{s}@h/db", {}),
    ("name: x\nevent_log: ana:{s}@h/db", {}),
    ("name: x\nevent_log: postgresql://ana:{s}@h", {}),
    ("name: x\nevent_log: postgresql://ana:{s}/x@h:5432/db", {}),
    ("name: x\nevent_log: 'postgresql://ana:{s}@h/db", {}),
    ("name: x\nevent_log: postgresql://ana@h/db: {s}", {}),
    ("name: x\nevent_log: *{s}", {}),
    ("name: x\nevent_log: !{s} a", {}),
    ("name: x\nevent_log: [{s}]", {}),
    ("name: x\nstorage: s3://key:{s}@bucket/x", {}),
    ("name: x\nspark: {{remote: 'https://h/;token={s}'}}", {}),
    ("name: ${{PW}} x", {"PW": "{s}"}),
    ("name: x\nthreads: ${{PW}}", {"PW": "{s}"}),
    ("name: x\nraw: {{layout: '${{PW}}'}}", {"PW": "{s}"}),
    ("name: x", {"PENSTOCK__EVENT_LOG": "postgress://ana:{s}@h/db"}),
    ("name: x", {"PENSTOCK__THREADS": "{s}"}),
    ("name: x\nconfiguration: {{spark.key: [{s}]}}", {}),
    ("name: x\nvars: {{key: {{a: {s}}}}}", {}),
]


@pytest.mark.parametrize(("text", "environment"), SECRETS, ids=[row[0][:50] for row in SECRETS])
def test_a_secret_is_never_part_of_an_error(tmp_path: Path, text: str, environment: Mapping[str, str]) -> None:
    secret = "hunter2secret"
    filled = {name: value.format(s=secret) for name, value in environment.items()}
    error = fail(tmp_path, text.format(s=secret), filled)
    assert secret not in f"{error}{error.hint}{error.args}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yml"
    file.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_project(file, environment={})
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        load_project(tmp_path / "other.yml", environment={})


def test_permission_denied_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match="cannot be read: permission denied"):
        load_project(tmp_path / "penstock.yml", environment={})


def test_a_huge_file(tmp_path: Path) -> None:
    assert "larger than" in fail(tmp_path, b"#" * 1_000_001).message


FRAGMENTS = st.sampled_from(  # pieces of YAML
    [
        *"[]{}'\"!|#~1a\u00e9\t\x00?,: \n",
        "name",
        "raw",
        "spark",
        "targets",
        "vars",
        "  ",
        "- ",
        "&a",
        "*a",
        "<<",
        "${A}",
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FRAGMENTS, max_size=30).map("".join))
def test_any_text_gives_a_project_or_a_clear_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "penstock.yml"
    file.write_text("name: x\n" + text, encoding="utf-8")
    location: Location | None = Location("none needed")
    try:
        load_project(file, environment={"A": "b"})
    except ConfigError as error:
        location = error.location
    assert location is not None
