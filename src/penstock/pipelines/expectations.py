"""Decorators that say which rows a dataset should have, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from penstock.errors import DefinitionError
from penstock.model.spec import Expectation, OnViolation
from penstock.pipelines.registry import caller, current_registry
from penstock.pipelines.settings import check_function

F = TypeVar("F", bound=Callable[..., Any])


def expect(name: str, condition: str) -> Callable[[F], F]:
    """Warn about rows that break the condition, and keep them."""
    return _expectations({name: condition}, OnViolation.WARN)


def expect_or_drop(name: str, condition: str) -> Callable[[F], F]:
    """Move rows that break the condition to the dataset's quarantine table."""
    return _expectations({name: condition}, OnViolation.DROP)


def expect_or_fail(name: str, condition: str) -> Callable[[F], F]:
    """Write nothing when a row breaks the condition."""
    return _expectations({name: condition}, OnViolation.FAIL)


def expect_all(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """Warn about rows that break any of the conditions, given as name -> condition."""
    return _expectations(expectations, OnViolation.WARN)


def expect_all_or_drop(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """Move rows that break any of the conditions to the dataset's quarantine table."""
    return _expectations(expectations, OnViolation.DROP)


def expect_all_or_fail(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """Write nothing when a row breaks any of the conditions."""
    return _expectations(expectations, OnViolation.FAIL)


def _expectations(conditions: Mapping[str, str], on_violation: OnViolation) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        registry = current_registry.get()
        if registry is not None:
            with registry.collected():
                check_function(function, "an expectation")
                registry.add_expectations(function, _to_expectations(conditions, on_violation))
        return function

    return decorate


def _to_expectations(conditions: Any, on_violation: OnViolation) -> tuple[Expectation, ...]:
    if not isinstance(conditions, Mapping):
        raise DefinitionError("expectations must be a dict from name to condition", location=caller())
    for name, condition in conditions.items():
        if not (isinstance(name, str) and isinstance(condition, str) and name.strip() and condition.strip()):
            raise DefinitionError(
                f"the expectation {name!r} needs a name and a condition, both non-empty text",
                hint="""write @dp.expect("positive amount", "amount > 0")""",
                location=caller(),
            )
    return tuple(Expectation(name, condition, on_violation) for name, condition in conditions.items())
