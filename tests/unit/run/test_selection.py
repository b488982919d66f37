"""`--select` and `--exclude`, as a user types them."""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.model.graph import downstream, upstream
from penstock.model.names import DatasetName, to_dataset_name
from penstock.run.selection import Definitions, select_datasets

READS = {
    "staging.orders": "",
    "staging.customers": "",
    "staging.products": "",
    "clean_orders": "staging.orders",
    "clean_customers": "staging.customers",
    "customers": "clean_customers clean_orders",
    "revenue": "clean_orders staging.products",
    "report": "revenue customers",
    "mart.report_daily": "report",
}
TAGS = {"clean_orders": "nightly core", "clean_customers": "nightly", "report": "core team:sales"}


def name(text: str) -> DatasetName:
    return to_dataset_name(text, "main")


GRAPH = {name(key): frozenset(map(name, reads.split())) for key, reads in READS.items()}
TAGGED = {name(key): frozenset(tags.split()) for key, tags in TAGS.items()}


def select(*selectors: str, exclude: tuple[str, ...] = ()) -> frozenset[DatasetName]:
    return select_datasets(GRAPH, TAGGED, selectors, exclude, "main")


def names(text: str) -> frozenset[DatasetName]:
    return frozenset(map(name, text.split()))


PATHS = {
    name("clean_orders"): "transformations/sales/clean.sql",
    name("revenue"): "transformations/sales/revenue.py",
    name("customers"): "transformations/customers.sql",
}


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("path:transformations/sales", "clean_orders revenue"),
        ("path:./transformations/sales/", "clean_orders revenue"),
        ("path:transformations/sales/revenue.py", "revenue"),
        ("path:transformations/*.sql", "clean_orders customers"),
        ("path:transformations/**/customers.sql", "customers"),
        ("path:**/revenue.py", "revenue"),
        ("path:**/sales/**/*.sql", "clean_orders"),
        ("path:transformations/**", "clean_orders customers revenue"),
        ("path:/home/shop/transformations/sales", "clean_orders revenue"),
        ("path:/home/shop/transformations/**/customers.sql", "customers"),
        ("path:/home/shop", "clean_orders customers revenue"),
        ("path:.", "clean_orders customers revenue"),
        ("path:transformations/customers.sql+", "customers report mart.report_daily"),
    ],
)
def test_definitions_are_selected_by_their_files(selector: str, found: str) -> None:
    definitions = Definitions(PATHS, Path("/home/shop"))
    assert select_datasets(GRAPH, TAGGED, [selector], (), "main", definitions=definitions) == names(found)
    with pytest.raises(UsageError, match="no dataset is defined there"):
        select_datasets(GRAPH, TAGGED, ["path:elsewhere"], (), "main", definitions=definitions)


_PIECES = st.lists(st.sampled_from(["**/", "a/", "b/", "*/", "*", "a", "b", "a*b"]), min_size=1, max_size=6).map(
    "".join
)


@given(_PIECES, st.lists(st.sampled_from("ab"), min_size=1, max_size=5).map("/".join))
def test_any_folders_or_none_are_what_all_globs_with_and_without_them_name(glob: str, file: str) -> None:
    def is_one(glob: str) -> bool:
        found = re.search(r"(?:(?<=/)|^)\*\*/", glob)
        if found is None:
            return fnmatchcase(file, glob)
        head, rest = glob[: found.start()], glob[found.end() :]
        return is_one(head + rest) or is_one(f"{head}*/{rest}")

    place = posixpath.normpath(glob)
    definitions = Definitions({name("revenue"): file}, Path("/home/shop"))
    try:
        found = bool(select_datasets(GRAPH, TAGGED, [f"path:{glob}"], (), "main", definitions=definitions))
    except UsageError:
        found = False
    assert found == (is_one(place) or place in {file, "."} or file.startswith(f"{place}/"))


def test_a_glob_with_many_folders_is_matched_at_once() -> None:
    definitions = Definitions({name("revenue"): "a/" * 40 + "revenue.sql"}, Path("/home/shop"))
    selector = f"path:{'**/a/' * 30}revenue.sql"
    assert select_datasets(GRAPH, TAGGED, [selector], (), "main", definitions=definitions) == names("revenue")
    with pytest.raises(UsageError, match="no dataset is defined there"):
        select_datasets(GRAPH, TAGGED, [f"path:{'**/' * 60}nothing.sql"], (), "main", definitions=definitions)


@pytest.mark.parametrize(
    ("selectors", "selected"),
    [
        ([], " ".join(READS)),
        (["revenue"], "revenue"),
        (["main.revenue"], "revenue"),
        (["REVENUE"], "revenue"),
        (["`main`.`revenue`"], "revenue"),
        (["customers"], "customers"),  # the project's database first
        (["orders"], "staging.orders"),  # then any other
        (["staging.customers"], "staging.customers"),
        (["tag:team:sales"], "report"),
        (["+revenue"], "revenue clean_orders staging.orders staging.products"),
        (["1+revenue"], "revenue clean_orders staging.products"),
        (["0+revenue"], "revenue"),
        (["revenue+"], "revenue report mart.report_daily"),
        (["revenue+1"], "revenue report"),
        (["1+revenue+1"], "revenue clean_orders staging.products report"),
        (["+clean_customers+"], "staging.customers clean_customers customers report mart.report_daily"),
        (["tag:nightly"], "clean_orders clean_customers"),
        (["tag:night*"], "clean_orders clean_customers"),
        (["+tag:core,*orders"], "clean_orders staging.orders"),
        (["clean_*"], "clean_orders clean_customers"),
        (["staging.*"], "staging.orders staging.customers staging.products"),
        (["*.report*"], "report mart.report_daily"),
        (["*orders"], "staging.orders clean_orders"),
        (["staging.orders+1"], "staging.orders clean_orders"),
        (["tag:core,tag:nightly"], "clean_orders"),
        (["+report,clean_*"], "clean_orders clean_customers"),
        (["revenue report"], "revenue report"),
        (["revenue", "report"], "revenue report"),
        (["tag:core,tag:nightly report", "revenue"], "clean_orders report revenue"),
    ],
)
def test_select(selectors: list[str], selected: str) -> None:
    assert select(*selectors) == names(selected)


def test_exclude() -> None:
    assert select(exclude=("staging.*", "report+")) == names("clean_orders clean_customers customers revenue")
    assert select("tag:core", exclude=("report",)) == names("clean_orders")
    assert select("report", exclude=("report",)) == frozenset()


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("revenu", ["no dataset has this name", "did you mean", "`revenue`"]),
        ("staging.order", ["`staging.orders`"]),
        ("stagging.orders", ["`staging.orders`"]),
        ("+revnue+", ["`revenue`"]),
        ("zzz_*", ["no dataset has this name"]),
        ("tag:nightl", ["no dataset has this tag", "`tag:nightly`"]),
        ("tags:nightly", ["unknown method `tags:`"]),
        ("tag:nightly,report", ["no dataset is selected by all of tag:nightly, report"]),
        ("revenue, report", ["missing next to the comma"]),
        ("", ["is empty"]),
        ("  ", ["is empty"]),
        ("+", ["not a valid selector"]),
        ("tag:", ["not a valid selector"]),
        ("revenue++", ["not a valid selector"]),
        ("a-b", ["no dataset has this name"]),
        ("a.b.c.d", ["no dataset has this name"]),
    ],
)
@pytest.mark.parametrize("option", ["--select", "--exclude"])
def test_a_selector_that_selects_nothing(option: str, selector: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        select(*([selector] if option == "--select" else []), exclude=(selector,) if option == "--exclude" else ())
    assert caught.value.message.startswith(option)
    assert all(word in caught.value.message for word in words), caught.value.message
    assert caught.value.exit_code == 2


ATOMS = st.sampled_from(
    ["revenue", "+revenue", "report+", "2+report", "tag:core", "tag:nightly", "staging.*", "clean_*", "+customers+1"]
)


@given(ATOMS, ATOMS)
def test_space_is_union_and_comma_is_intersection(left: str, right: str) -> None:
    both = select(left) & select(right)
    assert select(f"{left} {right}") == select(left, right) == select(left) | select(right)
    if both:
        assert select(f"{left},{right}") == both
    else:
        with pytest.raises(UsageError):
            select(f"{left},{right}")


@given(st.lists(ATOMS), st.lists(ATOMS))
def test_exclude_is_difference(included: list[str], excluded: list[str]) -> None:
    removed = select(*excluded) if excluded else frozenset()
    assert select(*included, exclude=tuple(excluded)) == select(*included) - removed


@given(st.sampled_from(sorted(GRAPH)), st.integers(0, 4), st.integers(0, 4))
def test_depths_are_those_of_the_graph(start: DatasetName, up: int, down: int) -> None:
    assert select(f"{up}+{start}+{down}") == upstream(GRAPH, [start], up) | downstream(GRAPH, [start], down)
    assert select(f"+{start}+") == upstream(GRAPH, [start]) | downstream(GRAPH, [start])


@given(st.text(max_size=12))
def test_any_text_selects_or_says_why_not(text: str) -> None:
    try:
        assert select(text) <= frozenset(GRAPH)
    except UsageError as error:
        message = error.message
        assert message.startswith("--select")
