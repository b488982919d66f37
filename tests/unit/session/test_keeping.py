"""What user code sets on a session is put back, setting by setting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from penstock.session.keeping import settings_kept


class Settings:
    """Those of a session; some can be changed only by the session itself."""

    def __init__(self, fixed: str, **values: str) -> None:
        self.fixed, self.values = fixed, values

    @property
    def getAll(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        return dict(self.values)

    def set(self, name: str, value: str) -> None:
        self._check(name)
        self.values[name] = value

    def unset(self, name: str) -> None:
        self._check(name)
        del self.values[name]

    def _check(self, name: str) -> None:
        if name == self.fixed:
            raise ValueError(f"[CANNOT_MODIFY_CONFIG] {name}")


class Place:
    """Where a session looks up names."""

    def __init__(self, catalog: str, database: str) -> None:
        self.catalog, self.database = catalog, database

    def currentCatalog(self) -> str:  # noqa: N802 - Spark's name
        return self.catalog

    def currentDatabase(self) -> str:  # noqa: N802 - Spark's name
        return self.database

    def setCurrentCatalog(self, name: str) -> None:  # noqa: N802 - Spark's name
        self.catalog, self.database = name, "default"

    def setCurrentDatabase(self, name: str) -> None:  # noqa: N802 - Spark's name
        self.database = name


@pytest.mark.parametrize("then", [("spark_catalog", "aside"), ("other", "default"), ("other", "main")])
def test_names_are_looked_up_where_they_were(then: tuple[str, str]) -> None:
    place = Place("spark_catalog", "main")
    session = cast("SparkSession", SimpleNamespace(conf=Settings("none"), catalog=place))
    with settings_kept(session):
        place.catalog, place.database = then
    assert (place.catalog, place.database) == ("spark_catalog", "main")


@pytest.mark.parametrize("fixed", ["none", "old", "other", "new", "newer"])
def test_a_setting_that_cannot_be_put_back_leaves_the_others_to_be(fixed: str) -> None:
    settings = Settings(fixed, old="1", other="2", gone="3")
    changed: dict[str, Any] = {"old": "x", "other": "x", "new": "x", "newer": "x"}
    with settings_kept(cast("SparkSession", SimpleNamespace(conf=settings, catalog=Place("spark_catalog", "main")))):
        settings.values = dict(changed)
    kept = {name: value for name, value in changed.items() if name == fixed}
    assert settings.values == {"old": "1", "other": "2", "gone": "3", **kept}
