"""Where an object store is and how to sign in: told once, in the words of Spark, for every library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_S3A = "spark.hadoop.fs.s3a."
_ALLOW_HTTP = ("aws_allow_http", "azure_allow_http", "allow_http")


def to_store_options(configuration: Mapping[str, str], settings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What obstore needs to reach the store that Hadoop's settings and those of a URI (`aws_region`) describe.

    Credentials and settings of the environment need no mention, except for HTTP without TLS: obstore does not look
    there for it.
    """
    given = {name.lower(): value for name, value in (settings or {}).items()}
    allowed = [given.pop(name, os.environ.get(name.upper(), "")) for name in _ALLOW_HTTP]
    options = {**_from_hadoop(configuration), **given}
    if any(value.lower() == "true" for value in allowed):
        options["client_options"] = {"allow_http": True}
    return options


def _from_hadoop(configuration: Mapping[str, str]) -> dict[str, Any]:
    names = {
        "endpoint": "endpoint",
        "access.key": "access_key_id",
        "secret.key": "secret_access_key",
        "session.token": "session_token",
    }
    options: dict[str, Any] = {
        ours: configuration[_S3A + theirs] for theirs, ours in names.items() if _S3A + theirs in configuration
    }
    if _S3A + "endpoint.region" in configuration:
        options["region"] = configuration[_S3A + "endpoint.region"]
    if str(options.get("endpoint", "")).startswith("http://"):
        options["client_options"] = {"allow_http": True}
    for key, value in configuration.items():
        if key.startswith("spark.hadoop.fs.azure.account.key."):
            options["account_key"] = value
    if configuration.get(_S3A + "path.style.access", "").lower() == "true":
        options["virtual_hosted_style_request"] = False
    return options


def to_reader_options(configuration: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings as delta-rs knows them."""
    names = {"endpoint": "AWS_ENDPOINT_URL", "access_key_id": "AWS_ACCESS_KEY_ID", "region": "AWS_REGION"}
    names |= {"secret_access_key": "AWS_SECRET_ACCESS_KEY", "session_token": "AWS_SESSION_TOKEN"}
    options = _from_hadoop(configuration)
    result = {theirs: str(options[ours]) for ours, theirs in names.items() if ours in options}
    if "account_key" in options:
        result["AZURE_STORAGE_ACCOUNT_KEY"] = str(options["account_key"])
    if "client_options" in options:
        result["AWS_ALLOW_HTTP"] = "true"
    return result
