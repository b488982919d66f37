"""What users give to requests is checked before anything is written: keys, and the point of a release. No JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.projects import ProjectFolder

from penstock.engine import Engine, open_engine
from penstock.errors import UsageError
from penstock.model.clock import SystemClock
from penstock.model.keys import KeyColumn
from penstock.model.names import DatasetName
from penstock.model.tombstones import Release, Tombstone, TombstoneState
from penstock.run.given_keys import read_given_keys
from penstock.tombstones.store import TombstoneStore

NAME = DatasetName("staging", "people")
SETTINGS = """
name: shop
erasure:
  secrets: {"1": "a secret of the tests, long enough"}
  subjects: {person: {staging.people: {key: email, normal_form: lower}}}
"""
TYPES = {
    "email": pa.string(),
    "age": pa.int32(),
    "paid": pa.decimal128(10, 2),
    "born": pa.date32(),
    "seen": pa.timestamp("us", "UTC"),
}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    project = ProjectFolder(tmp_path / "shop").configure(SETTINGS)
    project.raw("people", "0001", {"email": ["ann@example.org"]})
    write_deltalake(str(project.root / "storage/staging/people"), pa.schema(list(TYPES.items())).empty_table())
    return open_engine(project.root, environment={})


def erased(engine: Engine, *ids: str) -> None:
    store = TombstoneStore(engine.workspace.storage, SystemClock())
    key = (KeyColumn("email"),)
    store.add([Tombstone(f"{id_}-0001", "b", NAME, key, id_, 0, "1", "r", "a", 1) for id_ in ids])
    for state in (TombstoneState.HIDDEN, TombstoneState.PHYSICAL):
        store.move(store.read(), state)


def test_a_point_of_release_must_fit_its_column(engine: Engine) -> None:
    erased(engine, "tombstone")
    for column, value in (("age", "old"), ("paid", "much"), ("born", "yesterday"), ("seen", "2026-13-01"), ("x", "1")):
        with pytest.raises(UsageError, match=r"cannot be a value of|name a column"):
            engine.erasure.release(["staging.people"], value, column)
    assert [each.state for each in engine.erasure.tombstones()] == [TombstoneState.PHYSICAL]
    for column, value in (
        ("age", "-5"),
        ("paid", "1.50"),
        ("born", "2026-12-01"),
        ("email", "any"),
        ("SEEN", "2026-12-01 10:00:00"),
    ):
        (found,) = engine.erasure.release(["tombstone-0001"], value, column)
        assert (found.state, found.release) == (TombstoneState.RELEASED, Release(value, column)), "it can be corrected"


def test_a_table_stands_for_keys_that_were_not_released_before(engine: Engine) -> None:
    erased(engine, "first-one", "other-one")
    engine.erasure.release(["first-one-0001"], "5", "age")
    assert [each.id for each in engine.erasure.release(["staging.people"], "7", "age")] == ["other-one-0001"]
    assert {each.release for each in engine.erasure.tombstones()} == {Release("5", "age"), Release("7", "age")}
    with pytest.raises(UsageError, match="released before"):
        engine.erasure.release(["staging.people"], "9", "age")


def test_keys_that_are_not_utf_8_are_refused(engine: Engine) -> None:
    broken = b"ann\xff\n".decode(errors="surrogateescape")
    for keys, source in (([broken], None), ([], broken)):
        with pytest.raises(UsageError, match="not UTF-8"):
            read_given_keys(engine.catalog, "person", keys, source)
    _, given = read_given_keys(engine.catalog, "person", (), "\ufeffemail\nann@example.org\n")
    assert given.to_pylist() == [{"email": "ann@example.org"}]


def test_a_wrong_line_of_a_file_of_keys_is_named(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "keys.csv"
    file.write_text('email\n\n"ann\nmiller"\n\nbob@example.org,Rome\n')
    with pytest.raises(UsageError, match=r"keys.csv: line 6 has 2 values, the header 1"):
        read_given_keys(engine.catalog, "person", (), file)
    file.write_text("\nann@example.org\n\nbob@example.org\n")
    assert read_given_keys(engine.catalog, "person", (), file)[1].num_rows == 2


def test_what_is_gone_is_not_withdrawn_and_no_jvm_starts(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    erased(engine, "tombstone")
    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", _refuse)
    with pytest.raises(UsageError, match="its rows are gone and cannot come back"):
        engine.erasure.remove(["staging.people"])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"reason": "for ANN@Example.org, urgent"}, "the reason contains the key"),
        ({"reason": "DSR-17", "actor": "ann@example.org"}, "the actor contains the key"),
    ],
)
def test_a_reason_or_actor_with_the_key_is_refused_before_anything_starts(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], problem: str
) -> None:
    monkeypatch.setattr("penstock.run.executor.Executor.open_lake", _refuse)
    for keys in ({"keys": ["ann@example.org"]}, {"source": "email\nbob@example.org\nann@example.org\n"}):
        with pytest.raises(UsageError, match=problem):
            engine.erasure.add("person", **keys, **given)
    assert engine.erasure.tombstones() == []


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("Spark was started")


def test_a_later_search_finds_other_spellings_and_refuses_what_no_file_can_have(engine: Engine) -> None:
    """The project's own raw file has ann@example.org, and the key is compared in lower case."""
    for given in ("Ann@Example.org", "ANN@EXAMPLE.ORG", "email=ann@example.org"):
        assert not engine.erasure.verify("person", [given]).is_clean, given
    assert engine.erasure.verify("staging.people", ["age=007"]).is_clean
    for key, problem in (("age=seven", "cannot be a value of age"), ("email=\\N", "NULL cannot be searched")):
        with pytest.raises(UsageError, match=problem):
            engine.erasure.verify("staging.people", [key])


def test_keys_of_one_subject_in_different_normal_forms_are_a_warning(engine: Engine) -> None:
    assert engine.plan().warnings == ()
    more = SETTINGS.replace("lower}}", "lower}, staging.users: {key: mail}}")
    (engine.project.root / "penstock.yml").write_text(more)
    warning, unknown = open_engine(engine.project.root, environment={}).plan().warnings
    assert "`erasure` names staging.users, which is not a dataset" in unknown
    assert "the subject person has keys in different normal forms" in warning
    assert "lower in staging.people; exact in staging.users" in warning
