"""An error about something that a query reads names the place of the name."""

from __future__ import annotations

import pytest
from tests.unit.definitions.conftest import Folder

from penstock.definitions.checking import check_inputs
from penstock.errors import DefinitionError

CREATE = "CREATE MATERIALIZED VIEW t AS"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"-- first\n{CREATE}\nSELECT 1\nFROM nosuch", "4:6"),
        (f"{CREATE} WITH a AS (SELECT * FROM Nosuch) SELECT * FROM a", "1:56"),
        (f"{CREATE}\nSELECT nosuch.a FROM x.nosuch JOIN `main`.nosuch ON true", "2:36"),
        (f"{CREATE}\nSELECT 'ä' FROM IDENTIFIER('nosuch')", "1:1"),
        (f"{CREATE} SELECT ${{n}} AS a\nFROM nosuch", "2"),
    ],
)
def test_an_unknown_table_is_reported_where_the_query_names_it(folder: Folder, text: str, place: str) -> None:
    folder.write("transformations/x.sql", "CREATE MATERIALIZED VIEW x.nosuch AS SELECT 1")
    folder.vars = {"n": 1}
    folder.write("transformations/a.sql", text)
    with pytest.raises(DefinitionError, match=rf"a\.sql:{place}: main\.t reads main\.nosuch"):
        check_inputs(folder.load(), set())


def test_a_view_that_is_read_in_a_database_is_reported_where_it_is_read(folder: Folder) -> None:
    folder.write("transformations/a.sql", f"CREATE TEMPORARY VIEW v AS SELECT 1;\n{CREATE}\nSELECT * FROM main.v")
    with pytest.raises(DefinitionError, match=r"a\.sql:3:15: main\.v is a temporary view, which is in no database"):
        folder.load()
