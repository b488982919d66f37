"""Names of files and folders, and what a result may show of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scanning import ANN, PLACE, found_in, needle, scan

from penstock.errors import UsageError, VerificationError
from penstock.maintenance.scan.needles import Column
from penstock.maintenance.scan.places import FolderPlace
from penstock.maintenance.scan.results import Hit, Progress, check_no_residue
from penstock.maintenance.scan.scanner import scan_for_residue
from penstock.storage.local import LocalFiles


def touch(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()


@pytest.mark.parametrize(
    ("path", "shown", "where"),
    [
        (f"t/email={ANN}/part-0.parquet", "t/email=[needle 0]", "folder name"),
        ("t/email=ann.miller%40example.org/x", "t/email=[needle 0]", "folder name"),
        ("t/email=ann.miller%2540example.org/x", "t/email=[needle 0]", "folder name"),
        (f"exports/{ANN}.csv", "exports/[needle 0].csv", "file name"),
        (f"exports/export-{ANN}-2024.csv.gz", "exports/[needle 0].gz", "file name"),
        (f"exports/{ANN}", "exports/[needle 0]", "file name"),
        (f"exports/x%2D{ANN}", "exports/[needle 0]", "file name"),
        (f"{ANN}=1/x", "[needle 0]", "folder name"),
    ],
)
def test_a_value_in_a_name_is_found_and_not_shown(tmp_path: Path, path: str, shown: str, where: str) -> None:
    touch(tmp_path, path)
    result = scan(tmp_path, ANN)
    assert [(hit.file, hit.where) for hit in result.hits] == [(shown, where)]
    assert "miller" not in repr(result)


def test_an_empty_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "t" / f"email={ANN}").mkdir(parents=True)
    result = scan(tmp_path, ANN)
    assert [hit.file for hit in result.hits] == ["t/email=[needle 0]"]
    assert result.names == 2


def test_a_link_that_leads_nowhere_is_found_and_a_loop_ends(tmp_path: Path) -> None:
    (tmp_path / f"{ANN}.lnk").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [hit.file for hit in scan(tmp_path, ANN).hits] == ["[needle 0]"]


def test_a_longer_partition_value_does_not_count(tmp_path: Path) -> None:
    touch(tmp_path, f"email=mary.{ANN}/x", f"y{ANN}.csv", f"{ANN}2.csv")
    assert scan(tmp_path, ANN).hits == ()


def test_a_short_partition_value_counts_for_its_column_only(tmp_path: Path) -> None:
    touch(tmp_path, "a/customer_id=42/x", "a/day=42/x", "b/customer_id=42/x", "b/customer_id=421/x")
    looked_for = needle("42", 42, columns=(Column(("customer_id",), PLACE, "a"),))
    assert [(hit.file, hit.where) for hit in scan(tmp_path, looked_for).hits] == [
        ("a/customer_id=[needle 0]", "folder name")
    ]


def test_every_path_of_a_result_is_masked(tmp_path: Path) -> None:
    folder = tmp_path / f"email={ANN}"
    folder.mkdir()
    (folder / "rows.json").write_text(f'{{"email": "{ANN}"}}')
    (folder / "state.bin").write_bytes(b"\x00\xff")
    result = scan(tmp_path, ANN)
    assert {hit.file for hit in result.hits} == {"email=[needle 0]", "email=[needle 0]/rows.json"}
    assert [note.file for note in result.undecoded] == ["email=[needle 0]/state.bin"]
    with pytest.raises(VerificationError) as caught:
        check_no_residue(result)
    assert "storage: email=[needle 0]/rows.json" in str(caught.value)
    assert "miller" not in str(caught.value)


def test_a_needle_does_not_show_its_value() -> None:
    shown = repr([needle(ANN, ANN, columns=("email",))])
    assert "miller" not in shown


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_an_unreadable_file_or_folder_is_a_failure(open_folder: Path) -> None:
    (open_folder / "closed.json").write_text("{}")
    (open_folder / "closed.parquet").write_bytes(b"PAR1")
    for file in open_folder.iterdir():
        file.chmod(0)
    (open_folder / f"email={ANN}").mkdir(mode=0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        result = scan(open_folder, ANN)
    finally:
        os.seteuid(me)
    assert {(note.file, note.reason) for note in result.unreadable} == {
        ("closed.json", "no permission"),
        ("closed.parquet", "no permission"),
        ("email=[needle 0]", "cannot be listed (PermissionError)"),
    }


def test_what_is_no_file_is_a_failure(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "rows.json").write_text("{}")
    result = scan(tmp_path, ANN)
    assert [(note.file, note.reason) for note in result.unreadable] == [("pipe", "not a file or folder")]
    assert not result.is_clean
    with pytest.raises(VerificationError, match="could not be read: storage: pipe"):
        check_no_residue(result)


def test_a_file_that_fails_while_it_is_read_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.txt").write_text(ANN)
    (tmp_path / "bad.txt").write_text(ANN)
    original = LocalFiles.open

    def fail(self: LocalFiles, path: str) -> object:
        if path == "bad.txt":
            raise OSError(5, "Input/output error", f"/somewhere/{ANN}")
        return original(self, path)

    monkeypatch.setattr(LocalFiles, "open", fail)
    result = scan(tmp_path, ANN)
    assert found_in(result) == {("good.txt", 0)}
    assert [note.file for note in result.unreadable] == ["bad.txt"]
    assert "miller" not in repr(result)


def test_a_file_that_is_removed_meanwhile_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.tmp").write_text("x")
    original = LocalFiles.open

    def remove(self: LocalFiles, path: str) -> object:
        (tmp_path / "x.tmp").unlink(missing_ok=True)
        return original(self, path)

    monkeypatch.setattr(LocalFiles, "open", remove)
    result = scan(tmp_path, ANN)
    assert result.is_clean
    assert [note.reason for note in result.undecoded] == ["removed while the scan ran"]


def test_places_are_counted_and_a_file_in_two_places_once(tmp_path: Path) -> None:
    touch(tmp_path, "a/x", "a/b/y")
    (tmp_path / "a" / "x").write_text(ANN)
    places = [
        FolderPlace("whole", LocalFiles(tmp_path)),
        FolderPlace("part", LocalFiles(tmp_path / "a")),
        FolderPlace("below", LocalFiles(tmp_path), "a/b"),
        FolderPlace("missing", LocalFiles(tmp_path / "no")),
    ]
    result = scan_for_residue([needle(ANN)], places)
    assert [(place.place, place.files, place.exists) for place in result.places] == [
        ("whole", 2, True),
        ("part", 0, True),
        ("below", 0, True),
        ("missing", 0, False),
    ]
    assert result.hits == (Hit("whole", "a/x", "line 1", 0, "text"),)
    assert (result.files, result.bytes) == (2, len(ANN))
    with pytest.raises(UsageError):
        scan_for_residue([], [places[0], places[0]])


def test_progress_goes_up_to_everything(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text("x" * number)
    seen: list[Progress] = []
    scan_for_residue([needle(ANN)], [FolderPlace(PLACE, LocalFiles(tmp_path))], workers=3, on_progress=seen.append)
    assert [progress.files_done for progress in seen] == list(range(1, 21))
    assert seen[-1] == Progress(20, 20, 190, 190)


def test_the_result_does_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").write_text(f"{number} {ANN}\n" * (number % 4))
    one, four = scan(tmp_path, ANN, workers=1), scan(tmp_path, ANN, workers=4)
    assert one.hits == four.hits
    assert one.methods == four.methods
