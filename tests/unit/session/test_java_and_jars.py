"""Java and the jars: found without starting anything, and when they are missing, a short error with the fix."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import SessionError
from penstock.inspect.doctor import check_jars, check_java, check_spark
from penstock.model.project import Project, SparkSettings
from penstock.session.jars import (
    DELTA_VERSION,
    GROUPS,
    cache_folder,
    find_cached_jars,
    find_jars,
    resolve_jars,
    retrieve,
    spark_home,
)
from penstock.session.java import Java, find_java

DELTA = GROUPS["delta"].exact


def make_java(home: Path, release: str | None = None, answer: str | None = None, mode: int = 0o755) -> Path:
    """A Java installation: with a `release` file as real ones have, or a program that answers `-version`."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{answer or ''}' >&2\n")
    program.chmod(mode)
    if release is not None:
        (home / "release").write_text(release)
    return home


@pytest.mark.parametrize(
    ("release", "answer", "version"),
    [
        ('IMPLEMENTOR="X"\nJAVA_VERSION="17.0.12"\n', None, "17.0.12"),
        ('JAVA_VERSION="21"\n', None, "21"),
        ('JAVA_VERSION="25-ea"\n', None, "25-ea"),
        (None, 'openjdk version "17.0.9" 2023-10-17', "17.0.9"),
        ("nothing useful\n", 'openjdk version "21.0.1"', "21.0.1"),
    ],
)
def test_java_home_comes_first(release: str | None, answer: str | None, version: str, tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", release, answer)
    other = make_java(tmp_path / "other", 'JAVA_VERSION="11.0.1"')
    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert java == Java(home, version)
    assert java.executable == home / "bin" / "java"


def test_without_java_home_the_path_leads_to_java_through_links(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", 'JAVA_VERSION="17.0.12"')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


@pytest.mark.parametrize(
    ("release", "answer", "said"),
    [
        ('JAVA_VERSION="11.0.22"', None, "Java 11.0.22 at {home} is too old"),
        ('JAVA_VERSION="1.8.0_402"', None, "Java 1.8.0_402 at {home} is too old"),
        (None, 'java version "1.8.0_402"', "Java 1.8.0_402 at {home} is too old"),
        (None, "what?", "the version of Java at {home}/bin/java is unknown"),
        ('JAVA_VERSION="internal"', None, "the version of Java at {home}/bin/java is unknown"),
    ],
)
def test_a_java_that_spark_cannot_use_is_refused_with_the_fix(
    release: str | None, answer: str | None, said: str, tmp_path: Path
) -> None:
    home = make_java(tmp_path / "jdk", release, answer)
    with pytest.raises(SessionError) as caught:
        find_java({"JAVA_HOME": str(home)})
    assert str(caught.value).startswith(said.format(home=home))
    assert "Java 17 or 21" in str(caught.value.hint)


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=rf"JAVA_HOME is {tmp_path}, but there is no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_no_java_at_all_is_told(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="JAVA_HOME is not set"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_that_does_not_start_is_told(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", mode=0o644)
    with pytest.raises(SessionError, match="does not start"):
        find_java({"JAVA_HOME": str(home)})


def test_the_doctor_shows_the_same_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check = check_java()
    assert (check.ok, "no bin/java" in check.detail) == (False, True)
    assert check.fix is not None
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "jdk", 'JAVA_VERSION="17.0.12"')))
    assert check_java().ok
    assert check_spark().ok


def fill(folder: Path, count: int = len(DELTA)) -> Path:
    folder.mkdir(parents=True)
    for _, name, version in DELTA[:count]:
        (folder / f"{name}-{version}.jar").touch()
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    return tmp_path / "cache" / "jars" / f"delta-{DELTA_VERSION}"


def test_jars_of_a_folder_are_taken_as_they_are(tmp_path: Path) -> None:
    folder = fill(tmp_path / "jars")
    (folder / "more.jar").touch()
    (folder / "README").touch()
    assert {jar.name for jar in find_jars(str(folder))} == {f"{n}-{v}.jar" for _, n, v in DELTA} | {"more.jar"}


@pytest.mark.parametrize(
    "names", [[], ["other.jar"], ["delta-spark_4.2_2.13-4.3.0.jar"], ["delta-spark_2.12-3.2.0.jar"]]
)
def test_a_folder_without_the_right_delta_is_refused_and_says_what_is_missing(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(SessionError, match=r"delta-spark_4\.2_2\.13-4\.4\.0\.jar is not in it") as caught:
        find_jars(str(tmp_path))
    assert all(name in str(caught.value.hint) for _, name, _ in DELTA)


def test_a_folder_of_jars_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError):
        find_jars(str(tmp_path / "missing"))


def test_jars_that_were_fetched_once_are_used_from_the_cache(cache: Path) -> None:
    assert find_cached_jars("delta") is None
    fill(cache)
    assert find_cached_jars("delta") == sorted(cache.iterdir())
    java = Java(Path("/nowhere"), "17")  # must not be started
    assert resolve_jars("delta", java, {}) == sorted(cache.iterdir())


@pytest.mark.parametrize("count", [0, 3])
def test_a_cache_that_lost_jars_does_not_count(count: int, cache: Path) -> None:
    fill(cache, count)
    assert find_cached_jars("delta") is None
    assert check_jars(None).ok
    assert "not fetched yet" in check_jars(None).detail


def _fetch(home: Path, count: int) -> Java:
    """A Java that, asked to run Ivy, puts `count` jars where it is told to."""
    make_java(home)
    names = " ".join(f"{name}-{version}.jar" for _, name, version in DELTA[:count])
    script = f"""#!/bin/sh
while [ "$1" != "-retrieve" ]; do shift; done
for name in {names}; do touch "$(dirname "$2")/$name"; done
"""
    (home / "bin" / "java").write_text(script)
    return Java(home, "17")


@pytest.mark.parametrize("left", [None, 0, 3])
def test_fetched_jars_take_the_place_of_what_was_left(left: int | None, cache: Path, tmp_path: Path) -> None:
    if left is not None:
        fill(cache, left)
    jars = resolve_jars("delta", _fetch(tmp_path / "jdk", len(DELTA)), {})
    assert jars == sorted(cache.iterdir())
    assert len(jars) == len(DELTA)
    assert [folder.name for folder in cache.parent.iterdir()] == [cache.name]


def test_processes_that_start_together_fetch_once_and_one_after_the_other(cache: Path, tmp_path: Path) -> None:
    java = _fetch(tmp_path / "jdk", len(DELTA))
    script = java.executable.read_text()
    alone = f"mkdir {tmp_path}/busy || exit 1\necho run >> {tmp_path}/runs\nsleep 0.2\nrmdir {tmp_path}/busy\n"
    java.executable.write_text(script.replace("\n", f"\n{alone}", 1))
    module = '<dependency org="o" name="n" rev="1"/>'
    with ThreadPoolExecutor(5) as pool:
        found = [pool.submit(resolve_jars, "delta", java, {}) for _ in range(3)]
        others = [pool.submit(retrieve, module, f"{tmp_path}/[artifact].[ext]", java, {}, tmp_path) for _ in range(2)]
        assert {len(future.result()) for future in found} == {len(DELTA)}
        assert [future.result() for future in others] == [None, None]
    assert (tmp_path / "runs").read_text() == "run\n" * 3


def test_a_fetch_that_is_not_complete_leaves_no_cache(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"delta-kernel-api 4\.4\.0 was not found") as caught:
        resolve_jars("delta", _fetch(tmp_path / "jdk", 2), {})
    assert "spark: {jars: FOLDER}" in str(caught.value.hint)
    assert not cache.exists()


def test_a_fetch_that_fails_says_so_without_a_stack_trace(cache: Path, tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk")
    (home / "bin" / "java").write_text("#!/bin/sh\necho UNRESOLVED >&2; exit 1\n")
    with pytest.raises(SessionError, match="cannot be reached, or does not have this"):
        resolve_jars("delta", Java(home, "17"), {})


def test_spark_home_needs_no_import_and_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert list((spark_home() / "jars").glob("spark-core*.jar"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_home() == tmp_path


@pytest.mark.parametrize(
    ("spark", "ok", "said"),
    [
        (SparkSettings(remote="sc://host:1"), True, "on the Spark Connect server"),
        (SparkSettings(jars="/nowhere"), False, "spark.jars is /nowhere"),
    ],
)
def test_the_doctor_looks_where_the_project_says(spark: SparkSettings, ok: bool, said: str, cache: Path) -> None:
    check = check_jars(Project(Path("/p"), Path("/p/penstock.yml"), "p", "/p/storage", spark=spark))
    assert (check.ok, said in check.detail) == (ok, True)
