"""A class-data archive: the JVM's parsed classes, cached so that the next session starts faster.

The first session without one asks its JVM to write one when it ends, under a unique name. The next session
adopts it once that JVM has ended. A damaged archive is ignored by the JVM, never an error.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from penstock.session.jars import cache_folder, spark_home
from penstock.session.java import Java

_SMALLEST = 10_000_000
_KEPT_SECONDS = 30 * 24 * 3600
"""How long an archive is kept that no session uses: each environment and each set of jars has one of about 200 MB."""


def archive_options(java: Java, class_path: Sequence[Path]) -> list[str]:
    """The JVM options that use the archive, or write one at exit if there is none yet."""
    quiet = ["-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"]
    archive = _archive(java, class_path)
    _adopt(archive)
    with suppress(OSError):
        os.utime(archive)
    _remove_unused(archive.parent)
    if archive.is_file():
        return [f"-XX:SharedArchiveFile={archive}", *quiet]
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return []
    return [f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()}.part", *quiet]


def _archive(java: Java, class_path: Sequence[Path]) -> Path:
    parts = [java.version, str(java.home), str(spark_home()), *map(str, class_path)]
    return cache_folder() / "classes" / f"{hashlib.blake2b('|'.join(parts).encode(), digest_size=8).hexdigest()}.jsa"


def _adopt(archive: Path) -> None:
    """Adopt the archive of an ended session, and remove the leftovers of killed ones."""
    for part in sorted(archive.parent.glob(f"{archive.name}.*.part")) if archive.parent.is_dir() else []:
        if _is_being_written(part):
            continue
        with suppress(FileNotFoundError):  # another session has just adopted it
            if part.stat().st_size >= _SMALLEST and not archive.exists():
                part.rename(archive)
            else:
                part.unlink()


def _remove_unused(folder: Path) -> None:
    """Remove the archives, and the leftovers of killed sessions, that nobody has used for long."""
    for path in folder.glob("*.jsa*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink()


def _is_being_written(part: Path) -> bool:
    """Whether some process still has the file open, or may still write it (its session is alive)."""
    session = part.name.rsplit(".", 2)[1]
    if session.isdigit() and Path(f"/proc/{session}").exists():
        return True
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if part.name.encode() in process.read_bytes():
                return True
        except OSError:
            continue
    return False
