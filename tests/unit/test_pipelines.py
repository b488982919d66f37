"""What a definition file can say, and what it gets back."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import pipelines as dp
from penstock.errors import DefinitionError
from penstock.model.spec import DatasetKind, OnViolation, TableLayout
from penstock.pipelines import spark
from penstock.pipelines.registry import collect_definitions, use_reader


def test_bare_and_called_decorators_register_and_return_the_function() -> None:
    with collect_definitions() as registry:

        @dp.materialized_view
        def orders() -> int:
            return 1

        @dp.table(name="big", comment="c", partition_cols=["day"], table_properties={"b": "2", "a": "1"}, tags=["x"])
        def other() -> int:
            return 2

        @dp.temporary_view(depends_on=["orders"])
        def small() -> int:
            return 3

    assert (orders(), other(), small()) == (1, 2, 3)
    assert [(d.name, d.kind) for d in registry.definitions] == [
        ("orders", DatasetKind.MATERIALIZED_VIEW),
        ("big", DatasetKind.TABLE),
        ("small", DatasetKind.TEMPORARY_VIEW),
    ]
    big = registry.definitions[1]
    assert big.layout == TableLayout("c", ("day",), (), (("a", "1"), ("b", "2")))
    assert big.tags == ("x",)
    assert registry.definitions[2].depends_on == ("orders",)
    assert big.location.file == __file__


def test_expectations_keep_their_order_above_and_below_the_dataset_decorator() -> None:
    with collect_definitions() as registry:

        @dp.expect("first", "a > 0")
        @dp.expect_all_or_drop({"second": "b > 0", "third": "c > 0"})
        @dp.table
        @dp.expect_or_fail("fourth", "d > 0")
        @dp.expect_all({"fifth": "e > 0"})
        @dp.expect_or_drop("sixth", "f > 0")
        @dp.expect_all_or_fail({"seventh": "g > 0"})
        def orders() -> None: ...

    registry.check_complete()
    found = registry.expectations_of(orders)
    assert [e.name for e in found] == ["first", "second", "third", "fourth", "fifth", "sixth", "seventh"]
    warn, drop, fail = OnViolation.WARN, OnViolation.DROP, OnViolation.FAIL
    assert [e.on_violation for e in found] == [warn, drop, drop, fail, warn, drop, fail]


def test_outside_a_load_decorators_give_the_function_back() -> None:
    @dp.expect("x", "y")
    @dp.table(spark_conf={"a": "b"}, partition_cols="oops")  # type: ignore[call-overload,untyped-decorator,unused-ignore]
    def orders() -> int:
        return 7

    assert orders() == 7


def _function() -> None: ...


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: dp.table(schema="a int")(_function), "does not support schema"),
        (lambda: dp.table(format="csv")(_function), "does not support format"),
        (lambda: dp.materialized_view(spark_conf={"a": "b"})(_function), "does not support spark_conf"),
        (lambda: dp.table(colour="x")(_function), "no parameter 'colour'"),
        (lambda: dp.temporary_view(partition_cols=["x"])(_function), "no parameter 'partition_cols'"),
        (lambda: dp.table(partition_cols="day")(_function), "partition_cols must be a list"),
        (lambda: dp.table(partition_cols=["a"], cluster_by=["b"])(_function), "not both"),
        (lambda: dp.table(partition_cols=["a", "A"])(_function), "partition_cols names A twice"),
        (lambda: dp.table(cluster_by=["a", "b", "a"])(_function), "cluster_by names a twice"),
        (lambda: dp.table(table_properties={"owner": "me"})(_function), "Spark reserves the property 'owner'"),
        (lambda: dp.table(table_properties=["a"])(_function), "table_properties must be a dict"),
        (lambda: dp.table(name=3)(_function), "name must be text"),
        (lambda: dp.table(int), "not the class 'int'"),
        (lambda: dp.table("orders"), "not a value of type 'str'"),
        (lambda: dp.expect("a", "b")(int), "not the class 'int'"),
        (lambda: dp.expect("a", "")(_function), "needs a name and a condition"),
        (lambda: dp.expect_all(["a"])(_function), "must be a dict"),
        (lambda: dp.expect("a", "b")(dp.expect("a", "c")(_function)), "given twice"),
    ],
)
def test_wrong_use_in_a_load_names_the_users_line(decorate: Any, message: str) -> None:
    with collect_definitions() as registry:
        decorate()
    (mistake,) = registry.mistakes
    assert re.search(message, mistake.message)
    assert mistake.location is not None
    assert mistake.location.file == __file__


def test_an_unknown_variable_names_the_users_line() -> None:
    with (
        collect_definitions({"threshold": 3}),
        pytest.raises(DefinitionError, match="no variable 'thersold'") as caught,
    ):
        dp.var("thersold")
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


@pytest.mark.parametrize(
    "settings", [{"spark_conf": {}}, {"format": "delta"}, {"schema": None}, {"query_function": None}]
)
def test_harmless_settings_pass(settings: dict[str, Any]) -> None:
    with collect_definitions() as registry:
        dp.table(**settings)(_function)
    assert len(registry.definitions) == 1


def test_expectations_without_a_dataset_are_an_error() -> None:
    with collect_definitions() as registry:
        dp.expect("a", "b")(_function)
    with pytest.raises(DefinitionError, match="not a dataset"):
        registry.check_complete()


class _Reader:
    session = SimpleNamespace(version="4.2.0")

    def read(self, name: str) -> Any:
        return f"rows of {name}"


def test_reads_and_session_come_from_the_reader() -> None:
    with use_reader(_Reader()):
        assert dp.read("orders") == "rows of orders"
        assert spark.version == dp.spark.version == "4.2.0"
    with pytest.raises(DefinitionError, match=r"dp\.read works only inside a definition"):
        dp.read("orders")
    with pytest.raises(DefinitionError, match=r"dp\.spark works only inside a definition"):
        _ = spark.version
    assert not hasattr(spark, "__wrapped__")


def test_variables_come_from_the_project_then_from_the_default() -> None:
    with collect_definitions({"threshold": 3}):
        assert dp.var("threshold") == 3
        assert dp.var("threshold", default=4) == 3
        assert dp.var("other", default=4) == 4
        with pytest.raises(DefinitionError) as caught:
            dp.var("thresold")
        assert caught.value.hint is not None
        assert "'threshold'" in caught.value.hint
    assert dp.var("threshold", default=None) is None
    with pytest.raises(DefinitionError, match="outside a project"):
        dp.var("threshold")


def test_importing_it_starts_nothing_heavy() -> None:
    code = "import sys, penstock.pipelines; print([m for m in ('pyspark', 'sqlglot', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
