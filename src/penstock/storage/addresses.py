"""Addresses of folders and files: which are remote, and how Spark and the object-store libraries write them."""

from __future__ import annotations

import posixpath
import re


def is_remote(uri: str) -> bool:
    """Whether the URI is an object store rather than a local folder."""
    return "://" in uri and not uri.startswith("file://")


def to_store_uri(uri: str) -> str:
    """An address as object-store libraries know it: S3 is `s3`."""
    return uri.replace("s3a://", "s3://", 1) if uri.startswith("s3a://") else uri


def to_spark_uri(uri: str) -> str:
    """An address as Spark's file systems know it: they call S3 `s3a`."""
    return uri.replace("s3://", "s3a://", 1) if uri.startswith("s3://") else uri


def without_scheme(path: str) -> str:
    """The path without its scheme: `file:/a/b`, `file:///a/b` and `/a/b` are one file, as are s3:// and s3a:// of a bucket."""
    return path.split(":", 1)[1].lstrip("/") if "://" in path or path.startswith("file:") else path.lstrip("/")


def to_address(uri: str) -> str:
    """One text for one file, however its address is written: the scheme, repeated slashes and dots do not matter."""
    found = without_scheme(uri)
    return found if is_remote(uri) else posixpath.normpath(found)


def to_glob_literal(path: str) -> str:
    """Escape a path so that Spark's readers take it literally: they would read `a?b` as a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
