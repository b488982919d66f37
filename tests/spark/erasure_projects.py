"""A project in which a person has copies everywhere: raw and change files, staging, quarantine, history, derived tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.engine import Engine, open_engine
from tests.projects import ProjectFolder
from tests.spark.flow_projects import write_feed

SECRET = "a secret of this project, long enough"
SETTINGS = f"""
name: shop
staging:
  customers: {{columns: {{age: int}}, on_drift: quarantine}}
erasure:
  secrets: {{"1": "{SECRET}"}}
  subjects:
    customer:
      staging.customers: {{key: email, personal: [name], normal_form: lower}}
      main.people: {{key: email, personal: [name, city]}}
"""
DEFINITIONS = """
from penstock import pipelines as dp

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    target="people",
    source=dp.change_files("feeds/people", schema="email string, name string, city string, ts int, gone boolean"),
    keys=["email"],
    sequence_by="ts",
    apply_as_deletes="gone",
    except_column_list=["ts", "gone"],
    stored_as_scd_type=2,
)


@dp.materialized_view
def ages():
    return dp.read("staging.customers").select("email", "age")


@dp.materialized_view
def cities():
    return dp.read("people").groupBy("city").count()
"""
ANN, BOB, ZOE = "ann.miller@example.org", "bob@example.org", "zoe.long.name.of.a.person.with.many.letters@example.org"


def make_people(root: Path) -> ProjectFolder:
    """Ann is in every place; Bob and Zoe must not be harmed."""
    project = ProjectFolder(root).configure(SETTINGS)
    project.define("people.py", DEFINITIONS)
    names = {ANN: "Ann Miller", BOB: "Bob", ZOE: "Zoe"}
    project.raw("customers", "0001", {"email": [ANN, BOB, ZOE], "name": list(names.values()), "age": [31, 32, 33]})
    feed(project, "1", (ANN, "Rome", 1), (BOB, "Oslo", 1), (ZOE, "Bonn", 1), (ANN, "Rome", 2), (ANN, "Bonn", 5))
    return project


def add_odd_rows(project: ProjectFolder) -> None:
    """Rows that do not fit, for the quarantine."""
    values = {"email": [ANN.upper(), BOB], "name": ["Ann Miller", "Bob"], "age": ["thirty", "forty"]}
    project.raw("customers", "0002", values)


def feed(project: ProjectFolder, batch: str, *changes: tuple[str, str | None, int]) -> None:
    """Change events; without a city, a delete."""
    lines: list[dict[str, Any]] = []
    for email, city, ts in changes:
        name = email.split("@", maxsplit=1)[0].replace(".", " ").title()
        lines.append({"email": email, "name": name, "city": city, "ts": ts, "gone": city is None})
    write_feed(project, "people", batch, *lines)


def open_people(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={})


EVERYWHERE = """
from penstock import pipelines as dp

for name, source in (
    ("csv_people", dp.change_files("feeds/csv", format="csv", schema="email string, name string, city string, ts int")),
    ("debezium_people", dp.change_files("feeds/debezium", envelope="debezium")),
    ("followers", "tracked"),
):
    dp.create_streaming_table(name)
    dp.create_auto_cdc_flow(
        target=name,
        source=source,
        keys=["email"],
        sequence_by="age" if name == "followers" else "_change.ts_ms" if name == "debezium_people" else "ts",
        except_column_list=[] if name != "csv_people" else ["ts"],
        stored_as_scd_type=1 if name == "followers" else 2,
    )


@dp.table(table_properties={"delta.enableChangeDataFeed": "true"})
def tracked():
    return dp.read("staging.customers").select("email", "name", "age")
"""
PERSONAL = ("customers", "people", "csv_people", "debezium_people", "tracked", "followers", "ages")


def make_everywhere(root: Path) -> ProjectFolder:
    """The same, and Ann in CSV and Debezium feeds, in a table with a Delta change data feed, and in one that follows it."""
    project = make_people(root)
    more = "".join(f"      main.{name}: {{key: email, personal: name}}\n" for name in PERSONAL[2:6])
    (root / "penstock.yml").write_text(SETTINGS + more)
    project.define("everywhere.py", EVERYWHERE)
    write_feeds(project, "1")
    return project


def write_feeds(project: ProjectFolder, batch: str) -> None:
    """CSV and Debezium files with everybody."""
    csv, debezium = project.root / "feeds/csv", project.root / "feeds/debezium"
    csv.mkdir(exist_ok=True)
    debezium.mkdir(exist_ok=True)
    lines, envelopes = ["email,name,city,ts"], []
    for number, (email, name) in enumerate(((ANN, "Ann Miller"), (BOB, "Bob"), (ZOE, "Zoe")), start=1):
        lines.append(f'{email},"{name}",Rome,{number}')
        row = {"email": email, "name": name}
        envelopes.append({"before": None, "after": row, "op": "c", "ts_ms": number, "source": {"lsn": number}})
        envelopes.append(
            {"before": row, "after": {**row, "city": "Ulm"}, "op": "u", "ts_ms": 10 + number, "source": {"lsn": 9}}
        )
    (csv / f"{batch}.csv").write_text("\n".join(lines) + "\n")
    (debezium / f"{batch}.json").write_text("".join(json.dumps(each) + "\n" for each in envelopes))
