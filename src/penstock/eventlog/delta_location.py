"""Where a Delta log is: from its URI to the table's address, its files and the local projection.

Credentials come from the environment (AWS_*, AZURE_*, GOOGLE_*), never from the URI.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.errors import ConfigError
from penstock.eventlog.retry import DEADLINE_SECONDS
from penstock.storage.files import Files, open_files
from penstock.storage.local import LocalFiles

CACHE_VARIABLE = "PENSTOCK_CACHE_DIR"
_SCHEMES = {"delta+s3": "s3", "delta+azure": "abfs", "delta+gs": "gs"}
_OPTION_PREFIXES = ("aws_", "azure_", "google_")
_SECRETS = ("secret", "token", "password", "account_key", "access_key", "sas")


@dataclass(frozen=True, slots=True)
class Location:
    """A Delta log's address in every form that is needed."""

    uri: str
    """As shown to people."""
    table: str
    """As delta-rs takes it."""
    folder: Path | None
    """The table's folder when it is on this machine."""
    projection: Path
    """The local file that queries are answered from; it can be deleted at any time."""
    deadline_seconds: float
    options: dict[str, str] = field(default_factory=dict)

    def open_files(self) -> Files:
        """Open the files of the table, to read its transaction log without delta-rs."""
        return LocalFiles(self.folder) if self.folder is not None else open_files(self.table, settings=self.options)


def to_location(uri: str) -> Location:
    """Parse a `delta` URI; its options are `deadline_seconds`, `cache` and settings of the store that are not secret."""
    parts = urlsplit(uri)
    options = {name.lower(): value for name, value in parse_qsl(parts.query)}
    deadline = options.pop("deadline_seconds", str(DEADLINE_SECONDS))
    cache = options.pop("cache", None)
    _check_options(uri, parts.scheme, options, deadline)
    path = unquote(parts.path)
    if parts.scheme == "delta":
        if parts.netloc or not path.startswith("/") or len(path) < 2:
            raise ConfigError(f"{uri} does not name a folder", hint="use an absolute path: delta:///folder/of/the/log")
        table = "/" + path.strip("/")
        folder: Path | None = Path(table)
        shown = f"delta://{table}"
    else:
        if not parts.netloc or len(path) < 2:
            raise ConfigError(f"{uri} does not name a folder in a store", hint=f"use {parts.scheme}://bucket/folder")
        table = f"{_SCHEMES[parts.scheme]}://{parts.netloc}{path.rstrip('/')}"
        folder = None
        shown = f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}"
    return Location(shown, table, folder, _projection(table, options, cache), float(deadline), options)


def _check_options(uri: str, scheme: str, options: dict[str, str], deadline: str) -> None:
    for name in options:
        if any(word in name for word in _SECRETS):
            raise ConfigError(
                f"{name} is a secret and must not be in the URI of an event log",
                hint=f"set the environment variable {name.upper()} instead",
            )
        if scheme == "delta" or not name.startswith(_OPTION_PREFIXES):
            raise ConfigError(
                f"{urlsplit(uri)._replace(query='').geturl()} has an unknown option: {name}",
                hint="use deadline_seconds, cache, or an aws_*, azure_* or google_* setting of an object store",
            )
    if not deadline.replace(".", "", 1).isdigit():
        raise ConfigError(f"deadline_seconds must be a number of seconds, not {deadline}")


def _projection(table: str, options: dict[str, str], cache: str | None) -> Path:
    folder = cache or os.environ.get(CACHE_VARIABLE)
    if folder is None:
        import platformdirs

        folder = platformdirs.user_cache_dir("penstock")
    endpoint = options.get("aws_endpoint_url", os.environ.get("AWS_ENDPOINT_URL", ""))
    account = options.get("azure_storage_account_name", os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""))
    name = hashlib.blake2b("\n".join((table, endpoint, account)).encode(), digest_size=12).hexdigest()
    return Path(folder) / "eventlog" / f"{name}.db"
