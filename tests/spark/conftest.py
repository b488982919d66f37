"""One JVM for all tests of this folder: the engine finds the active session and uses it, as in a notebook.

It interprets queries, on one core: two processes share two cores, and frames have a few rows. `make test-deep`, and every command
that a test starts in a process of its own, run with the settings of production.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.engine import Engine, open_engine
from penstock.kinds.cdc import batch as change_batch
from penstock.model.project import SparkSettings
from penstock.session.opening import open_session
from penstock.session.settings import SessionRequest
from tests.projects import ProjectFolder, make_shop
from tests.servers import FOR_FEW_ROWS, MEMORY, ONE_CORE
from tests.spark.erasure_projects import add_odd_rows, make_people, open_people
from tests.spark.load_projects import Loads
from tests.spark.tables import forget_tables


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    folder = tmp_path_factory.mktemp("session")
    settings, configuration = SparkSettings("local[2]"), dict[str, str]()
    if request.config.option.markexpr != "deep":
        settings = SparkSettings("local[1]")
        java = {"spark.driver.memory": MEMORY, "spark.driver.extraJavaOptions": " ".join(ONE_CORE)}
        configuration = {**FOR_FEW_ROWS, **java}
    wanted = SessionRequest(settings, configuration, (str(folder),), folder, "tests", is_short=True)
    with open_session(wanted) as session:
        yield session


@pytest.fixture
def shop(tmp_path: Path, spark: object) -> Iterator[ProjectFolder]:
    """A small project; names registered by its runs are forgotten afterwards."""
    yield make_shop(tmp_path / "shop")
    forget_tables(spark)


@pytest.fixture
def empty_project(tmp_path: Path, spark: object) -> Iterator[ProjectFolder]:
    yield ProjectFolder(tmp_path / "empty").configure()
    forget_tables(spark)


@pytest.fixture
def loads(tmp_path: Path, spark: object) -> Iterator[Loads]:
    yield Loads(ProjectFolder(tmp_path / "shop").configure(), spark)
    forget_tables(spark)
    spark.sql("DROP DATABASE IF EXISTS crm CASCADE")  # type: ignore[attr-defined]


@pytest.fixture
def open_shop(shop: ProjectFolder) -> Callable[[], Engine]:
    """Open the project afresh, as each command does."""
    return lambda: open_engine(shop.root, environment={})


@pytest.fixture(params=["on the driver", pytest.param("by Spark", marks=pytest.mark.deep)])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small batches of changes are replayed on the driver where that can be; in `make test-deep` also by Spark."""
    if request.param == "by Spark":
        monkeypatch.setattr(change_batch, "can_replay", lambda _: False)
    return str(request.param)


@pytest.fixture
def people(tmp_path: Path, spark: object) -> Iterator[ProjectFolder]:
    """A person in every kind of table, loaded in two runs."""
    project = make_people(tmp_path / "people")
    assert not open_people(project).run().has_failed
    add_odd_rows(project)
    assert not open_people(project).run().has_failed
    yield project
    forget_tables(spark)
