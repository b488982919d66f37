"""What a person may ask for, and what each mistake is told."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import DatasetName
from penstock.model.partitions.refs import PartitionError, PartitionRef, split_ref
from penstock.model.partitions.requests import Slice, read_request
from penstock.model.partitions.schemes import ColumnScheme, ListScheme, daily, hourly, monthly

NOW = datetime(2024, 4, 1, 12, tzinfo=UTC)
SCHEMES = {
    DatasetName("main", "sales"): daily("2024-01-01"),
    DatasetName("main", "old"): daily("2020-01-01", "2020-12-31"),
    DatasetName("main", "clicks"): hourly("2024-03-30T00"),
    DatasetName("main", "bills"): monthly("2023-11"),
    DatasetName("main", "shops"): ListScheme("region", ("eu", "us/east", "a=b")),
    DatasetName("main", "events"): ColumnScheme("tenant"),
    DatasetName("main", "plain"): None,
    DatasetName("main", "later"): daily("2030-01-01"),
}


def read(text: str) -> Slice | PartitionRef | DatasetName:
    return read_request(text, SCHEMES, NOW, "main")


@pytest.mark.parametrize(
    ("text", "shown", "count"),
    [
        ("main.sales/date=2024-01-31", "main.sales/date=2024-01-31", 1),
        ("sales/date=2024-01-01..2024-03-31", "main.sales/date=2024-01-01..2024-03-31", 91),
        ("sales", "main.sales/date=2024-01-01..2024-03-31", 91),
        ("old", "main.old/date=2020-01-01..2020-12-31", 366),
        ("clicks/hour=2024-03-31T22..2024-04-01T03", "main.clicks/hour=2024-03-31T22..2024-04-01T03", 6),
        ("bills/month=2023-12..2024-02", "main.bills/month=2023-12..2024-02", 3),
        ("shops/region=us%2Feast", "main.shops/region=us/east", 1),
        ("later", "main.later: no partitions", 0),
    ],
)
def test_a_request_names_these_partitions(text: str, shown: str, count: int) -> None:
    found = read(text)
    assert isinstance(found, Slice)
    assert (str(found), len(found), len(list(found))) == (shown, count, count)


def test_a_value_of_a_column_and_a_dataset_without_partitions_are_taken_as_they_are() -> None:
    assert read("events/tenant=a%25") == PartitionRef(DatasetName("main", "events"), "tenant", "a%")
    assert read("plain") == DatasetName("main", "plain")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("sale/date=2024-01-01", "there is no dataset main.sale; did you mean `main.sales`?", "penstock ls"),
        ("sales/dat=2024-01-01", "main.sales has no partition key 'dat'; did you mean `date`?", "main.sales/date="),
        ("sales/2024-01-01", "sales/2024-01-01: a partition is written as key=value, not '2024-01-01'", "date="),
        ("sales/date=", "a partition is written as key=value", "date="),
        ("sales/date=2024-02-30", "'2024-02-30' is not a valid day", "YYYY-MM-DD"),
        ("sales/date=20240201", "'20240201' is not a valid day", "YYYY-MM-DD"),
        ("sales/date=2024-01-01..", "'' is not a valid day", "YYYY-MM-DD"),
        ("sales/date=2023-12-31", "main.sales has no partition date=2023-12-31: the first is 2024-01-01", "2024-03-31"),
        ("sales/date=2024-04-01", "it has not ended yet; the last is 2024-03-31", "2024-01-01..2024-03-31"),
        ("old/date=2021-01-01", "main.old has no partition date=2021-01-01: the last is 2020-12-31", "2020-01-01"),
        ("sales/date=2024-03-01..2024-01-01", "ends with 2024-01-01, before it starts with 2024-03-01", "2024-01-01.."),
        ("sales/date=2023-01-01..2024-01-01", "has no partition date=2023-01-01", "2024-01-01"),
        ("later/date=2030-01-01", "it has no partitions yet", "the first is 2030-01-01"),
        (
            "shops/region=us/eas",
            "there is no partition region=us/eas; did you mean `us/east`?",
            "there are eu, us/east",
        ),
        ("shops/region=eu..us", "there is no partition region=eu..us", "there are eu"),
        ("plain/date=2024-01-01", "main.plain is not partitioned", "as a whole"),
        ("events", "the partitions of main.events depend on its data", "tenant="),
        ("a-b/date=1", "is not a dataset name", None),
    ],
)
def test_a_mistake_is_named_with_what_to_do(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(PartitionError) as caught:
        read(text)
    assert message in str(caught.value)
    assert (hint or "") in (caught.value.hint or "")
    assert (caught.value.code, caught.value.exit_code) == ("partition", 2)


@given(value=st.text(min_size=1), key=st.sampled_from(["date", "region"]))
def test_a_reference_is_read_back_as_it_was_written(value: str, key: str) -> None:
    ref = PartitionRef(DatasetName("main", "t"), key, value)
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        return
    assert split_ref(str(ref), "other") == (ref.dataset, key, value)
    assert not set("*?") & set(str(ref)), "a filter of the event log would take it for a pattern"


def test_fifty_thousand_partitions_are_counted_at_once_and_written_within_a_second() -> None:
    schemes = {DatasetName("main", "t"): hourly("2018-01-01T00", "2023-09-15T07")}
    begin = time.process_time()
    found = read_request("t", schemes, NOW, "main")
    assert isinstance(found, Slice)
    assert len(found) == 50_000
    counted = time.process_time()
    assert len({str(ref) for ref in found}) == 50_000
    assert counted - begin < 0.2
    assert time.process_time() - begin < 1.0
