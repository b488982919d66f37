"""Real servers for tests, on loopback, ended by their process id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.session.class_archive import archive_options
from penstock.session.jars import resolve_jars, spark_home
from penstock.session.java import Java, find_java
from penstock.session.settings import CATALOG, EXTENSION, QUICK_COMPILER

FOR_FEW_ROWS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""To compile a query takes longer than to interpret it where it reads a few rows; Spark tests both ways to give the same."""
ONE_CORE = ("-XX:+UseSerialGC", "-Xms3g", "-Xmn1g", "-Djdk.lang.Process.launchMechanism=VFORK")
"""For a JVM that serves hundreds of tests on one core. Its heap is large from the start, so that it collects rarely; and Hadoop
starts a process for every file that it creates or renames on a local disk, which takes half as long this way."""
MEMORY = "4g"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server from when its port answers to the end of the block; `environment` is added to ours."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
        try:
            wait_for_port(port, process)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def process_tree(pid: int) -> Iterator[int]:
    """A process and all that it has started, each before its children."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from process_tree(int(child))


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process and its children as a debugger does: it keeps its connections, and answers to nothing."""
    stopped: list[int] = []
    try:
        for each in process_tree(pid):  # the parent first, so that it makes no more children
            os.kill(each, signal.SIGSTOP)
            stopped.append(each)
        yield
    finally:
        for each in reversed(stopped):
            os.kill(each, signal.SIGCONT)


def spark_environment(java: Java) -> dict[str, str]:
    """What the start scripts of Spark need to know."""
    return {"JAVA_HOME": str(java.home), "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def spark_connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server with Delta; gives its address."""
    java = find_java()
    jars = resolve_jars("delta", java, {})
    port = free_port()
    options = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join([*archive_options(java, jars), *QUICK_COMPILER, *ONE_CORE]),
        "spark.driver.memory": MEMORY,
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        **FOR_FEW_ROWS,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in options.items():
        command += ["--conf", f"{name}={value}"]
    environment = {**spark_environment(java), "PYSPARK_PYTHON": sys.executable}
    with running([*command, "spark-internal"], port, environment, folder / "connect.log"):
        yield f"sc://127.0.0.1:{port}"
