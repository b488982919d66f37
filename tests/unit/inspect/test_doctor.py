"""The doctor: each check says what it found and how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import write_table
from penstock.errors import ConfigError
from penstock.inspect.doctor import check_data, check_event_log, check_project, check_raw, check_storage
from penstock.model.project import Project, RawSettings


def make(root: Path, **values: object) -> Project:
    given: dict[str, object] = {
        "storage": str(root / "storage"),
        "raw": RawSettings(str(root / "raw")),
        "event_log": f"sqlite:///{root}/events.db",
        **values,
    }
    return Project(root, root / "penstock.yml", "shop", **given)  # type: ignore[arg-type]


def test_storage_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    check = check_storage(make(tmp_path))
    assert (check.ok, check.fix) == (True, None)
    assert check.detail == f"{tmp_path}/storage can be written"
    assert list((tmp_path / "storage").iterdir()) == []


def test_storage_that_is_a_file_is_not_well(tmp_path: Path) -> None:
    (tmp_path / "storage").write_text("x")
    check = check_storage(make(tmp_path))
    assert not check.ok
    assert "storage" in check.detail
    assert check.fix is not None


def test_an_event_log_is_opened_for_real(tmp_path: Path) -> None:
    assert check_event_log(make(tmp_path)).ok
    (tmp_path / "broken.db").write_text("this is no database, and long enough to be looked at" * 30)
    check = check_event_log(make(tmp_path, event_log=f"sqlite:///{tmp_path}/broken.db"))
    assert (check.ok, check.fix is not None) == (False, True)


@pytest.mark.parametrize("uri", ["nothing://x", "postgresql://user:secret@127.0.0.1:1/none"])
def test_an_event_log_that_cannot_be_opened_does_not_show_its_password(uri: str, tmp_path: Path) -> None:
    check = check_event_log(make(tmp_path, event_log=uri))
    assert not check.ok
    assert "secret" not in str(check)


@pytest.mark.parametrize(
    ("path", "ok"), [("raw", True), ("missing", False), ("file", False), ("s3a://bucket/raw", True)]
)
def test_the_raw_folder_is_looked_for(path: str, ok: bool, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "file").touch()
    place = path if "://" in path else str(tmp_path / path)
    check = check_raw(make(tmp_path, raw=RawSettings(place)))
    assert (check.ok, check.fix is None) == (ok, ok)


def test_a_project_of_loads_needs_no_raw_folder(tmp_path: Path) -> None:
    place = str(tmp_path / "raw")
    (tmp_path / "transformations").mkdir()
    given = 'from penstock import pipelines as dp\ndp.load("a", source=dp.sqlite(path="a.db", table="t"))\n'
    (tmp_path / "transformations" / "loads.py").write_text(given)
    check = check_raw(make(tmp_path, raw=RawSettings(place)))
    assert (check.ok, check.fix) == (True, None)
    assert "no raw files" in check.detail
    (tmp_path / "transformations" / "loads.py").write_text("1 / 0\n")
    assert not check_raw(make(tmp_path, raw=RawSettings(place))).ok


def test_a_project_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    def load() -> Project:
        raise ConfigError("no penstock.yml here", hint="make one")

    check, project = check_project(load)
    assert (check.ok, check.detail, check.fix, project) == (False, "no penstock.yml here", "make one", None)
    check, project = check_project(lambda: make(tmp_path))
    assert check.ok
    assert project is not None
    assert check.to_json() == {
        "name": "project",
        "ok": True,
        "detail": f"shop at {tmp_path}/penstock.yml",
        "fix": None,
    }


def test_a_pointer_to_no_checkpoint_is_not_well(tmp_path: Path) -> None:
    table = tmp_path / "storage/main/t"
    write_table(table)
    assert [check.ok for check in check_data(make(tmp_path))] == [True]
    (table / "_delta_log/_last_checkpoint").write_text('{"version": 7}')
    (check,) = check_data(make(tmp_path))
    assert (check.ok, check.fix) == (False, "remove that file")
    assert "version 7, which has no checkpoint" in check.detail
