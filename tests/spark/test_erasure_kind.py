"""A kind that Penstock has never heard of is erased like any other: its table, its copies elsewhere, and for good."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import open_engine
from penstock.kinds.registry import KINDS
from penstock.model.results import Outcome
from tests.kinds.constants import ConstantsKind
from tests.projects import ProjectFolder
from tests.spark.erasure_projects import SECRET
from tests.spark.tables import forget_tables
from tests.spark.test_erase import CAUTION

pytestmark = pytest.mark.spark


@pytest.mark.deep
def test_a_constant_is_erased_and_stays_so(spark: Any, tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "shop").configure(f'name: shop\nerasure: {{secrets: {{"1": "{SECRET}"}}}}\n')
    constants, copies = project.root / "constants", project.root / "copies"
    for folder in (constants, copies):
        folder.mkdir()

    def define(parts: dict[str, list[int]]) -> None:
        (constants / "numbers.json").write_text(json.dumps(parts))

    define({"large": [1000, 4242], "small": [1, 2]})
    (copies / "numbers.json").write_text('{"v": 4242}\n{"v":  1}\n')
    (copies / "other.json").write_text('{"v": 7777}\n')
    with open_engine(project.root, environment={}, kinds=(*KINDS, ConstantsKind())) as engine:

        def run() -> dict[str, Any]:
            result = engine.run()
            assert not result.has_failed, [str(item.problem) for item in result.items]
            return {item.id: item for item in result.items}

        run()
        hidden = engine.erasure.add("numbers", ["value=4242"], reason="DSR-17")
        assert [each.rows for each in hidden.tables] == [1]
        assert project.rows("main.numbers") == [("large", 1000), ("small", 1), ("small", 2)]
        engine.erasure.remove([hidden.batch])
        assert ("large", 4242) in project.rows("main.numbers")
        engine.erasure.add("numbers", ["value=4242"], reason="DSR-17")
        define({"large": [1000, 4242, 5], "small": [1, 2]})
        assert run()["main.numbers/large"].load.suppressed == 1

        (receipt,) = engine.erasure.erase(caution=CAUTION).receipts
        assert receipt.scan.hits == 0
        assert (copies / "numbers.json").read_text() == '{"v":  1}\n', "the other record stays as it is"
        assert (copies / "other.json").read_text() == '{"v": 7777}\n'
        assert project.rows("main.numbers") == [("large", 1000), ("large", 5), ("small", 1), ("small", 2)]
        assert run()["main.numbers/large"].outcome is Outcome.NO_OP
        define({"large": [4242, 6], "small": [1, 4242]})
        done = run()
        assert [done[f"main.numbers/{part}"].load.suppressed for part in ("large", "small")] == [1, 1]
        assert project.rows("main.numbers") == [("large", 6), ("small", 1)]
    forget_tables(spark)
