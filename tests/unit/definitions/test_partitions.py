"""Partitioned definitions, in Python and in SQL: what they say, and what is refused with the user's line."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from penstock.config.project_file import load_project
from penstock.definitions.loading import load_definitions
from penstock.definitions.parse_cache import ParseCache
from penstock.definitions.sql_files import read_sql_file
from penstock.definitions.sql_parameters import fill_parameters
from penstock.errors import DefinitionError
from penstock.model.names import DatasetName
from penstock.model.partitions.declared import Partition, Partitioning
from penstock.model.partitions.mappings import SAME, AllPartitions, ByColumn, Window
from penstock.model.partitions.schemes import ListScheme, TimeScheme
from penstock.model.spec import DatasetSpec
from penstock.pipelines import PartitionContext

SALES = DatasetName("staging", "sales")
HEAD = "from penstock import pipelines as dp\n"


def load(folder: Path, **files: str) -> dict[str, DatasetSpec]:
    (folder / "penstock.yml").write_text("name: shop\n")
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        file = folder / "transformations" / f"{stem}.{suffix}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(HEAD + text if suffix == "py" else text)
    specs = load_definitions(load_project(folder / "penstock.yml", environment={}))
    return {spec.name.name: spec for spec in specs}


def partitioning(folder: Path, **files: str) -> Partitioning:
    (spec,) = load(folder, **files).values()
    assert spec.partitioning is not None
    return spec.partitioning


def test_a_daily_table_in_python(tmp_path: Path) -> None:
    found = partitioning(
        tmp_path,
        a_py="""
@dp.table(
    partition_by=dp.daily(start="2024-01-01", time_zone="Europe/Paris"),
    partition_inputs={"staging.sales": dp.by_column("day"), "rates": dp.all_partitions(), "daily": dp.window(before=6)},
    batch=True,
)
def daily_sales(ctx):
    days = ctx.values
    dp.read("rates"), dp.read("daily")
    return dp.read("staging.sales").where(f"day >= '{ctx.partitions[0].start}'")
""",
    )
    assert isinstance(found.scheme, TimeScheme)
    assert (found.scheme.unit.name, found.key, str(found.scheme.zone), found.takes_many) == (
        "day",
        "date",
        "Europe/Paris",
        True,
    )
    main = {name: DatasetName("main", name) for name in ("rates", "daily")}
    assert found.inputs == {SALES: ByColumn("day"), main["rates"]: AllPartitions(), main["daily"]: Window(6)}


def test_the_context_does_not_make_a_definition_untraced(tmp_path: Path) -> None:
    text = """
@dp.table(partition_by=dp.daily(start="2024-01-01"))
def daily_sales(ctx):
    return dp.read("staging.sales").where(f"day = '{ctx.partition.value}'")
"""
    (spec,) = load(tmp_path, a_py=text).values()
    assert (spec.untraced, spec.inputs) == ((), (SALES,))
    (later,) = load(tmp_path, a_py=text.replace("2024-01-01", "2023-01-01")).values()
    assert later.fingerprint == spec.fingerprint


def test_a_daily_table_in_sql(tmp_path: Path) -> None:
    text = """CREATE MATERIALIZED VIEW daily_sales
PARTITIONED BY DAY (date) START '2024-01-01' END '2024-02-01' ZONE 'Europe/Paris' BATCH
READS staging.sales BY COLUMN (day) READS daily WINDOW 6 READS rates ALL READS hours SAME
AS SELECT day AS date FROM staging.sales, daily, rates, hours WHERE day >= :partition_start AND day < :partition_end"""
    found = partitioning(tmp_path, a_sql=text)
    assert isinstance(found.scheme, TimeScheme)
    assert (found.scheme.write(found.scheme.start), found.scheme.write(found.scheme.end or 0)) == (
        "2024-01-01",
        "2024-02-01",
    )
    assert (str(found.scheme.zone), found.takes_many) == ("Europe/Paris", True)
    assert [found.inputs[DatasetName("main", name)] for name in ("daily", "rates", "hours")] == [
        Window(6),
        AllPartitions(),
        SAME,
    ]
    assert found.inputs[SALES] == ByColumn("day")


def test_other_units_and_lists_in_sql(tmp_path: Path) -> None:
    listed = "CREATE MATERIALIZED VIEW a PARTITIONED BY LIST (region) VALUES ('EU', 'US') AS SELECT 1 AS region"
    assert partitioning(tmp_path, a_sql=listed).scheme == ListScheme("region", ("EU", "US"))
    for unit, start in (("HOUR", "2024-01-01T00"), ("MONTH", "2024-01")):
        text = f"CREATE MATERIALIZED VIEW a PARTITIONED BY {unit} (t) START '{start}' AS SELECT 1 AS t"
        scheme = partitioning(tmp_path, a_sql=text).scheme
        assert isinstance(scheme, TimeScheme)
        assert (scheme.unit.name, scheme.write(scheme.start)) == (unit.lower(), start)


def test_the_values_of_a_column_are_partitions(tmp_path: Path) -> None:
    text = (
        "CREATE MATERIALIZED VIEW a PARTITIONED BY COLUMN (region) READS staging.sales BY COLUMN (country) AS SELECT 1"
    )
    found = partitioning(tmp_path, a_sql=text)
    assert (found.key, found.values_of, found.inputs) == ("region", SALES, {SALES: ByColumn("country")})
    assert found.with_values(["EU", "US"]).scheme == ListScheme("region", ("EU", "US"))
    with pytest.raises(DefinitionError, match="0 inputs are mapped by a column"):
        load(tmp_path, a_sql="CREATE MATERIALIZED VIEW a PARTITIONED BY COLUMN (region) AS SELECT 1")
    (tmp_path / "transformations/a.sql").unlink()
    with pytest.raises(DefinitionError, match="0 inputs are mapped by a column"):
        load(
            tmp_path, a_py="\n@dp.table(partition_by=dp.partition_column('region'))\ndef a(ctx): return dp.read('b')\n"
        )


def test_the_clauses_come_from_the_cache_unchanged() -> None:
    text = "CREATE MATERIALIZED VIEW a PARTITIONED BY DAY (d) START '2024-01-01' READS b WINDOW 2 AS SELECT d FROM b"
    cache = ParseCache(None)
    assert read_sql_file("a.sql", text, {}, cache) == read_sql_file("a.sql", text, {}, cache)


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("PARTITIONED BY DAY (d)", "expected START, not 'AS'"),
        ("PARTITIONED BY DAY (d) START 2024", "expected the first partition in quotes"),
        ("PARTITIONED BY DAY (d) START '2024-13-01'", "'2024-13-01' is not a valid day"),
        ("PARTITIONED BY DAY (d) START '2024-01-02' END '2024-01-01'", "before they start"),
        ("PARTITIONED BY DAY (d) START '2024-01-01' ZONE 'Mars'", "unknown time zone 'Mars'"),
        ("PARTITIONED BY LIST (d) VALUES ()", "expected a value in quotes"),
        ("READS b SAME", "READS needs PARTITIONED BY"),
        ("PARTITIONED BY DAY (d) START '2024-01-01' READS b SOMEHOW", "expected how b is read"),
        ("PARTITIONED BY DAY (d) START '2024-01-01' READS b WINDOW x", "expected how many partitions"),
        ("PARTITIONED BY DAY (d) START '2024-01-01' CLUSTER BY (e)", "not both"),
        ("PARTITIONED BY DAY (d) START '2024-01-01' PARTITIONED BY (e)", "given twice"),
        ("PARTITIONED BY WEEK (d) START '2024-01-01'", "expected what a partition is, not 'WEEK'"),
        (f"PARTITIONED BY LIST (d) VALUES ('{'x' * 300}')", "is a text of 300 characters, which cannot be a partition"),
    ],
)
def test_wrong_clauses_are_refused_with_their_place(tmp_path: Path, clause: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message) as caught:
        load(tmp_path, a_sql=f"CREATE MATERIALIZED VIEW a\n{clause}\nAS SELECT d FROM b")
    assert caught.value.location is not None
    assert caught.value.location.file == "transformations/a.sql"


@pytest.mark.parametrize(
    ("clause", "query", "message"),
    [
        ("PARTITIONED BY DAY (d) START '2024-01-01'", "d = :partitionn", ":partitionn has no value; did you mean"),
        ("PARTITIONED BY DAY (d) START '2024-01-01' BATCH", "d = :partition", ":partition has no value"),
        ("PARTITIONED BY LIST (d) VALUES ('a') BATCH", "d = :partition", None),
        ("PARTITIONED BY LIST (d) VALUES ('a')", "d >= :partition_start", ":partition_start has no value"),
        ("", "d >=:partition_start", ":partition_start has no value"),
        ("", "d = :day", ":day has no value"),
        ("", "d IN (1, :day)", ":day has no value"),
        ("", "d = ?", r"\? has no value"),
        ("", "d = payload:x AND payload:y.z > 1", None),
        ("", "d = '?' AND x = ':day' AND CAST(x AS STRUCT<a:INT, b :INT>) IS NULL -- ? :day", None),
        ("", "transform(m, x -> x:a)[0] = 1 AND `?` = 1", None),
        ("PARTITIONED BY DAY (d) START '2024-01-01'", "d >=:partition_start AND x = ':no' -- :no", None),
        ("", "CAST(x AS STRUCT<partition:INT>) IS NULL AND y = ':partition'", None),
    ],
)
def test_parameters_without_a_value_are_refused(tmp_path: Path, clause: str, query: str, message: str | None) -> None:
    text = f"CREATE MATERIALIZED VIEW a {clause}\nAS SELECT d FROM b\nWHERE {query}"
    if message is None:
        assert load(tmp_path, a_sql=text)
        return
    with pytest.raises(DefinitionError, match=message) as caught:
        load(tmp_path, a_sql=text)
    assert caught.value.location is not None
    assert caught.value.location.line == 3


@pytest.mark.parametrize(
    ("arguments", "signature", "message"),
    [
        ('partition_by=dp.daily(start="2024-02-30")', "ctx", "'2024-02-30' is not a valid day"),
        ('partition_by=dp.daily(start="2024-02-02", end="2024-02-01")', "ctx", "before they start"),
        ('partition_by=dp.daily(start="2024-02-02", time_zone="Mars")', "ctx", "unknown time zone"),
        ('partition_by=dp.daily(start="2024-02-02", key="my day")', "ctx", "cannot be the name"),
        ('partition_by="day"', "ctx", "partition_by must be dp.daily"),
        ('partition_by=dp.partition_list("region", "EU")', "ctx", "must be a list of strings"),
        ("batch=True", "", "batch needs partition_by"),
        (
            'partition_by=dp.daily(start="2024-01-01"), cluster_by=["x"]',
            "ctx",
            "allows no partition_cols or cluster_by",
        ),
        ('partition_by=dp.daily(start="2024-01-01"), partition_inputs={"a": "day"}', "ctx", "must be a dict"),
        ('partition_by=dp.daily(start="2024-01-01")', "", "has no parameter: write `def name"),
        ('partition_by=dp.daily(start="2024-01-01")', "ctx, other", "called with one argument"),
        ("", "ctx", "called without arguments"),
    ],
)
def test_wrong_declarations_are_refused_with_their_line(
    tmp_path: Path, arguments: str, signature: str, message: str
) -> None:
    with pytest.raises(DefinitionError, match=message) as caught:
        load(tmp_path, a_py=f"\n@dp.table({arguments})\ndef a({signature}):\n    return dp.read('staging.sales')\n")
    assert caught.value.location is not None
    assert caught.value.location.file == "transformations/a.py"


def test_partition_by_belongs_to_tables(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="has no parameter 'partition_by'"):
        load(tmp_path, a_py='\n@dp.temporary_view(partition_by=dp.daily(start="2024-01-01"))\ndef a(ctx): ...\n')


def test_a_context_of_many_partitions_has_no_single_one() -> None:
    two = tuple(Partition("date", f"2024-01-0{day}") for day in (1, 2))
    assert PartitionContext(two[:1]).partition.value == str(two[0]) == "2024-01-01"
    assert PartitionContext(two).values == ["2024-01-01", "2024-01-02"]
    with pytest.raises(DefinitionError, match="there are 2"):
        _ = PartitionContext(two).partition


def test_parameters_become_literals() -> None:
    values = {
        "partition_start": date(2024, 1, 1),
        "partition_end": datetime(2024, 1, 2, 5, tzinfo=UTC),
        "partition": "O'x",
    }
    query = "SELECT ':partition', a:b -- :partition_end\nFROM t WHERE d >= :partition_start"
    query += " AND d<:partition_end AND p = :partition"
    assert fill_parameters(query, values) == (
        "SELECT ':partition', a:b -- :partition_end\nFROM t WHERE d >= DATE '2024-01-01' "
        "AND d<TIMESTAMP '2024-01-02 05:00:00+00:00' AND p = 'O\\'x'"
    )
    assert fill_parameters("SELECT :other", values) == "SELECT :other"
