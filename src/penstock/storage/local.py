"""Files of a local folder, by the standard library."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from penstock.errors import ConcurrentRunError, StorageError
from penstock.model.progress import RawFile

_ATTEMPTS = 10


def is_misplaced(error: OSError) -> bool:
    """Whether there can be no such file: something else is in its place, or in that of its folder, or its name is too long."""
    return error.errno in {errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}


class LocalFiles:
    """Files of a local folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.uri = str(root)
        self.reader_options: dict[str, str] | None = None

    def walk(self, prefix: str) -> list[RawFile]:
        return [file for file, mode in self.walk_all(prefix) if stat.S_ISREG(mode)]

    def walk_all(self, prefix: str) -> list[tuple[RawFile, int]]:
        """All that is below the prefix with its mode: files, folders, pipes, and links that lead nowhere."""
        start = self.root / prefix if prefix else self.root
        above = (os.path.realpath(start),)
        found = [
            (RawFile(path, status.st_size, status.st_mtime_ns), status.st_mode)
            for path, status in _walk(start, prefix, above)
        ]
        return sorted(found, key=lambda each: each[0].path)

    def names(self, prefix: str) -> list[str]:
        return sorted(entry.name for entry in _scan(self.root / prefix) if _leads_somewhere(entry) and entry.is_file())

    def folders(self, prefix: str) -> list[str]:
        return sorted(entry.name for entry in _scan(self.root / prefix) if _leads_somewhere(entry) and entry.is_dir())

    def dead_links(self, prefix: str) -> list[str]:
        """Names of the links directly in a folder that lead nowhere, such as to a mount that is missing."""
        looked = [(entry.name, _look_at(entry)) for entry in _scan(self.root / prefix) if entry.is_symlink()]
        return sorted(name for name, status in looked if status and stat.S_ISLNK(status.st_mode))

    def entries(self, prefix: str) -> list[str]:
        """Everything that a folder has, files or not: what is in the place of a file must not look as if there were none."""
        return sorted(entry.name for entry in _scan(self.root / prefix))

    def read(self, path: str) -> bytes:
        with self.open(path) as stream:
            return stream.read()

    def exists(self, path: str) -> bool:
        # Not Path: a strict read of an event log asks this, and joining paths would cost more than the answer.
        return os.path.exists(f"{self.uri}/{path}")  # noqa: PTH110

    def stamp(self, path: str) -> str | None:
        try:
            status = os.stat(f"{self.uri}/{path}")  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"

    def size(self, path: str) -> int | None:
        """The size of a file; None when there is no such file."""
        try:
            status = os.stat(f"{self.uri}/{path}")  # noqa: PTH116 - asked for every data file of every table
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise _denied(self.root / path) from error
        except OSError as error:
            if is_misplaced(error):
                return None
            raise
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def open(self, path: str) -> BinaryIO:
        try:
            return open(f"{self.uri}/{path}", "rb", opener=_open_regular)
        except PermissionError as error:
            raise _denied(self.root / path) from error

    def create(self, path: str, content: bytes) -> None:
        target = self.root / path
        with _writing(target.parent):
            handle, temporary = _make_temporary(target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(temporary, target)  # fails if the name exists; a reader never sees a partial file
        finally:
            Path(temporary).unlink()

    @contextmanager
    def open_new(self, path: str, like: str | None = None) -> Iterator[BinaryIO]:
        target = self.root / path
        with _writing(target.parent):
            if like is None:
                target.parent.mkdir(parents=True, exist_ok=True)
            # Not through a link that somebody left there.
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            handle = os.open(target, flags, 0o600 if like is not None else 0o666)
        try:
            with _writing(target.parent), os.fdopen(handle, "w+b") as stream:
                if like is not None:
                    _copy_rights(self.root / like, target)
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            _sync_folder(target.parent)
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    def replace(self, aside: str, path: str, stamp: str) -> None:
        source, target = self.root / aside, self.root / path
        if self.stamp(path) != stamp:
            raise ConcurrentRunError(f"{target} was changed meanwhile", hint="run again")
        with _writing(target.parent):
            source.replace(target)
            _sync_folder(target.parent)

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def find_obstacle(self, path: str) -> str | None:
        """What is in the way of a folder, from the root down: a file, or a link in a circle; None when nothing is."""
        inner = self.root / path
        for place in [*(each for each in reversed(inner.parents) if each.is_relative_to(self.root)), inner]:
            try:
                is_folder = place.is_dir()  # False for a link in a circle
            except PermissionError as error:
                raise _denied(place) from error
            if not is_folder:
                return str(place) if os.path.lexists(place) else None
        return None

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder with this name."""
        return (self.root / path).is_dir()

    def rename_folder(self, path: str, to: str) -> None:
        """Give a folder another place below the root, at once."""
        target = self.root / to
        with _writing(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).rename(target)

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that it holds, if there is one."""
        with _writing(self.root / path), suppress(FileNotFoundError):
            shutil.rmtree(self.root / path)

    def remove_empty_folders(self, prefix: str) -> None:
        for folder, _, _ in os.walk(self.root / prefix, topdown=False):
            with suppress(OSError):  # it holds something
                Path(folder).rmdir()

    def spark_path(self, path: str) -> str:
        # Spark takes a path literally: Path.as_uri() would make it write to a folder called "my%20data"
        root = self.root.absolute()
        return f"file://{root / path if path else root}"


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise _denied(folder) from error
    except OSError as error:
        if error.errno is None:  # not the system's: what fails in a block that writes may be something else
            raise
        obstacle = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), folder)
        if not obstacle.is_dir():
            raise StorageError(f"{obstacle} is not a folder", hint="move it away, and run again") from error
        raise StorageError(
            f"{folder} cannot be written: {error.strerror}", hint="check the path and the free space"
        ) from error


def _copy_rights(old: Path, new: Path) -> None:
    """Who may read the old file may read the new one; PermissionError where only its owner or root could do that."""
    status, own = old.stat(), new.stat()
    if (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid):
        shutil.chown(new, status.st_uid, status.st_gid)
    new.chmod(stat.S_IMODE(status.st_mode))


def _sync_folder(folder: Path) -> None:
    """Make a new name durable, where the system can open a folder."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _make_temporary(folder: Path) -> tuple[int, str]:
    """A new file in a folder, which is made if need be; another process may remove it while it is empty."""
    for _ in range(_ATTEMPTS):
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return tempfile.mkstemp(dir=folder, prefix=".new-")
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))


def _open_regular(path: str, flags: int) -> int:
    """Open a file; what is none, such as a pipe that nobody writes to, is refused at once, where Python would wait for ever."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise IsADirectoryError(errno.EISDIR, "Not a regular file", path)
    return handle


def _denied(path: Path) -> StorageError:
    return StorageError(f"no permission for {path}", hint="check the owner and the mode of the folder")


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise _denied(folder) from error
    except OSError as error:
        if is_misplaced(error):
            return []
        raise


def _walk(folder: Path, prefix: str, above: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result]]:
    """What is below a folder; `above` has the real paths of the folders that lead to it, and its own."""
    for entry in _scan(folder):
        status = _look_at(entry)
        if status is None:
            continue
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        yield path, status
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(Path(entry.path), path, (*above, _follow(entry, above)))


def _look_at(entry: os.DirEntry[str]) -> os.stat_result | None:
    """The status of what it is or leads to, of the link itself if it leads nowhere; None if it is gone since it was listed."""
    try:
        with suppress(FileNotFoundError):
            return entry.stat()
    except PermissionError as error:
        raise _denied(Path(entry.path)) from error
    except OSError as error:
        if not is_misplaced(error):
            raise
    try:
        return os.lstat(entry.path)
    except FileNotFoundError:
        return None


def _leads_somewhere(entry: os.DirEntry[str]) -> bool:
    """Whether it is anything but a link that leads back to itself, which the system refuses to follow."""
    try:
        return not entry.is_symlink() or entry.is_dir() or entry.is_file()
    except OSError as error:
        if is_misplaced(error):
            return False
        raise


def _follow(entry: os.DirEntry[str], above: tuple[str, ...]) -> str:
    """The real path of a folder; StorageError when it is a link to one of the folders above it, which would never end."""
    if not entry.is_symlink():
        return f"{above[-1]}/{entry.name}"
    real = os.path.realpath(entry.path)
    if any(each == real or each.startswith(f"{real.rstrip('/')}/") for each in above):
        raise StorageError(f"{entry.path} is a link to a folder above it", hint="remove the link")
    return real
