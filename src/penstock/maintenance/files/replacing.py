"""The new content in the place of the old one. Safe to repeat: after a kill anywhere, a journal's entry is enough to go on."""

from __future__ import annotations

from contextlib import suppress

from penstock.errors import ConcurrentRunError, RewriteError
from penstock.faults import fault_point
from penstock.maintenance.files.contents import describe
from penstock.maintenance.files.values import Content, FileState, Rewritten, Where
from penstock.storage.files import Files


def identify(files: Files, rewritten: Rewritten) -> FileState:
    """Which content the file has now: size and hash are compared, never times or entity tags."""
    return _compare(files, rewritten.path, rewritten)


def has_aside(files: Files, rewritten: Rewritten) -> bool:
    """Whether the new content still lies aside, complete."""
    return rewritten.aside is not None and _compare(files, rewritten.aside, rewritten) is FileState.NEW


def replace(files: Files, rewritten: Rewritten) -> None:
    """Put the new content in the place of the old one. Does nothing when it is there already, except to tidy up.

    RewriteError when somebody changed the file, or when the content aside is gone: then rewrite the file once more.
    """
    if rewritten.aside is None:
        return
    stamp = files.stamp(rewritten.path)
    state = identify(files, rewritten)
    if state is FileState.OLD:
        _check_aside(files, rewritten)
        fault_point("rewrite.before_replace")
        try:
            files.replace(rewritten.aside, rewritten.path, stamp or "")
        except (
            ConcurrentRunError
        ):  # an answer that was lost on the way: the store did it, and a repeat found it changed
            state = identify(files, rewritten)
        else:
            state = FileState.NEW
            fault_point("rewrite.after_replace")
    if state is not FileState.NEW:
        raise _changed(files, rewritten, state)
    discard(files, rewritten)


def discard(files: Files, rewritten: Rewritten) -> None:
    """Remove what lies aside; the file itself stays as it is."""
    if rewritten.aside is not None and files.exists(rewritten.aside):
        with suppress(FileNotFoundError):
            files.remove(rewritten.aside)


def _compare(files: Files, path: str, rewritten: Rewritten) -> FileState:
    try:
        with files.open(path) as stream:
            found = describe(stream)
    except FileNotFoundError:
        return FileState.MISSING
    if _is_same(found, rewritten.new):
        return FileState.NEW
    return FileState.OLD if _is_same(found, rewritten.old) else FileState.OTHER


def _is_same(one: Content, other: Content) -> bool:
    return (one.size, one.sha256) == (other.size, other.sha256)


def _check_aside(files: Files, rewritten: Rewritten) -> None:
    if not has_aside(files, rewritten):
        raise RewriteError(
            f"the new content of {Where.of(files, rewritten.path).address} is not at {rewritten.aside}, or not complete; "
            "the file was left as it is",
            hint="run again: it will be written once more",
        )


def _changed(files: Files, rewritten: Rewritten, state: FileState) -> RewriteError:
    what = "is gone" if state is FileState.MISSING else "was changed by somebody else"
    return RewriteError(
        f"{Where.of(files, rewritten.path).address} {what} after it was rewritten; it was left as it is",
        hint="run again, so that its present content is searched",
    )
