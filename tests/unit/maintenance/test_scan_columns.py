"""Short and typed values count only in their declared columns, in every format that names its columns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from tests.scanning import ANN, PLACE, check_readable, found_in, needle, scan

from penstock.maintenance.scan.needles import Column, Needle, Role, Survivors
from penstock.maintenance.scan.results import Search

FORTY_TWO = needle("42", 42, columns=("customer_id",))


@pytest.mark.parametrize(
    "record",
    [
        {"customer_id": 42},
        {"customer_id": "42"},
        {"customer_id": 42.0},
        {"CUSTOMER_ID": 42},
        {"after": {"customer_id": 42}},
        {"rows": [{"customer_id": [41, 42]}]},
        {"payload": json.dumps({"before": {"customer_id": 42}})},
        {"add": {"stats": json.dumps({"minValues": {"customer_id": 42}})}},
        {"add": {"partitionValues": {"customer_id": "42"}}},
    ],
)
def test_a_short_value_is_found_in_its_column_of_json(tmp_path: Path, record: dict[str, object]) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(record) + "\n")
    assert found_in(scan(tmp_path, FORTY_TWO)) == {("rows.json", 0)}


@pytest.mark.parametrize(
    "record",
    [{"amount": 42}, {"customer_id": 420}, {"customer_id": "x42"}, {"customer_id": {"x": 42}}, {"note": "42"}],
)
def test_a_short_value_is_not_found_elsewhere(tmp_path: Path, record: dict[str, object]) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(record) + "\n42\n")
    result = scan(tmp_path, FORTY_TWO)
    assert result.is_clean
    assert result.needles == (Search.COLUMNS,)


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("customer_id,amount\n41,42\n", False),
        ("customer_id,amount\n42,1\n", True),
        ("amount;Customer_ID\n1;42\n", True),
        ("amount\tcustomer_id\n1\t42.00\n", True),
        ('note,customer_id\n"a,b",42\n', True),
        ('note,customer_id\n"two\nlines ""x""",42\n', True),
        ('note,customer_id\n"an \\" escaped, quote",42\n', True),
        ('note\n"{""customer_id"": 42}"\n', True),
        ("order.customer_id\n42\n", True),
        ("customer_id\n0042\n", False),
    ],
)
def test_a_short_value_is_found_in_its_column_of_csv(tmp_path: Path, text: str, *, is_there: bool) -> None:
    (tmp_path / "rows.csv").write_text(text)
    result = scan(tmp_path, FORTY_TWO)
    assert bool(result.hits) == is_there
    check_readable(result)


@pytest.mark.parametrize(
    ("given", "stored", "is_equal"),
    [
        (needle("42", Decimal("42.00"), columns=("c",)), 42, True),
        (needle("42", "42", columns=("c",)), 42, True),
        (needle("4.5", Decimal("4.50"), columns=("c",)), "4.500", True),
        (needle("true", True, columns=("c",)), True, True),
        (needle("true", True, columns=("c",)), "true", True),
        (needle("true", True, columns=("c",)), 1, False),
        (needle("1990-05-17", date(1990, 5, 17), columns=("c",)), "1990-05-17", True),
        (needle("1990-05-17", date(1990, 5, 17), columns=("c",)), 7441, True),
        (needle("1990-05-17", date(1990, 5, 17), columns=("c",)), "1990-05-18", False),
        (
            needle("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), columns=("c",)),
            1704164645000,
            True,
        ),
        (
            needle("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), columns=("c",)),
            "2024-01-02T04:04:05+01:00",
            True,
        ),
        (
            needle("1704164645678901us", datetime(2024, 1, 2, 3, 4, 5, 678901), columns=("c",)),
            "2024-01-02T03:04:05.678Z",
            True,
        ),
        (
            needle("1704164645678901us", datetime(2024, 1, 2, 3, 4, 5, 678901), columns=("c",)),
            "2024-01-02T03:04:05.677Z",
            False,
        ),
        (needle("0x1.54p5", 42.5, columns=("c",)), "42.50", True),
        (needle("José", "José", columns=("c",)), "Jose\u0301", True),
        (needle("0102", b"\x01\x02", columns=("c",)), "AQI=", True),
        (needle("abc", "abc", columns=("c",)), "ABC", False),
        (needle("12345678901", 12345678901, columns=("c",)), 12345678901.0, True),
    ],
)
def test_equal_values_are_equal_in_any_spelling(
    tmp_path: Path, given: Needle, stored: object, *, is_equal: bool
) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"c": stored}))
    assert bool(scan(tmp_path, given).hits) == is_equal


def test_a_date_is_not_searched_as_text(tmp_path: Path) -> None:
    (tmp_path / "spark.log").write_text("1990-05-17 12:00:00 started\n")
    born = needle("1990-05-17", date(1990, 5, 17), columns=("born",))
    result = scan(tmp_path, born)
    assert result.is_clean
    assert result.needles == (Search.COLUMNS,)


def test_a_column_counts_only_where_it_is_declared(tmp_path: Path) -> None:
    for folder in ("customers", "orders", "customers_old"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.json").write_text('{"id": 42}')
    here = needle("42", 42, columns=(Column(("id",), PLACE, "customers"),))
    assert found_in(scan(tmp_path, here)) == {("customers/rows.json", 0)}
    elsewhere = needle("42", 42, columns=(Column(("id",), "another place"),))
    assert scan(tmp_path, elsewhere).hits == ()


def test_a_value_that_a_survivor_shares_is_not_searched_but_a_key_always_is(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"name": "Ann Miller", "city": "Berlin", "id": "CAND-000001"}))
    needles = [
        needle("Ann Miller", role=Role.PERSONAL),
        needle("Berlin", columns=("city",), role=Role.PERSONAL),
        needle("CAND-000001", role=Role.KEY),
    ]
    shared = Survivors(shared=frozenset({"Ann Miller", "Berlin", "CAND-000001"}))
    result = scan(tmp_path, *needles, survivors=shared)
    assert found_in(result) == {("rows.json", 2)}
    assert result.needles == (Search.SHARED, Search.SHARED, Search.BYTES)
    assert found_in(scan(tmp_path, *needles)) == {("rows.json", number) for number in range(3)}


def test_a_short_value_without_a_column_is_said_not_to_be_searched(tmp_path: Path) -> None:
    assert scan(tmp_path, "42").needles == (Search.NOTHING,)


def test_a_value_has_other_spellings(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"email": ANN.upper()}))
    assert scan(tmp_path, ANN).hits == ()
    assert found_in(scan(tmp_path, needle(ANN, ANN.upper()))) == {("rows.json", 0)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("12345678.90"), "paid 12345678.90 today"),
        (1234567890123, "order 1234567890123"),
        (datetime(2024, 1, 2, 3, 4, 5, 678901), "at 2024-01-02 03:04:05.678901"),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), 'seen "2024-01-02T03:04:05.000Z"'),
    ],
)
def test_a_long_number_or_time_is_searched_as_it_is_written(tmp_path: Path, value: object, text: str) -> None:
    (tmp_path / "spark.log").write_text(text)
    assert found_in(scan(tmp_path, needle("canonical text", value))) == {("spark.log", 0)}
