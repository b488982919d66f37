"""What penstock.yml and definitions declare about erasure."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.project_file import load_project
from penstock.definitions.loading import load_everything
from penstock.errors import ConfigError, DefinitionError
from penstock.model.erasure import ErasureSettings, Hide
from penstock.model.keys import KeyColumn, NormalForm

CUSTOMERS = """
name: shop
erasure:
  secrets: {"2": "${NEW}", "1": "a secret of the year before"}
  hide: vectors
  subjects:
    customer:
      staging.customers: {key: customer_id, personal: [email, name], normal_form: lower}
      daily: {key: [id, {name: region, normal_form: trim}]}
"""


def load(folder: Path, text: str, definition: str = "") -> ErasureSettings:
    (folder / "penstock.yml").write_text(text)
    (folder / "transformations").mkdir(exist_ok=True)
    (folder / "transformations" / "tables.py").write_text(f"from penstock import pipelines as dp\n{definition}\n")
    project = load_project(folder / "penstock.yml", environment={"NEW": "a secret of this year"})
    return load_everything(project)[1].erasure


def test_subjects_secrets_and_hiding_are_read(tmp_path: Path) -> None:
    found = load(tmp_path, CUSTOMERS)
    assert list(found.secrets.items()) == [("2", "a secret of this year"), ("1", "a secret of the year before")]
    assert found.hide is Hide.VECTORS
    assert found.subjects == ("customer",)
    customers, daily = found.tables_of("customer")
    assert (str(customers.table), customers.personal) == ("staging.customers", ("email", "name"))
    assert customers.key == (KeyColumn("customer_id", NormalForm.LOWER),)
    assert (str(daily.table), daily.key) == ("main.daily", (KeyColumn("id"), KeyColumn("region", NormalForm.TRIM)))
    assert "secret of" not in repr(found)


def test_a_definition_file_declares_the_same(tmp_path: Path) -> None:
    call = 'dp.erasable("staging.customers", subject="customer", key=["a", "b"], personal=["c"], normal_form="nfc")'
    (found,) = load(tmp_path, "name: shop", call).tables
    assert found.key == (KeyColumn("a", NormalForm.NFC), KeyColumn("b", NormalForm.NFC))
    assert (found.personal, str(found.location)) == (("c",), "transformations/tables.py:2")


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ("{key: []}", "key must name at least one column"),
        ("{key: [a, A]}", "key has a column twice"),
        ("{key: a, normal_form: upper}", "must be one of"),
        ("{personal: [a]}", "`erasure.subjects.customer.staging.t.key` is missing"),
        ("{key: {column: a}}", "must be a list"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_place(tmp_path: Path, declared: str, problem: str) -> None:
    text = f"name: shop\nerasure:\n  subjects:\n    customer:\n      staging.t: {declared}\n"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert problem in caught.value.message
    assert "penstock.yml:5" in str(caught.value.location)


def test_a_table_is_declared_once_for_a_subject(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"declared twice for the subject customer, also at .*penstock.yml:8"):
        load(tmp_path, CUSTOMERS, 'dp.erasable("staging.customers", subject="customer", key="id")')


@pytest.mark.parametrize("call", ["key=3", 'key=""', 'key="a", normal_form="x"', 'key="a", personal=[1]'])
def test_a_wrong_call_is_refused_with_its_line(tmp_path: Path, call: str) -> None:
    with pytest.raises(DefinitionError, match="erasable") as caught:
        load(tmp_path, "name: shop", f'dp.erasable("staging.t", subject="customer", {call})')
    assert str(caught.value.location) == "transformations/tables.py:2"
