"""`penstock ls --graph`, `penstock compile`, and who reads a dataset in `penstock show`."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from penstock.inspect.graphs import DatasetGraph
from penstock.model.names import DatasetName
from projects import ProjectFolder

VIEWS = """
CREATE TEMPORARY VIEW paid AS SELECT * FROM staging.orders WHERE amount >= ${least};
CREATE MATERIALIZED VIEW paid_count TAGS ('nightly') AS
SELECT count(*) AS n, '${least}' AS least -- of the paid ones: ${least}
FROM paid JOIN big_orders USING (id);
"""


@pytest.fixture
def graph_shop(shop: ProjectFolder) -> ProjectFolder:
    shop.configure("name: shop\nvars:\n  least: 20\n")
    shop.define("views.sql", VIEWS)
    return shop


TREE = """\
staging.orders
  main.big_orders
    main.big_count
    main.paid_count
  main.totals
  main.paid
    main.paid_count
"""


def test_the_graph_is_drawn_as_text_mermaid_and_dot(graph_shop: ProjectFolder, penstock) -> None:
    assert penstock("ls", "--graph").out == TREE
    assert penstock("ls", "--graph", "--quiet").out == TREE
    assert penstock("ls", "--graph", "text").out == TREE
    mermaid = penstock("ls", "--graph", "mermaid").out.splitlines()
    assert mermaid[0] == "flowchart LR"
    assert '  d0[("staging.orders")]' in mermaid
    paid = next(line.split("(")[0].strip() for line in mermaid if '(["main.paid"])' in line)
    assert f"  d0 --> {paid}" in mermaid
    dot = penstock("ls", "--graph", "dot").out.splitlines()
    assert (dot[0], dot[-1]) == ("digraph penstock {", "}")
    assert '  "main.paid" [style="dashed"];' in dot
    assert '  "main.paid" -> "main.paid_count";' in dot
    found = json.loads(penstock("ls", "--graph", "--json").out)
    assert {"from": "staging.orders", "to": "main.paid"} in found["edges"]
    assert {"dataset": "main.paid", "kind": "temporary_view"} in found["datasets"]
    wrong = penstock("ls", "--graph", "png")
    assert (wrong.code, "'png' is not one of 'text', 'mermaid', 'dot'" in wrong.err) == (2, True)


def test_a_long_chain_and_a_wide_graph_stay_short() -> None:
    names = [DatasetName("main", f"t{number}") for number in range(5000)]
    chain = DatasetGraph(dict.fromkeys(names, "table"), dict(zip(names, ([name] for name in names[1:]), strict=False)))
    assert len(chain.draw("text").splitlines()) == 5000
    # A ladder: each reads both of the step before, so that there are 2 ** 50 ways through it.
    steps = [(DatasetName("main", f"a{step}"), DatasetName("main", f"b{step}")) for step in range(50)]
    readers = {name: following for step, following in pairwise(steps) for name in step}
    ladder = DatasetGraph({name: "table" for step in steps for name in step}, readers)
    lines = ladder.draw("text").splitlines()
    assert len(lines) < 250
    assert any(line.endswith("main.b1  (see above)") for line in lines)


def test_compile_prints_the_sql_as_it_will_run(graph_shop: ProjectFolder, penstock) -> None:
    assert penstock("compile", "paid_count").out == (
        "CREATE OR REPLACE TEMPORARY VIEW paid AS\nSELECT * FROM staging.orders WHERE amount >= 20;\n\n"
        "SELECT count(*) AS n, '20' AS least -- of the paid ones: ${least}\nFROM paid JOIN big_orders USING (id)\n"
    )
    assert ">= 5;" in penstock("compile", "paid_count", "--var", "least=5").out
    found = json.loads(penstock("compile", "main.paid_count", "--json").out)
    assert found["views"][0]["dataset"] == "main.paid"
    assert found["location"] == "transformations/views.sql:3:1"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("big_orders", "main.big_orders is defined in Python (transformations/big.py:4)"),
        ("orders", "staging.orders is a staging dataset, which has no query"),
        ("paid_cont", "there is no dataset paid_cont; did you mean `paid_count`?"),
    ],
)
def test_what_has_no_sql_is_named(graph_shop: ProjectFolder, penstock, name: str, said: str) -> None:
    answer = penstock("compile", name)
    assert answer.code == 2
    assert said in answer.err


def test_show_lists_readers_too(graph_shop: ProjectFolder, penstock) -> None:
    assert "read by  main.big_count, main.paid_count\n" in penstock("show", "big_orders").out
    assert "read by  -\n" in penstock("show", "totals").out
    assert json.loads(penstock("show", "paid", "--json").out)["readers"] == ["main.paid_count"]
    assert json.loads(penstock("ls", "--json").out)[-1]["tags"] == ["nightly"]
