"""The jars that Spark needs for Delta and for object stores: resolved once by Ivy, which Spark ships, then used from a cache.

Only the jars that Spark lacks are fetched (Delta's own dependencies include 75 MB that Spark already has). A folder of
jars from the user is used directly, so that a machine without a network can run.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock

from penstock.errors import SessionError
from penstock.model.loads import find_driver_problem
from penstock.session.java import Java

DELTA_VERSION = "4.4.0"
_AWS = "2.35.4"


@dataclass(frozen=True, slots=True)
class JarGroup:
    """Jars that belong together: those named exactly, and those named with all their dependencies."""

    version: str
    exact: tuple[tuple[str, str, str], ...]
    with_needs: tuple[tuple[str, str, str], ...] = ()


GROUPS = {
    "delta": JarGroup(
        DELTA_VERSION,
        (
            ("io.delta", "delta-spark_4.2_2.13", DELTA_VERSION),
            ("io.delta", "delta-storage", DELTA_VERSION),
            ("io.delta", "delta-kernel-api", DELTA_VERSION),
            ("io.delta", "delta-kernel-defaults", DELTA_VERSION),
            ("io.delta", "delta-kernel-unitycatalog", DELTA_VERSION),
        ),
    ),
    # Only the modules of the SDK that S3A uses (15 MB), instead of its bundle of every service.
    "s3": JarGroup(
        "3.5.0",
        (
            ("org.apache.hadoop", "hadoop-aws", "3.5.0"),
            ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
        ),
        tuple(("software.amazon.awssdk", module, _AWS) for module in ("s3", "s3-transfer-manager", "sts")),
    ),
    "azure": JarGroup(
        "3.5.0",
        (
            ("org.apache.hadoop", "hadoop-azure", "3.5.0"),
            ("org.wildfly.openssl", "wildfly-openssl", "2.2.5.Final"),
        ),
        (("org.apache.httpcomponents", "httpclient", "4.5.14"),),
    ),
}
_SPARK_HAS = ("io.netty", "org.slf4j")


def cache_folder() -> Path:
    """Where jars and class archives are kept between runs; `PENSTOCK_CACHE` moves it."""
    configured = os.environ.get("PENSTOCK_CACHE")
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("penstock"))


def find_cached_jars(group: str) -> list[Path] | None:
    """The jars of a group (`delta`, `s3`, `azure`) if they were resolved before."""
    folder = cache_folder() / "jars" / f"{group}-{GROUPS[group].version}"
    return None if _find_missing(GROUPS[group], folder) else sorted(folder.glob("*.jar"))


def _find_missing(group: JarGroup, folder: Path) -> list[str]:
    """The jars named by a group that are not in the folder; a clean-up of the cache may have removed some."""
    wanted = (*group.exact, *group.with_needs)
    return [f"{name} {version}" for _, name, version in wanted if not (folder / f"{name}-{version}.jar").is_file()]


def find_jars(folder: str) -> list[Path]:
    """The jars in a folder that the user named; SessionError if Delta's are not among them."""
    jars = sorted(Path(folder).glob("*.jar"))
    if not any(jar.name.startswith(f"delta-spark_4.2_2.13-{DELTA_VERSION}") for jar in jars):
        raise SessionError(
            f"spark.jars is {folder}, but delta-spark_4.2_2.13-{DELTA_VERSION}.jar is not in it",
            hint="put these jars there: "
            + ", ".join(f"{name}-{version}.jar" for _, name, version in GROUPS["delta"].exact),
        )
    return jars


def resolve_package(coordinates: str, java: Java, settings: Mapping[str, str]) -> list[Path]:
    """The jars of a package by its Maven coordinates, such as a JDBC driver, with what it needs."""
    problem = find_driver_problem(coordinates)
    if problem is not None:
        raise SessionError(f"the JDBC driver {problem}")
    organisation, name, version = coordinates.split(":")
    group = JarGroup(version, (), ((organisation, name, version),))
    try:
        return _resolve(group, cache_folder() / "jars" / f"{organisation}-{name}-{version}", java, settings)
    except SessionError as error:
        raise SessionError(
            f"the JDBC driver {coordinates} could not be fetched: {error.message.rpartition(': ')[2]}",
            hint="check its coordinates and the network, or put its jar in a folder with Delta's jars and name it in "
            "penstock.yml (spark: {jars: FOLDER})",
        ) from None


def resolve_jars(group: str, java: Java, settings: Mapping[str, str]) -> list[Path]:
    """The jars of a group, fetched by package name if they are not in the cache yet."""
    wanted = GROUPS[group]
    return _resolve(wanted, cache_folder() / "jars" / f"{group}-{wanted.version}", java, settings)


def _resolve(wanted: JarGroup, target: Path, java: Java, settings: Mapping[str, str]) -> list[Path]:
    if not _find_missing(wanted, target):
        return sorted(target.glob("*.jar"))
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.name):
        if _find_missing(wanted, target):  # no other process has fetched them while this one waited
            _fetch(wanted, target, java, settings)
    return sorted(target.glob("*.jar"))


def _locked(name: str) -> FileLock:
    """One process at a time does what is named here; the lock of a process that dies is free."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    return FileLock(cache_folder() / f"{name}.lock")


def _fetch(wanted: JarGroup, target: Path, java: Java, settings: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fetched = Path(scratch) / "jars"
        fetched.mkdir()
        _run_ivy(wanted, java, settings, Path(scratch), fetched)
        missing = _find_missing(wanted, fetched)
        if missing:
            raise _unresolved(f"{missing[0]} was not found")
        try:
            fetched.rename(target)
        except OSError:  # a clean-up left some of the jars
            for jar in fetched.iterdir():
                jar.replace(target / jar.name)


def _run_ivy(group: JarGroup, java: Java, settings: Mapping[str, str], scratch: Path, target: Path) -> None:
    lines = "".join(
        f'<dependency org="{org}" name="{name}" rev="{revision}" transitive="{transitive}" conf="default"/>'
        for coordinates, transitive in ((group.exact, "false"), (group.with_needs, "true"))
        for org, name, revision in coordinates
    )
    lines += "".join(f'<exclude org="{org}"/>' for org in _SPARK_HAS)
    retrieve(lines, f"{target}/[artifact]-[revision].[ext]", java, settings, scratch)


def retrieve(dependencies: str, pattern: str, java: Java, settings: Mapping[str, str], scratch: Path) -> None:
    """Fetch the jars of an Ivy module with these dependencies into files named by the pattern.

    One process at a time: Ivy's cache keeps downloads under way, and what was resolved, in files that all of them share.
    """
    module = scratch / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="penstock" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    command = [str(java.executable), "-jar", str(ivy), "-ivy", str(module), "-cache", str(cache_folder() / "ivy")]
    command += ["-confs", "default", "-types", "jar", "-retrieve", pattern, "-error"]
    if "spark.jars.ivySettings" in settings:
        command += ["-settings", settings["spark.jars.ivySettings"]]
    try:
        with _locked("ivy"):
            answer = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except subprocess.TimeoutExpired:
        raise _unresolved("no answer within 15 minutes") from None
    if answer.returncode != 0:
        raise _unresolved("the repository cannot be reached, or does not have this")


def _unresolved(why: str) -> SessionError:
    return SessionError(
        f"the jars that Spark needs could not be fetched: {why}",
        hint="check the network, or put the jars in a folder and name it in penstock.yml (spark: {jars: FOLDER})",
    )


def spark_home() -> Path:
    """The folder of Spark itself: SPARK_HOME, or the one inside the pyspark package. Does not import pyspark."""
    configured = os.environ.get("SPARK_HOME")
    if configured:
        return Path(configured)
    import importlib.util

    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SessionError("the package pyspark is not installed", hint="pip install penstock")
    return Path(spec.origin).parent
