"""Real object stores for the tests, on loopback and in memory: S3Proxy for S3, Azurite for Azure."""

from __future__ import annotations

import base64
import hmac
import http.client
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from obstore.store import AzureStore, S3Store

from tests.servers import free_port, running
from tests.tools import azurite, s3proxy

BUCKET = "penstock-test"


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Run an S3 server with an empty bucket; gives the environment that finds it."""
    with s3_process(folder) as (environment, _):
        yield environment


@contextmanager
def s3_process(folder: Path) -> Iterator[tuple[dict[str, str], int]]:
    """Run an S3 server with an empty bucket; gives the environment that finds it, and its process id."""
    port, user, secret = free_port(), "penstock", secrets.token_hex(16)
    settings = folder / "s3proxy.conf"
    settings.write_text(
        f"s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={user}\ns3proxy.credential={secret}\njclouds.provider=transient-nio2\n"
    )
    with running([*s3proxy(), "--properties", str(settings)], port, {}, folder / "s3.log") as process:
        _make_bucket(port, user, secret)
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": user,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_ALLOW_HTTP": "true",
        }
        yield environment, process.pid


@contextmanager
def azure_server(folder: Path) -> Iterator[dict[str, str]]:
    """Run Azurite with an empty container; gives the environment that finds it."""
    port, account, key = free_port(), "penstock", base64.b64encode(secrets.token_bytes(32)).decode()
    command = [*azurite(), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with running(command, port, {"AZURITE_ACCOUNTS": f"{account}:{key}"}, folder / "azure.log"):
        _make_container(port, account, key)
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": account,
            "AZURE_STORAGE_ACCOUNT_KEY": key,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
        }


def open_s3(environment: dict[str, str]) -> S3Store:
    """The bucket of an S3 server, by the environment that finds it."""
    return S3Store(
        BUCKET,
        endpoint=environment["AWS_ENDPOINT_URL"],
        access_key_id=environment["AWS_ACCESS_KEY_ID"],
        secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region=environment["AWS_REGION"],
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )


def open_azure(environment: dict[str, str]) -> AzureStore:
    """The container of Azurite, by the environment that finds it."""
    account = environment["AZURE_STORAGE_ACCOUNT_NAME"]
    return AzureStore(
        BUCKET,
        account_name=account,
        account_key=environment["AZURE_STORAGE_ACCOUNT_KEY"],
        endpoint=f"{environment['AZURITE_BLOB_STORAGE_URL']}/{account}",
        client_options={"allow_http": True},
    )


def _make_bucket(port: int, user: str, secret: str) -> None:
    date = formatdate(usegmt=True)
    text = f"PUT\n\n\n{date}\n/{BUCKET}"
    signature = _sign(secret.encode(), text, "sha1")
    _put(port, f"/{BUCKET}", {"Date": date, "Authorization": f"AWS {user}:{signature}"})


def _make_container(port: int, account: str, key: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = "PUT" + "\n" * 12 + canonical + f"/{account}/{account}/{BUCKET}\nrestype:container"
    headers["Authorization"] = f"SharedKey {account}:{_sign(base64.b64decode(key), text, 'sha256')}"
    _put(port, f"/{account}/{BUCKET}?restype=container", headers)


def _sign(key: bytes, text: str, algorithm: str) -> str:
    return base64.b64encode(hmac.new(key, text.encode(), algorithm).digest()).decode()


def _put(port: int, path: str, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("PUT", path, headers=headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    if response.status not in {200, 201}:
        raise RuntimeError(f"the server refused to make {path}: {response.status} {answer.decode(errors='replace')}")
