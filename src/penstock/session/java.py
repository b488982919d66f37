"""Finding a Java that Spark can run on, without starting it when that can be avoided."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import SessionError

OLDEST = 17
_HINT = "install Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: its home folder and its version."""

    home: Path
    version: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java that a session would use (JAVA_HOME first, then the path); SessionError with the fix if there is none."""
    environment = os.environ if environment is None else environment
    configured = environment.get("JAVA_HOME")
    if configured:
        executable = Path(configured) / "bin" / "java"
        if not executable.is_file():
            raise SessionError(f"JAVA_HOME is {configured}, but there is no bin/java in it", hint=_HINT)
    else:
        found = shutil.which("java", path=environment.get("PATH", ""))
        if found is None:
            raise SessionError("Java was not found: JAVA_HOME is not set, and there is no java on the PATH", hint=_HINT)
        executable = Path(found).resolve()
    java = Java(executable.parent.parent, _read_version(executable))
    major = re.match(r"\d+", java.version.removeprefix("1."))
    if major is None:
        raise SessionError(f"the version of Java at {executable} is unknown", hint=_HINT)
    if int(major[0]) < OLDEST:
        raise SessionError(f"Java {java.version} at {java.home} is too old: Spark 4 needs Java 17 or newer", hint=_HINT)
    return java


def _read_version(executable: Path) -> str:
    release = executable.parent.parent / "release"
    if release.is_file():
        match = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
        if match:
            return match[1]
    try:
        answer = subprocess.run([str(executable), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionError(f"Java at {executable} does not start ({type(error).__name__})", hint=_HINT) from None
    match = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    if match is None:
        raise SessionError(f"the version of Java at {executable} is unknown", hint=_HINT)
    return match[1]
