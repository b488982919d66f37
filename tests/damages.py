"""What can happen to one file of a project: truncated, emptied, garbled, replaced by a folder, removed, swapped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _truncate(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def _garble(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 40] = b"\xff\x00garbled" * 4
    file.write_bytes(bytes(content))


def _fold(file: Path) -> None:
    file.unlink()
    (file / "inside").mkdir(parents=True)


def _swap(file: Path) -> None:
    neighbours = [other for other in sorted(file.parent.iterdir()) if other != file and other.is_file()]
    if neighbours:
        aside = file.with_name("aside")
        file.rename(aside)
        neighbours[0].rename(file)
        aside.rename(neighbours[0])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": _empty,
    "truncate": _truncate,
    "garble": _garble,
    "fold": _fold,
    "unlink": Path.unlink,
    "swap": _swap,
}
