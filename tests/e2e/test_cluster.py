"""A project on a real standalone cluster: a master and a worker on this machine, the driver in the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.session.jars import spark_home
from penstock.session.java import find_java
from tests.projects import MORE_ORDERS, make_shop
from tests.servers import free_port, running, spark_environment

pytestmark = [pytest.mark.spark, pytest.mark.deep]


@contextmanager
def _running(folder: Path, port: int, *arguments: str) -> Iterator[None]:
    environment = {**spark_environment(find_java()), "SPARK_WORKER_DIR": str(folder / "work")}
    command = [str(spark_home() / "bin" / "spark-class"), *arguments]
    with running(command, port, environment, folder / f"{port}.log"):
        yield


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    port, worker = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    here = ("--host", "127.0.0.1", "--webui-port", "0", "--port")
    with (
        _running(tmp_path, port, f"{deploy}.master.Master", *here, str(port)),
        _running(tmp_path, worker, f"{deploy}.worker.Worker", *here, str(worker), "-c", "2", "-m", "2g", master),
    ):
        yield master


def test_a_project_runs_on_a_cluster(tmp_path: Path, cluster: str) -> None:
    shop = make_shop(tmp_path / "shop")
    small = "  spark.databricks.delta.snapshotPartitions: 2\n  spark.sql.shuffle.partitions: 2\n"
    shop.configure(f"name: shop\nconfiguration:\n{small}")
    shop.environment["PENSTOCK__SPARK__MASTER"] = cluster
    shop.environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    shop.penstock("run")
    shop.raw("orders", "0002", MORE_ORDERS)
    shop.penstock("run")
    assert shop.results()["staging.orders"]["action"] == "append"
    assert [row[2] for row in shop.rows("staging.orders")] == [1, 2, 3, 4, 5]
    assert shop.rows("main.totals") == [("a", 2, 40.0), ("b", 2, 60.0), ("c", 1, 50.0)]
    assert "Nothing to do" in shop.penstock("run").stdout
