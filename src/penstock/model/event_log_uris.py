"""The URI of an event log, taken apart in one place for the project file, the command line and every backend.

A URI can contain secrets anywhere, and a mistyped one in places where none belong. So a message shows only what was
placed for certain: the scheme, the host or bucket, and the path. It never shows a user name, a password, an option or
its value, or a part that could not be placed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote, unquote

from penstock.errors import ConfigError, first_line
from penstock.model.event_logs import ALIASES, DEADLINE_SECONDS, EVENT_LOGS, EventLogForm
from penstock.model.nearest import did_you_mean

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NEEDS_ESCAPE = re.compile(r"[\x00-\x20\x7f%?#]")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:@\[\],]*)(:[0-9]*)?")
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_STORE_SETTINGS = ("aws_", "azure_", "google_")
_SECRETS = ("secret", "token", "password", "account_key", "access_key", "sas")
_COMMON_OPTIONS = ("deadline_seconds",)
_MOST_SECONDS = 86_400
_LONGEST_NAME = 63
"""PostgreSQL cuts longer names, also in its messages."""


class EventLogUriError(ConfigError):
    """The URI of an event log is wrong; `problem` is the message without its subject, for the project file."""

    def __init__(self, problem: str, *, hint: str, shown: str = "") -> None:
        super().__init__(f"the event log URI{' ' if shown else ''}{shown} {problem}", hint=hint)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class EventLogUri:
    """The parts of a URI, decoded. Its `repr` shows no secret."""

    scheme: str
    place: str = ""
    """The host, or hosts, with their ports; the bucket or container."""
    path: str = ""
    """The file or folder, the folder in the store, or the database. Relative paths have no slash at the beginning."""
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def form(self) -> EventLogForm:
        """What this scheme is."""
        return EVENT_LOGS[self.scheme]

    @property
    def shown(self) -> str:
        """The URI as people may see it. Where the path is all there is to it, it can be opened again."""
        if self.scheme == "memory":
            return "memory://"
        return f"{self.scheme}://{self.place}/{_NEEDS_ESCAPE.sub(_escape, self.path)}"

    @property
    def hosts(self) -> dict[str, str]:
        """The hosts and ports of servers, as libpq takes them; a port that is not given is empty."""
        pairs = [host.rpartition(":") if _has_port(host) else (host, "", "") for host in self.place.split(",")]
        names = ",".join(unquote(host.strip("[]")) for host, _, _ in pairs)
        ports = ",".join(port for _, _, port in pairs)
        return {"host": names.strip(","), "port": ports if ports.strip(",") else ""}

    @property
    def deadline_seconds(self) -> float:
        """How long an operation may take."""
        older = self.options.get("busy_seconds", DEADLINE_SECONDS)
        return float(self.options.get("deadline_seconds", older))

    def below(self, folder: Path) -> EventLogUri:
        """The same log, with a path relative to a folder made absolute; only for logs in a file or folder."""
        return replace(self, path=os.path.abspath(folder / self.path))  # noqa: PTH100  # resolve() would follow links

    def to_text(self) -> str:
        """The URI of a log in a file or folder, with its options."""
        options = "&".join(f"{name}={quote(value, safe='/')}" for name, value in self.options.items())
        return f"{self.shown}?{options}" if options else self.shown

    def hide(self, text: str) -> str:
        """A text of another program, such as an error message, without what the URI keeps secret."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            whole = re.escape(secret)
            text = re.sub(whole if len(secret) > 3 else rf"(?<!\w){whole}(?!\w)", "***", text)
        return text

    def describe(self, error: BaseException) -> str:
        """The first line of an error of another program, without what the URI keeps secret."""
        return first_line(RuntimeError(self.hide(str(error)) or type(error).__name__))

    def _secrets(self) -> set[str]:
        found = {self.user or "", self.password or ""}
        for name, value in self.options.items():
            if name not in _COMMON_OPTIONS:
                found.add(value)
            if "=" in value or "@" in value:  # server settings, or an endpoint with credentials
                parts = re.split(r"[=@:/,;\s\\]+", value)
                found.update(form for part in parts for form in (part, part.removeprefix("-c")) if len(form) > 3)
        found |= {secret[:_LONGEST_NAME] for secret in found}
        return {form for secret in found if secret for form in (secret, quote(secret, safe=""))}


def parse_event_log_uri(text: str) -> EventLogUri:
    """Take the URI of an event log apart; raises `EventLogUriError`, which shows nothing that could be a secret."""
    scheme, rest = _split_scheme(text)
    prefix = f"{scheme}://"
    if "#" in rest:
        raise EventLogUriError("contains a `#`", shown=prefix, hint="write # as %23")
    if _BAD_ESCAPE.search(rest):
        raise EventLogUriError(
            "contains a `%` that two hexadecimal digits do not follow",
            shown=prefix,
            hint="write % as %25; other special characters are also written as % and two digits, such as @ as %40",
        )
    if _CONTROL.search(rest):
        raise EventLogUriError("contains a control character", shown=prefix, hint="check for a copied line break")
    before, _, query = rest.partition("?")
    authority, slash, path = before.partition("/")
    form = EVENT_LOGS[scheme]
    late_at = "@" in path or "@" in query  # what comes before it may be a part of a password with a / or ? in it
    if form.is_file:
        found = _in_file(scheme, authority, slash, path)
    elif form.is_store:
        found = _in_store(scheme, authority, path, late_at=late_at)
    elif scheme == "postgresql":
        found = _on_server(scheme, authority, path, late_at=late_at)
    else:
        found = EventLogUri(scheme)
    found = replace(found, options=_read_options(found, query))
    if scheme == "postgresql" and not (found.path or found.options.get("dbname") or found.options.get("service")):
        raise EventLogUriError("has no database after the host", shown=prefix, hint=f"use {form.example}")
    return found


def place_event_log(text: str, folder: Path) -> str:
    """A URI as text, where a relative path of a log in a file or folder is below this folder."""
    found = parse_event_log_uri(text)
    return found.below(folder).to_text() if found.form.is_file else text


def _split_scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    scheme = ALIASES.get(scheme, scheme)
    if match is None or scheme not in EVENT_LOGS:
        known = ", ".join(f"`{each}://`" for each in EVENT_LOGS)
        near = did_you_mean(scheme, EVENT_LOGS) if scheme else ""
        raise EventLogUriError(
            f"must be a URI that starts with one of {known}{near}",
            hint=f"use one of {', '.join(each.example for each in EVENT_LOGS.values())}",
        )
    return scheme, text[match.end() :]


def _in_file(scheme: str, authority: str, slash: str, path: str) -> EventLogUri:
    decoded = _decode(scheme, path)
    if authority or not slash or not decoded.strip("/"):
        raise EventLogUriError(
            f"needs three slashes and a path: `{scheme}:///path`, or four slashes for an absolute path",
            shown=f"{scheme}://",
            hint=f"use {scheme}:///folder/log, or {scheme}:////folder/log for an absolute path",
        )
    if ":memory:" in decoded:
        raise EventLogUriError("cannot be in memory; use `memory://`", shown=f"{scheme}://", hint="use memory://")
    return EventLogUri(scheme, "", decoded)


def _in_store(scheme: str, authority: str, path: str, *, late_at: bool) -> EventLogUri:
    form = EVENT_LOGS[scheme]
    if "@" in authority or ":" in authority or late_at:
        raise EventLogUriError(
            "must not contain a user name, a key or a password",
            shown=f"{scheme}://",
            hint=f"set the environment variables {form.credentials}; write an @ in a path or an option as %40",
        )
    if not authority:
        raise EventLogUriError(
            f"has no bucket or container after `{scheme}://`", shown=f"{scheme}://", hint=f"use {form.example}"
        )
    if not _BUCKET.fullmatch(authority):
        raise EventLogUriError(
            "has a bucket or container with characters that none can have",
            shown=f"{scheme}://",
            hint=f"use {form.example}",
        )
    decoded = _decode(scheme, path).strip("/")
    if not decoded:
        raise EventLogUriError("does not name a folder in the store", shown=f"{scheme}://", hint=f"use {form.example}")
    if _NEEDS_ESCAPE.search(decoded):
        raise EventLogUriError(
            "has a path with a space, %, ? or #, which libraries of object stores read in different ways",
            shown=f"{scheme}://{authority}",
            hint="use another folder",
        )
    return EventLogUri(scheme, authority, decoded)


def _on_server(scheme: str, authority: str, path: str, *, late_at: bool) -> EventLogUri:
    *login, hosts = authority.split("@")
    matches = [_HOST.fullmatch(host) for host in hosts.split(",")]
    if len(login) > 1 or late_at or not all(matches):
        raise EventLogUriError(
            "is not a valid `postgresql://user:password@host:port/database` address; special characters must be %-encoded",
            shown=f"{scheme}://",
            hint="write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 and % as %25 in the user name and the password",
        )
    user, colon, password = login[0].partition(":") if login else ("", "", "")
    return EventLogUri(
        scheme,
        hosts,
        _decode(scheme, path),
        _decode(scheme, user) or None,
        _decode(scheme, password) if colon else None,
    )


def _read_options(found: EventLogUri, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in query.split("&") if query else ():
        name, equals, value = part.partition("=")
        name = _decode(found.scheme, name)
        if not equals or not name:
            _refuse_option(found, "has an option that is not written as name=value", name)
        options[name if found.form.options is None else name.lower()] = _decode(found.scheme, value)
    for name in options:
        _check_name(found, name)
    for name in ("deadline_seconds", "busy_seconds"):
        if name in options and (found.form.options is not None or name == "deadline_seconds"):
            _check_seconds(found, name, options[name])
    return options


def _check_name(found: EventLogUri, name: str) -> None:
    known = found.form.options
    if known is None or name in known or name in _COMMON_OPTIONS:
        return
    if found.form.is_store and any(word in name for word in _SECRETS):
        raise EventLogUriError(
            "has an option that is a secret, which must not be in it",
            shown=f"{found.scheme}://",
            hint=f"set the environment variables {found.form.credentials} instead",
        )
    if not (found.form.is_store and name.startswith(_STORE_SETTINGS)):
        _refuse_option(found, "has an unknown option", name)


def _refuse_option(found: EventLogUri, problem: str, name: str) -> NoReturn:
    known = (*(found.form.options or ()), *_COMMON_OPTIONS)
    others = ", and aws_*, azure_* or google_* settings of the store" if found.form.is_store else ""
    raise EventLogUriError(  # not with its path: the ? before the options may be a part of a password
        f"{problem}{did_you_mean(name, known)}",
        shown=f"{found.scheme}://",
        hint=f"options are {', '.join(known)}{others}; write a ? that is not before options as %3F",
    )


def _check_seconds(found: EventLogUri, name: str, value: str) -> None:
    may_be_zero = name == "busy_seconds"  # SQLite then does not wait at all
    if not _NUMBER.fullmatch(value) or float(value) > _MOST_SECONDS or not (float(value) or may_be_zero):
        raise EventLogUriError(
            f"has a value of {name} that is not a number of seconds between 0 and {_MOST_SECONDS}",
            shown=found.shown,
            hint=f"write a number such as {name}=60",
        )


def _decode(scheme: str, text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        decoded = "\0"  # raised below, so that the error has no context with the text in it
    if "\0" in decoded:
        raise EventLogUriError(
            "contains an escape such as %00 or %FF that is not UTF-8 text",
            shown=f"{scheme}://",
            hint="write special characters as the % escapes of their UTF-8 bytes",
        )
    return decoded


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]
