"""Real servers for the tests, started on loopback and stopped by their process: an S3 server and Azurite.

They come from the package registries the first time and are kept in the user's cache: versitygw through `go install`
(or S3Proxy's jar, named by PENSTOCK_TEST_S3PROXY), Azurite through npm.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests.servers import free_port, wait_for_port

TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS", Path.home() / ".cache" / "penstock-test-tools"))
BUCKET = "penstock-test"


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Run an S3 server with an empty bucket; gives the environment that finds it."""
    port, user, secret = free_port(), "penstock", secrets.token_hex(16)
    (folder / BUCKET).mkdir(parents=True)
    jar = os.environ.get("PENSTOCK_TEST_S3PROXY")
    if jar:
        settings = folder.parent / "s3proxy.conf"
        settings.write_text(
            f"s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={user}\ns3proxy.credential={secret}\n"
            f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={folder}\n"
        )
        command = ["java", "-Xmx256m", "-jar", jar, "--properties", str(settings)]
    else:
        command = [_versitygw(), "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    environment = {"ROOT_ACCESS_KEY": user, "ROOT_SECRET_KEY": secret}
    with _running(command, port, environment, folder.parent):
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": user,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_ALLOW_HTTP": "true",
        }


@contextmanager
def azure_server(folder: Path) -> Iterator[dict[str, str]]:
    """Run Azurite with an empty container; gives the environment that finds it."""
    port, account, key = free_port(), "penstock", base64.b64encode(secrets.token_bytes(32)).decode()
    folder.mkdir(parents=True)
    command = [
        _azurite(),
        *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)),
        *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
    ]
    with _running(command, port, {"AZURITE_ACCOUNTS": f"{account}:{key}"}, folder.parent):
        _make_container(port, account, key)
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": account,
            "AZURE_STORAGE_ACCOUNT_KEY": key,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
        }


@contextmanager
def _running(command: list[str], port: int, environment: dict[str, str], folder: Path) -> Iterator[None]:
    with (folder / "server.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment})
        try:
            wait_for_port(port, process)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _versitygw() -> str:
    found = shutil.which("versitygw") or shutil.which(str(TOOLS / "versitygw"))
    if found is None:
        package = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
        subprocess.run(["go", "install", package], check=True, env={**os.environ, "GOBIN": str(TOOLS)})
        found = str(TOOLS / "versitygw")
    return found


def _azurite() -> str:
    found = shutil.which("azurite-blob") or shutil.which(str(TOOLS / "node_modules/.bin/azurite-blob"))
    if found is None:
        TOOLS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--no-save", "--prefix", str(TOOLS), "azurite@3.37.0"], check=True)
        found = str(TOOLS / "node_modules/.bin/azurite-blob")
    return found


def _make_container(port: int, account: str, key: str) -> None:
    """Create the container with a request signed by the account's key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    resource = f"/{account}/{account}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + canonical + resource
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("PUT", f"/{account}/{BUCKET}?restype=container", headers=headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    if response.status != 201:
        raise RuntimeError(f"Azurite refused to make a container: {response.status} {response.reason}")
