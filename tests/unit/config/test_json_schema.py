"""The JSON Schema for editors says what the loader says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from penstock.config.json_schema import project_schema, schema_text

CHECKED_IN = Path(__file__).parents[3] / "docs" / "penstock.schema.json"


def is_valid(project: Any) -> bool:
    return bool(Draft202012Validator(project_schema()).is_valid(project))


def test_the_checked_in_schema_is_up_to_date() -> None:
    Draft202012Validator.check_schema(json.loads(schema_text()))
    assert CHECKED_IN.read_text(encoding="utf-8") == schema_text(), (
        "write it again: python -m penstock.config.json_schema > docs/penstock.schema.json"
    )


@pytest.mark.parametrize(
    "project",
    [
        {"name": "x"},
        {"name": "x", "raw": "raw", "threads": 2, "vars": None, "configuration": {"a": 1, "b": True}},
        {"name": "x", "raw": {"path": "in", "layout": "{batch}/{table}.parquet"}, "threads": "${N}"},
        {"name": "x", "targets": {"prod": {"spark": {"remote": "sc://h"}}, "empty": None}},
        {"name": "x", "libraries": [{"glob": {"include": "a/**"}}]},
    ],
)
def test_accepts(project: Any) -> None:
    assert is_valid(project)


@pytest.mark.parametrize(
    "project",
    [
        {},
        {"name": 5},
        {"name": "x", "storag": "a"},
        {"name": "x", "threads": "many"},
        {"name": "x", "threads": 0},
        {"name": "x", "raw": {"layout": "zzz"}},
        {"name": "x", "spark": {"master": "local", "remote": "sc://h"}},
        {"name": "x", "targets": {"prod": {"storag": "a"}}},
        {"name": "x", "libraries": [{"glob": {}}]},
    ],
)
def test_refuses(project: Any) -> None:
    assert not is_valid(project)
