"""The order of datasets, the circle that has none, and what lies above and below."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DefinitionError
from penstock.model.graph import CycleError, downstream, order, upstream
from penstock.model.names import DatasetName


def name(text: str) -> DatasetName:
    return DatasetName("main", text)


def graph(text: str) -> dict[DatasetName, frozenset[DatasetName]]:
    """`c<ab` says that c reads a and b."""
    parts = [word.partition("<") for word in text.split()]
    return {name(left): frozenset(map(name, reads)) for left, _, reads in parts}


def letters(names: tuple[DatasetName, ...] | frozenset[DatasetName]) -> str:
    ordered = names if isinstance(names, tuple) else sorted(names)
    return "".join(each.name for each in ordered)


@pytest.mark.parametrize(
    ("text", "ordered"),
    [
        ("", ""),
        ("a", "a"),
        ("c b a", "abc"),
        ("a<b b<c c", "cba"),
        ("d<bc b<a c<a a", "abcd"),
        ("a<z", "a"),  # z is outside the graph
        ("z a<z b", "bza"),
    ],
)
def test_order(text: str, ordered: str) -> None:
    assert letters(order(graph(text))) == ordered


@pytest.mark.parametrize(
    ("text", "circle"), [("a<a", "a"), ("a<b b<a", "ab"), ("b<c c<a a<b", "abc"), ("x<a a<b b<ca c d<x", "ab")]
)
def test_a_circle_is_named(text: str, circle: str) -> None:
    with pytest.raises(CycleError) as caught:
        order(graph(text))
    assert letters(caught.value.names) == circle
    assert isinstance(caught.value, DefinitionError)


def test_the_message_of_a_circle_reads_in_order() -> None:
    with pytest.raises(CycleError, match=r"`main.a` reads `main.b`, which reads `main.c`, which reads `main.a`"):
        order(graph("a<b b<c c<a"))


DIAMOND = graph("a b<a c<a d<bc e<d f")


@pytest.mark.parametrize(
    ("start", "depth", "above", "below"),
    [
        ("a", None, "a", "abcde"),
        ("d", None, "abcd", "de"),
        ("d", 0, "d", "d"),
        ("d", 1, "bcd", "de"),
        ("bf", None, "abf", "bdef"),
        ("z", None, "", ""),
    ],
)
def test_closures(start: str, depth: int | None, above: str, below: str) -> None:
    assert letters(upstream(DIAMOND, map(name, start), depth)) == above
    assert letters(downstream(DIAMOND, map(name, start), depth)) == below


@st.composite
def acyclic_graphs(draw: st.DrawFn) -> dict[DatasetName, frozenset[DatasetName]]:
    names = [name(f"n{number}") for number in draw(st.permutations(range(draw(st.integers(1, 8)))))]
    reads = [
        draw(st.frozensets(st.sampled_from(names[:at]), max_size=3)) if at else frozenset() for at in range(len(names))
    ]
    return dict(zip(names, reads, strict=True))


@given(acyclic_graphs(), st.randoms())
def test_each_dataset_comes_after_what_it_reads(
    inputs: dict[DatasetName, frozenset[DatasetName]], rng: random.Random
) -> None:
    ordered = order(inputs)
    assert sorted(ordered) == sorted(inputs)
    at = {each: number for number, each in enumerate(ordered)}
    assert all(at[read] < at[each] for each, reads in inputs.items() for read in reads)
    shuffled = list(inputs.items())
    rng.shuffle(shuffled)
    assert order(dict(shuffled)) == ordered


@given(acyclic_graphs(), st.data())
def test_a_read_back_makes_a_circle(inputs: dict[DatasetName, frozenset[DatasetName]], data: st.DataObject) -> None:
    start = data.draw(st.sampled_from(sorted(inputs)))
    end = data.draw(st.sampled_from(sorted(upstream(inputs, [start]))))
    with pytest.raises(CycleError) as caught:
        order({**inputs, end: inputs[end] | {start}})
    names = caught.value.names
    changed = {**inputs, end: inputs[end] | {start}}
    assert all(after in changed[before] for before, after in zip(names, (*names[1:], names[0]), strict=True))


@given(acyclic_graphs())
def test_upstream_and_downstream_are_two_views_of_one_relation(
    inputs: dict[DatasetName, frozenset[DatasetName]],
) -> None:
    for above in inputs:
        for below in inputs:
            assert (above in upstream(inputs, [below])) == (below in downstream(inputs, [above]))
