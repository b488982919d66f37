"""One Spark Connect server for all kills: a killed client costs seconds, a killed JVM costs half a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import spark_connect_server


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with spark_connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address
