"""Fingerprints that manifests keep."""

from __future__ import annotations

from penstock.kinds.staging.decide import fingerprint_contract
from penstock.model.contract import NO_CONTRACT
from penstock.model.fingerprint import fingerprint
from penstock.model.schema import Column, Schema


def test_the_order_of_keys_makes_no_difference_and_that_of_a_list_does() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])


def test_what_manifests_keep_stays_as_it_is() -> None:
    """Another hash of the same value would rebuild tables for nothing."""
    assert fingerprint({"main.totals": "x"}) == "549218f8eaad100eb3095c7948cfc61d"
    assert fingerprint_contract(NO_CONTRACT) == "3b10eb2852252e9d11fcb6f6."
    assert Schema((Column("B", "int"), Column("a", "string"))).fingerprint == "8835c5c88c5e925fe3c7c667"
