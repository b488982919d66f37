"""The jars that Spark needs for Delta and for object stores: resolved once by Ivy, which Spark ships, then used from a cache.

Only the jars that Spark lacks are fetched (Delta's own dependencies repeat 75 MB that Spark already has). A folder of
jars given by the user is taken as it is, so that a machine without a network can run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from penstock.errors import SessionError
from penstock.lake.java import Java

DELTA_VERSION = "4.4.0"

Coordinate = tuple[str, str, str]

DELTA: tuple[Coordinate, ...] = (
    ("io.delta", "delta-spark_4.2_2.13", DELTA_VERSION),
    ("io.delta", "delta-storage", DELTA_VERSION),
    ("io.delta", "delta-kernel-api", DELTA_VERSION),
    ("io.delta", "delta-kernel-defaults", DELTA_VERSION),
    ("io.delta", "delta-kernel-unitycatalog", DELTA_VERSION),
)
_GROUPS = {"delta": DELTA}


def cache_folder() -> Path:
    """Where jars and class archives are kept between runs; `PENSTOCK_CACHE` moves it."""
    configured = os.environ.get("PENSTOCK_CACHE")
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("penstock"))


def find_cached_jars(group: str) -> list[Path] | None:
    """The jars of a group (`delta`, `s3`, `azure`) if they were resolved before."""
    folder = cache_folder() / "jars" / f"{group}-{_stamp(group)}"
    return sorted(folder.glob("*.jar")) if folder.is_dir() else None


def find_jars(folder: str) -> list[Path]:
    """The jars in a folder that the user named; SessionError if Delta's are not among them."""
    jars = sorted(Path(folder).glob("*.jar"))
    if not any(jar.name.startswith(f"delta-spark_4.2_2.13-{DELTA_VERSION}") for jar in jars):
        raise SessionError(
            f"spark.jars is {folder}, but delta-spark_4.2_2.13-{DELTA_VERSION}.jar is not in it",
            hint="put these jars there: " + ", ".join(f"{name}-{version}.jar" for _, name, version in DELTA),
        )
    return jars


def resolve_jars(group: str, java: Java, settings: Mapping[str, str]) -> list[Path]:
    """The jars of a group, fetched by package name if they are not in the cache yet."""
    cached = find_cached_jars(group)
    if cached is not None:
        return cached
    target = cache_folder() / "jars" / f"{group}-{_stamp(group)}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fetched = Path(scratch) / "jars"
        fetched.mkdir()
        _run_ivy(_GROUPS[group], java, settings, Path(scratch), fetched)
        if len(list(fetched.glob("*.jar"))) != len(_GROUPS[group]):
            raise _unresolved(group, "some of them were not found")
        try:
            fetched.rename(target)
        except OSError:  # another process was faster
            if not target.is_dir():
                raise
    return sorted(target.glob("*.jar"))


def _stamp(group: str) -> str:
    return _GROUPS[group][0][2]


def _run_ivy(
    coordinates: tuple[Coordinate, ...], java: Java, settings: Mapping[str, str], scratch: Path, target: Path
) -> None:
    module = scratch / "ivy.xml"
    lines = "".join(
        f'<dependency org="{org}" name="{name}" rev="{rev}" transitive="false" conf="default"/>'
        for org, name, rev in coordinates
    )
    module.write_text(
        '<ivy-module version="2.0"><info organisation="penstock" module="jars"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{lines}</dependencies></ivy-module>'
    )
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    command = [str(java.executable), "-jar", str(ivy), "-ivy", str(module), "-cache", str(cache_folder() / "ivy")]
    command += ["-confs", "default", "-types", "jar", "-retrieve", f"{target}/[artifact]-[revision].[ext]", "-error"]
    if "spark.jars.ivySettings" in settings:
        command += ["-settings", settings["spark.jars.ivySettings"]]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except subprocess.TimeoutExpired:
        raise _unresolved(coordinates[0][1], "no answer within 15 minutes") from None
    if answer.returncode != 0:
        raise _unresolved(coordinates[0][1], "the repository could not be reached or does not have them")


def _unresolved(what: str, why: str) -> SessionError:
    return SessionError(
        f"the jars of {what} could not be fetched: {why}",
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


def remove_partial(folder: Path) -> None:
    """Remove what an interrupted download left behind."""
    shutil.rmtree(folder, ignore_errors=True)
