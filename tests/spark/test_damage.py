"""Every file below a project's storage and .penstock, damaged in every way, one at a time, on Spark.

The next run heals it, or refuses that table with a way out, which is then taken; the other tables go on. In the end every table
has the rows that it has without the damage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.damages import DAMAGES
from tests.spark.damage_scenes import SCENES, Damaged, Scene
from tests.spark.tables import forget_tables

pytestmark = pytest.mark.spark
OpenScene = Callable[[Scene], Damaged]


@pytest.fixture(scope="module")
def open_scene(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[OpenScene]:
    opened: dict[str, Damaged] = {}

    def open_once(scene: Scene) -> Damaged:
        if scene.name not in opened:
            opened[scene.name] = Damaged(tmp_path_factory.mktemp(scene.name), spark, scene)
        return opened[scene.name]

    yield open_once
    forget_tables(spark)


def test_a_damaged_file_is_healed_or_refused(open_scene: OpenScene) -> None:
    damaged = open_scene(next(scene for scene in SCENES if scene.name == "staging"))
    for pattern, damage in (
        ("storage/staging/orders/*.parquet", "garble"),
        ("storage/main/totals/_delta_log/*0.json", "truncate"),
    ):
        file = next(path for path in damaged.files if path.match(pattern))
        damaged.check(file, damage, with_other=damage == "garble")


@pytest.mark.deep
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_every_damaged_file_is_healed_or_refused(scene: Scene, damage: str, open_scene: OpenScene) -> None:
    damaged = open_scene(scene)
    failures = []
    outcomes: Counter[str] = Counter()
    for path in damaged.files:
        try:
            outcomes[damaged.check(path, damage, with_other=damage == "fold")] += 1
        except Exception as error:  # noqa: BLE001 - one case must not hide the others
            failures.append(f"{path}: {type(error).__name__} {str(error)[:400]}")
            print(failures[-1], flush=True)  # noqa: T201 - a run takes minutes
    print(f"{scene.name}, {damage}: {len(damaged.files)} files, {dict(outcomes)}")  # noqa: T201 - the figures of a release
    assert not failures, "\n".join(failures)
