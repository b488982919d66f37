"""What can be declared about staging tables, in penstock.yml and in definition files."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.project_file import load_project
from penstock.definitions.loading import load_everything
from penstock.errors import ConfigError, DefinitionError
from penstock.model.contract import Contract, DeclaredColumn, Nested, OnDrift, OnRemovedFiles
from penstock.model.text_files import OnBadRow, TextFiles


def contract(tmp_path: Path, text: str, table: str = "orders") -> Contract:
    (tmp_path / "penstock.yml").write_text(f"name: shop\nstaging:\n{text}")
    return load_project(tmp_path / "penstock.yml", environment={}).staging[table]


def test_everything_that_can_be_declared(tmp_path: Path) -> None:
    found = contract(
        tmp_path,
        """\
  Orders:
    columns:
      amount: Decimal(18, 2)
      id: {type: long, required: true}
      note: {type: string, required: true}
    renames: {cust: customer}
    on_drift: quarantine
    on_removed_files: rebuild
    nested: struct
""",
    )
    assert dict(found.columns) == {
        "amount": DeclaredColumn("decimal(18,2)"),
        "id": DeclaredColumn("bigint", required=True),
        "note": DeclaredColumn("string", required=True),
    }
    assert found.declared("AMOUNT") == DeclaredColumn("decimal(18,2)")
    assert (found.renamed("CUST"), found.renamed("other")) == ("customer", "other")
    assert (found.on_drift, found.on_removed_files, found.nested) == (
        OnDrift.QUARANTINE,
        OnRemovedFiles.REBUILD,
        Nested.STRUCT,
    )


def test_an_empty_declaration_is_the_default(tmp_path: Path) -> None:
    found = contract(tmp_path, "  orders:\n")
    assert (found.columns, found.renames, found.on_drift) == ({}, {}, OnDrift.EVOLVE)


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("  orders: {columns: {a: money}}", "must be a type such as", 3),
        ("  orders: {columns: {a: {type: int, require: true}}}", "unknown field `require`", 3),
        ("  orders: {columns: {a: {type: int, required: maybe}}}", "must be true or false", 3),
        ("  orders: {on_drift: explode}", "must be one of `evolve`, `fail`, `quarantine`", 3),
        ("  orders: {on_removed_files: drop}", "must be one of", 3),
        ("  orders: {nested: xml}", "must be one of", 3),
        ("  orders: {columns: {a: array<int>}}", "cannot be array<int>: nested values are stored as JSON text", 3),
        (
            "  orders: {columns: {a: array<int>}, nested: struct, on_drift: quarantine}",
            "quarantine supports only scalar types",
            3,
        ),
        ("  orders: {columns: {a: {required: true}}, on_drift: quarantine}", "quarantine needs its type", 3),
        ("  orders: {renames: {a: b, b: c}}", "a is renamed to b, which is renamed too", 3),
        ("  orders: {renames: {a: b, A: c}}", "given twice", 3),
        ("  orders: {renames: {a: b}, columns: {a: int}}", "declared as a column and also renamed", 3),
        ("  orders: {columns: {a: int, A: int}}", "given twice", 3),
        ("  orders:\n  ORDERS:\n", "given twice", 4),
        ("  a.b: {}", "without a database", 3),
        ("  orders: {files: {delimiter: '||'}}", "delimiter must be one ASCII character", 3),
        ("  orders: {files: {delimiter: '§'}}", "delimiter must be one ASCII character", 3),
        ("  orders: {files: {quote: ','}}", "quote and escape must not be a comma", 3),
        ("  orders: {files: {delimiter: '|', quote: '|'}}", "delimiter, quote and escape must differ", 3),
        ("  orders: {files: {encoding: latin-99}}", "must be a text encoding", 3),
        ("  orders: {files: {encoding: hex}}", "must be a text encoding", 3),
        ("  orders: {files: {on_bad_row: skip}}", "must be one of `fail`, `quarantine`", 3),
        ("  orders: {files: {separator: x}}", "separator", 3),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(tmp_path: Path, text: str, said: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        contract(tmp_path, text)
    assert said in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line == line


def test_how_text_files_are_read_is_declared(tmp_path: Path) -> None:
    given = "  orders: {files: {delimiter: tab, quote: none, encoding: Latin1, null_text: '-', on_bad_row: quarantine}}"
    assert contract(tmp_path, given).files == TextFiles(
        delimiter="\t", quote="", encoding="iso8859-1", null_text="-", on_bad_row=OnBadRow.QUARANTINE
    )
    call = 'dp.declare_staging("orders", files={"delimiter": ";", "header": False, "escape": "\\\\"})'
    assert declared(tmp_path, call)["orders"].files == TextFiles(header=False, delimiter=";", escape="\\")


def declared(tmp_path: Path, call: str, staging: str = "") -> dict[str, Contract]:
    (tmp_path / "penstock.yml").write_text(f"name: shop\n{staging}")
    (tmp_path / "transformations").mkdir(exist_ok=True)
    (tmp_path / "transformations/a.py").write_text(f"from penstock import pipelines as dp\n\n{call}\n")
    return load_everything(load_project(tmp_path / "penstock.yml", environment={}))[1].staging


def test_a_definition_file_declares_the_same(tmp_path: Path) -> None:
    call = (
        'dp.declare_staging("orders", columns={"a": "int", "b": {"type": "date", "required": True}}, nested="struct")'
    )
    found = declared(tmp_path, call)["orders"]
    assert dict(found.columns) == {"a": DeclaredColumn("int"), "b": DeclaredColumn("date", required=True)}
    assert found.nested is Nested.STRUCT
    assert str(found.location) == "transformations/a.py:3"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('dp.declare_staging("orders", columns={"a": "money"})', "money is not a type"),
        ('dp.declare_staging("orders", columns={"a": {"kind": "int"}})', "use type and required"),
        ('dp.declare_staging("orders", columns=["a"])', "columns must be a dictionary"),
        ('dp.declare_staging("orders", on_drift="explode")', "must be one of evolve, fail, quarantine, not 'explode'"),
        ('dp.declare_staging("orders", columns={"a": 5})', "5 must be non-empty text"),
        ('dp.declare_staging("orders", columns={"": "int"})', "'' must be non-empty text"),
        ('dp.declare_staging("orders", columns={"a": {"required": "no"}})', "required of 'a' must be True or False"),
        ('dp.declare_staging("orders", renames={"a": ""})', "'' must be non-empty text"),
        ('dp.declare_staging("a.b")', "without a database"),
        ('dp.declare_staging("orders", renames={"a": "b", "b": "c"})', "which is renamed too"),
        ('dp.declare_staging("orders")\ndp.declare_staging("ORDERS")', "declared twice"),
        ('dp.declare_staging("orders", files={"sep": ";"})', "files has no setting 'sep'; use"),
        ('dp.declare_staging("orders", files={"header": "no"})', "header must be True or False"),
        ('dp.declare_staging("orders", files={"delimiter": 5})', "delimiter must be text"),
        ('dp.declare_staging("orders", files={"on_bad_row": "skip"})', "must be one of fail, quarantine"),
        ('dp.declare_staging("orders", files={"quote": "ab"})', "quote must be one ASCII character, or none"),
    ],
)
def test_a_wrong_declaration_is_reported_with_file_and_line(tmp_path: Path, call: str, said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        declared(tmp_path, call)
    assert said in str(caught.value)
    assert str(caught.value.location).startswith("transformations/a.py:")


def test_a_table_is_declared_in_one_place_only(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"declared twice: at .*penstock\.yml:3:3 and at transformations/a\.py:3"):
        declared(tmp_path, 'dp.declare_staging("orders")', "staging:\n  orders:\n    nested: struct\n")
