"""Where an object store is and how to sign in: told once, in the words of Spark, for every library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

_S3A = "spark.hadoop.fs.s3a."
_ALLOW_HTTP = ("aws_allow_http", "azure_allow_http", "allow_http")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long requests to a store are tried, for who cannot wait as long as the libraries do: minutes."""

    seconds: float

    @property
    def request_seconds(self) -> float:
        """One request; half of the time, so that there is time for another one on a new connection."""
        return min(30.0, self.seconds / 2)

    @property
    def connect_seconds(self) -> float:
        """Connecting to the server."""
        return min(5.0, self.seconds / 2)


def to_store_options(
    configuration: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
    patience: Patience | None = None,
) -> dict[str, Any]:
    """What obstore needs to reach the store that Hadoop's settings and those of a URI (`aws_region`) describe.

    Credentials and settings of the environment need no mention, except for HTTP without TLS: obstore does not look
    there for it.
    """
    given = {name.lower(): value for name, value in (settings or {}).items()}
    allowed = [given.pop(name, os.environ.get(name.upper(), "")) for name in _ALLOW_HTTP]
    options = {**_from_hadoop(configuration), **given}
    if any(value.lower() == "true" for value in allowed):
        options["client_options"] = {"allow_http": True}
    if patience is not None:
        options["client_options"] = {
            **options.get("client_options", {}),
            "timeout": timedelta(seconds=patience.request_seconds),
            "connect_timeout": timedelta(seconds=patience.connect_seconds),
        }
        options["retry_config"] = {"retry_timeout": timedelta(seconds=patience.seconds)}
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


def to_patient_reader_options(patience: Patience) -> dict[str, str]:
    """How long requests are tried, as delta-rs knows it."""
    return {
        "timeout": _milliseconds(patience.request_seconds),
        "connect_timeout": _milliseconds(patience.connect_seconds),
        "retry_timeout": _milliseconds(patience.seconds),
    }


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
