"""Which partitions of a derived dataset are due, as a table of cases."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from builders import make_item, make_spec, to_name
from penstock.errors import DefinitionError
from penstock.kinds.derived.decide import DerivedItem
from penstock.kinds.derived.partition_decide import decide_partitions
from penstock.kinds.derived.partition_facts import check_mapped, to_stale
from penstock.kinds.derived.progress import CODEC, DerivedProgress, PartitionProgress
from penstock.kinds.derived.values import DerivedObservation, PartitionFacts, resolve_views
from penstock.model.partitions.declared import DUE, Partitioning, PartitionRequest
from penstock.model.partitions.mappings import SAME, AllPartitions, ByColumn, Window
from penstock.model.partitions.ordinals import to_ordinals
from penstock.model.partitions.schemes import ListScheme, daily, hourly
from penstock.model.plan import Action, Item, Upstream, Wishes
from penstock.model.progress import Damage, InputMark, Progress, TableState
from penstock.model.schema import Column, Schema

SCHEME = daily("2024-01-01", "2024-01-10")
START = SCHEME.start
ALL = range(START, START + 10)
SALES, RATES = to_name("staging.sales"), to_name("rates")
MARK = InputMark(5, 0)


def observe(current: range | None = ALL, *, takes_many: bool = True, **changes: Any) -> DerivedObservation:
    """A daily table over a staging table, with rates that are read as a whole."""
    mapped = Partitioning(SCHEME, {SALES: ByColumn("day")}, takes_many)
    spec = replace(make_spec("daily", "staging.sales rates"), partitioning=mapped)
    resolved = resolve_views(spec, {})
    known = DerivedProgress(
        {str(SALES): MARK, str(RATES): MARK}, resolved.definition, "s", None, PartitionProgress("date")
    )
    state = TableState(version=3, number=2, progress=Progress(2, (2,), known))
    facts = PartitionFacts(
        (ALL,), to_ordinals([current or range(0)]), changes.pop("changed", {}), changes.pop("unknown", ())
    )
    made = DerivedObservation(resolved, state, "s", partitions=facts)
    return replace(made, **changes)


def decide(
    given: DerivedObservation, *items: Item, sales: int = 5, rates: int = 5, wishes: Wishes | None = None
) -> list[DerivedItem]:
    versions = {SALES: sales, RATES: rates}
    inputs = {
        name: Upstream(
            name,
            TableState(version=version, data_version=version, data_at=0),
            tuple(item for item in items if item.dataset == name),
        )
        for name, version in versions.items()
    }
    assert given.partitions is not None
    return list(decide_partitions(given, given.partitions, wishes or Wishes(), inputs))


def shown(items: list[DerivedItem]) -> list[tuple[str, str]]:
    return [(item.id.removeprefix("main."), " ".join(reason.code for reason in item.reasons)) for item in items]


def days(first: int, last: int) -> range:
    """Days of January 2024."""
    return range(START + first - 1, START + last)


@pytest.mark.parametrize(
    ("given", "versions", "expected"),
    [
        (observe(), {}, [("daily", "up_to_date")]),
        (observe(days(1, 8)), {}, [("daily/date=2024-01-09..2024-01-10", "not_built")]),
        (observe(state=TableState()), {}, [("daily/date=2024-01-01..2024-01-10", "first_build")]),
        (observe(settings="other"), {}, [("daily/date=2024-01-01..2024-01-10", "settings_changed")]),
        (
            observe(state=TableState(version=1, damage=Damage("foreign_write", "by another"))),
            {},
            [("daily/date=2024-01-01..2024-01-10", "foreign_write")],
        ),
        (observe(changed={SALES: (days(4, 4),)}), {"sales": 6}, [("daily/date=2024-01-04", "input_changed")]),
        (
            observe(days(1, 9), changed={SALES: (days(4, 4),)}),
            {"sales": 6},
            [("daily/date=2024-01-04,2024-01-10", "not_built input_changed")],
        ),
        (observe(changed={SALES: ()}), {"sales": 6}, [("daily", "up_to_date")]),
        (
            observe(changed={SALES: (range(1 << 60),)}, unknown=(SALES,)),
            {"sales": 6},
            [("daily/date=2024-01-01..2024-01-10", "input_changed")],
        ),
        (
            replace(observe(), partitions=PartitionFacts((ALL,), (ALL,), invalid=(("wrong", (days(2, 3),)),))),
            {},
            [("daily/date=2024-01-02..2024-01-03", "invalidated")],
        ),
        (observe(), {"rates": 6}, [("daily/date=2024-01-01..2024-01-10", "input_changed")]),
    ],
)
def test_each_situation_has_its_partitions(given: DerivedObservation, versions: Any, expected: object) -> None:
    found = decide(given, **versions)
    assert shown(found) == expected
    assert all(item.is_parallel and item.upstream for item in found if item.parts)


def test_one_by_one_or_in_batches() -> None:
    single = decide(observe(days(1, 7), takes_many=False))
    assert [item.parts for item in single] == [("date=2024-01-08",), ("date=2024-01-09",), ("date=2024-01-10",)]
    assert next(item.refs for item in single) == ("main.daily/date=2024-01-08",)
    last_first = Wishes(partitions=PartitionRequest(chunk=2, is_descending=True))
    batches = decide(observe(days(1, 7)), wishes=last_first)
    assert [item.parts for item in batches] == [("date=2024-01-10",), ("date=2024-01-09", "date=2024-01-08")]


def test_only_what_is_wanted_is_built() -> None:
    wanted = Wishes(partitions=PartitionRequest((days(2, 3),)))
    assert shown(decide(observe(state=TableState()), wishes=wanted)) == [
        ("daily/date=2024-01-02..2024-01-03", "first_build")
    ]
    assert shown(decide(observe(), wishes=wanted)) == [("daily", "up_to_date")]
    again = replace(wanted, full_refresh=True)
    assert shown(decide(observe(), wishes=again)) == [("daily/date=2024-01-02..2024-01-03", "full_refresh")]


def test_new_rows_of_this_run_are_looked_at_when_they_are_there() -> None:
    append = make_item("staging.sales", action=Action.APPEND)
    found = decide(observe(days(1, 9)), append)
    assert shown(found) == [("daily/date=2024-01-10", "not_built"), ("daily", "input_will_change")]
    assert (found[1].parts, found[1].is_parallel, found[1].work.request) == ((), False, DUE)
    assert "staging.sales (append)" in found[1].reasons[0].text
    assert shown(decide(observe(state=TableState()), append)) == [("daily/date=2024-01-01..2024-01-10", "first_build")]
    rates = decide(observe(), make_item("rates", action=Action.RECOMPUTE))
    assert shown(rates) == [("daily/date=2024-01-01..2024-01-10", "input_will_change")]


def test_an_input_that_cannot_be_brought_up_to_date_is_an_obstacle() -> None:
    assert shown(decide(observe(), make_item("rates", action=Action.SKIP))) == [("daily", "upstream_error")]


def test_before_the_first_partition_has_ended_there_is_nothing() -> None:
    facts = PartitionFacts(())
    given = observe(state=TableState(), partitions=facts)
    assert shown(decide(given)) == [("daily", "no_partitions")]


def partitioned_pair(mapping: Any, *, chunk: int = 1) -> list[DerivedItem]:
    """A weekly sum over a daily table whose partitions are all built in this run, one by one."""
    upper = Partitioning(SCHEME, {}, takes_many=False)
    source = replace(make_spec("daily", "staging.sales"), partitioning=upper)
    observed = DerivedObservation(resolve_views(source, {}), TableState(), "s", partitions=PartitionFacts((ALL,)))
    read = {SALES: Upstream(SALES, TableState(version=1))}
    items = decide_partitions(observed, observed.partitions or PartitionFacts(()), Wishes(), read)
    lower = Partitioning(SCHEME, {to_name("daily"): mapping}, takes_many=True)
    reader = replace(make_spec("weekly", "daily"), partitioning=lower)
    given = DerivedObservation(resolve_views(reader, {}), TableState(), "s", partitions=PartitionFacts((ALL,)))
    wishes = Wishes(partitions=PartitionRequest(chunk=chunk))
    upstream = {to_name("daily"): Upstream(to_name("daily"), TableState(), tuple(items), SCHEME)}
    return list(decide_partitions(given, given.partitions or PartitionFacts(()), wishes, upstream))


def test_a_partition_waits_for_the_partitions_that_it_reads() -> None:
    same = partitioned_pair(SAME)
    assert same[3].upstream == ("main.daily/date=2024-01-04",)
    window = partitioned_pair(Window(before=2))
    assert window[3].upstream == tuple(f"main.daily/date=2024-01-0{day}" for day in (2, 3, 4))
    batch = partitioned_pair(SAME, chunk=5)
    assert batch[1].upstream == tuple(f"main.daily/date=2024-01-{day:02}" for day in range(6, 11))
    assert partitioned_pair(AllPartitions())[3].upstream == ("main.daily",)


def test_work_on_partitions_of_an_input_touches_those_that_read_them() -> None:
    mapped = Partitioning(SCHEME, {}, takes_many=True)
    spec = replace(make_spec("weekly", "daily"), partitioning=mapped)
    resolved = resolve_views(spec, {})
    known = DerivedProgress({"main.daily": MARK}, resolved.definition, "s", None, PartitionProgress("date"))
    state = TableState(version=3, number=2, progress=Progress(2, (2,), known))
    given = DerivedObservation(resolved, state, "s", partitions=PartitionFacts((ALL,), (ALL,)))
    work = replace(make_item("daily", action=Action.RECOMPUTE), partition="date=2024-01-04", parts=("date=2024-01-04",))
    upstream = Upstream(to_name("daily"), TableState(version=5, data_version=5, data_at=0), (work,), SCHEME)
    found = decide_partitions(given, given.partitions or PartitionFacts(()), Wishes(), {to_name("daily"): upstream})
    assert shown(list(found)) == [("weekly/date=2024-01-04", "input_will_change")]


def test_values_become_partitions() -> None:
    column = ByColumn("day")
    assert to_stale(SCHEME, None, column, [("2024-01-02", "2024-01-03")]) == (days(2, 3),)
    assert to_stale(SCHEME, None, column, [("2024-01-02T23:30:00.000Z", "2024-01-03T00:10:00.000Z")]) == (days(2, 3),)
    hours = hourly("2024-01-01T00")
    assert to_stale(SCHEME, hours, SAME, [("2024-01-02T05", "2024-01-02T05")]) == (days(2, 2),)
    regions = ListScheme("region", ("EU", "US"))
    assert to_stale(regions, regions, SAME, [("US", "US")]) == (range(1, 2),)
    for unknown in (to_stale(SCHEME, hours, SAME, [("x", "x")]), to_stale(SCHEME, None, column, None)):
        assert unknown[0].start < 0 < 1 << 60 < unknown[0].stop


def test_a_mapping_must_name_an_input() -> None:
    mapped = Partitioning(SCHEME, {to_name("staging.sale"): ByColumn("day")})
    spec = replace(make_spec("daily", "staging.sales"), partitioning=mapped)
    with pytest.raises(
        DefinitionError, match=r"staging.sale, which it does not read, did you mean 'staging.sales'|maps"
    ):
        check_mapped(resolve_views(spec, {}), ())
    same = Partitioning(SCHEME, {SALES: SAME})
    with pytest.raises(DefinitionError, match=r"reads the same partition of staging.sales, which is not partitioned"):
        check_mapped(resolve_views(replace(spec, partitioning=same), {}), ())
    check_mapped(resolve_views(replace(spec, partitioning=same), {}), {SALES})


def test_a_column_that_an_input_does_not_have_is_a_problem() -> None:
    columns = Schema((Column("days", "date"), Column("amount", "int")))
    state = TableState(version=5, data_version=5, data_at=0, progress=Progress(1, (1,), None, columns))
    given = observe()
    inputs = {SALES: Upstream(SALES, state), RATES: Upstream(RATES, TableState(version=5))}
    assert given.partitions is not None
    (found,) = decide_partitions(given, given.partitions, Wishes(), inputs)
    assert found.problem is not None
    assert found.problem.message == (
        "main.daily maps staging.sales by the column day, which it does not have; did you mean `days`?"
    )


def test_progress_of_partitions_is_written_and_read() -> None:
    made = DerivedProgress(
        {"main.a": MARK}, "d", "s", None, PartitionProgress("date", ("2024-01-01..2024-01-05",), ("x",))
    )
    assert CODEC.decode(CODEC.encode(made)) == made
    assert "partitions" not in CODEC.encode(replace(made, partitions=None))


def test_what_was_committed_at_the_same_time_adds_up() -> None:
    ours = DerivedProgress({"main.a": InputMark(7, 0)}, "d", "s", None, PartitionProgress("date", ("1", "2"), ("2",)))
    theirs = DerivedProgress({"main.a": InputMark(6, 0)}, "d", "s", None, PartitionProgress("date", ("1", "3"), ("3",)))
    both = CODEC.fold(ours, theirs)
    assert both.partitions == PartitionProgress("date", ("1", "2", "3"), ("2",))
    assert both.inputs == {"main.a": InputMark(6, 0)}
    assert CODEC.fold(ours, replace(theirs, definition="other")) == ours
    assert CODEC.fold(replace(ours, partitions=None), theirs) == theirs


def test_fifty_thousand_partitions_are_planned_quickly() -> None:
    """`make bench-backfill` has the bar of one second; here other tests run at the same time."""
    scheme = hourly("2018-01-01T00", "2023-09-15T07")
    everything = scheme.existing(scheme.bounds(scheme.end or 0)[1])
    assert len(everything) == 50_000
    facts = PartitionFacts((everything,))
    given = observe(state=TableState(), partitions=facts)
    mapped = Partitioning(scheme, {SALES: ByColumn("day")})
    resolved = replace(given.resolved, spec=replace(given.resolved.spec, partitioning=mapped))
    begun = time.process_time()
    found = decide(replace(given, resolved=resolved))
    assert (len(found), time.process_time() - begun < 4) == (50_000, True)
