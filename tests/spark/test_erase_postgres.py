"""An erasure with an event log in PostgreSQL: what named the person there is redacted, and its tables are searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from contract.events import Maker
from contract.test_eventlog_postgres import fresh_schema
from penstock.engine import open_engine
from penstock.eventlog.opening import open_event_log
from penstock.model.events import BuildRequest
from penstock.model.status import BuildStatus
from tests.spark.erasure_projects import ANN, BOB, SETTINGS, make_people
from tests.spark.tables import forget_tables
from tests.spark.test_erase import CAUTION, find_bytes

pytestmark = pytest.mark.spark


@pytest.mark.deep
def test_the_event_log_is_redacted_and_searched(spark: Any, tmp_path: Path, postgres_server: str) -> None:
    uri = fresh_schema(postgres_server)
    project = make_people(tmp_path / "people")
    (project.root / "penstock.yml").write_text(f'{SETTINGS}event_log: "{uri}"\n')
    with open_engine(project.root, environment={}) as engine:
        assert not engine.run().has_failed
        with open_event_log(uri) as log:
            maker = Maker()
            texts = [f"{who} is missing" for who in (ANN, BOB)]
            log.append([maker.event("b", BuildRequest(BuildStatus.FAILED, (), text)) for text in texts])
        assert ANN in everything(uri)
        engine.erasure.add("customer", [f"email={ANN}"], reason="DSR-17")
        (receipt,) = engine.erasure.erase(caution=CAUTION).receipts
        assert receipt.events_redacted == 1
        (place,) = (each for each in receipt.scan.places if each.place == "event log")
        assert place.files > 0
        assert ANN not in everything(uri)
        assert BOB in everything(uri)
        assert find_bytes(project.root, ANN, "Ann Miller") == []
        assert engine.erasure.verify("customer", [f"email={ANN}"]).is_clean

        # what somebody writes there later is found
        with open_event_log(uri) as log:
            log.append([Maker(2).event("b", BuildRequest(BuildStatus.FAILED, (), f"{ANN} again"))])
        found = engine.erasure.verify("customer", [f"email={ANN}"])
        assert {hit.place for hit in found.hits} == {"event log"}
    forget_tables(spark)


def everything(uri: str) -> str:
    """Every text of every table of the log."""
    with psycopg.connect(uri) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        queries = [sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(name)) for (name,) in tables]
        rows = [connection.execute(query).fetchall() for query in queries]
    return repr(rows)
