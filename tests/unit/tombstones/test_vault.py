"""What is kept aside: it comes back as it was, and nothing else passes for it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import ConfigError, StorageError, VerificationError
from penstock.storage.local import LocalFiles
from penstock.tombstones import sealing
from penstock.tombstones.secrets import to_secrets
from penstock.tombstones.vault import FOLDER, Vault

SECRETS = to_secrets({"1": "the first secret of the tests"})
VALUE = b"ann@example.org"
SMALL = 32
"""A size of frames that makes files of many frames small."""


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(LocalFiles(tmp_path), SECRETS)


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "FRAME", SMALL)


def files(folder: Path, batch: str = "b1") -> dict[str, Path]:
    return {file.name: file for file in (folder / FOLDER / batch).iterdir()}


def sealed(folder: Path, name: str, batch: str = "b1") -> Path:
    return files(folder, batch)[f"{name}.sealed"]


class Drips(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 7))


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=5 * SMALL), name=st.text(min_size=1, max_size=12), as_stream=st.booleans())
def test_content_comes_back(tmp_path: Path, frames: None, content: bytes, name: str, as_stream: bool) -> None:
    vault = Vault(LocalFiles(tmp_path), SECRETS)
    vault.destroy("b1")
    for given_content in (content, content + b"!"):  # the second replaces the first
        vault.put("b1", name, Drips(given_content) if as_stream else given_content)
        assert vault.get("b1", name) == given_content
    assert vault.names("b1") == [name]
    assert all(file.name == "salt" or file.name.endswith(".sealed") for file in files(tmp_path).values())


@pytest.mark.parametrize("size", [0, 1, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL])
def test_every_length_and_every_cut(vault: Vault, tmp_path: Path, frames: None, size: int) -> None:
    content = os.urandom(size)
    vault.put("b1", "rows", content)
    assert vault.get("b1", "rows") == content
    file = sealed(tmp_path, "rows")
    whole = file.read_bytes()
    for cut in range(1, len(whole)):
        file.write_bytes(whole[:cut])
        with pytest.raises(VerificationError):
            vault.get("b1", "rows")
    for more in (b"x", whole[-SMALL:], b"x" * 100):
        file.write_bytes(whole + more)
        with pytest.raises(VerificationError):
            vault.get("b1", "rows")


def test_every_changed_byte_is_noticed(vault: Vault, tmp_path: Path, frames: None) -> None:
    vault.put("b1", "rows", VALUE * 5)
    for file in (sealed(tmp_path, "rows"), files(tmp_path)["salt"]):
        whole = file.read_bytes()
        for place in range(len(whole)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises((VerificationError, ConfigError)) as caught:
                vault.get("b1", "rows")
            assert "ann@" not in f"{caught.value}{caught.value.hint}"
        file.write_bytes(whole)
    assert vault.get("b1", "rows") == VALUE * 5


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(4)), kept=st.integers(1, 4))
def test_frames_cannot_be_moved_left_out_or_repeated(tmp_path: Path, frames: None, order: list[int], kept: int) -> None:
    vault = Vault(LocalFiles(tmp_path), SECRETS)
    vault.put("b1", "rows", bytes(range(4 * SMALL)))
    file = sealed(tmp_path, "rows")
    whole, size = file.read_bytes(), SMALL + 16
    start = len(whole) - 4 * size
    made = whole[:start] + b"".join(whole[start + n * size : start + (n + 1) * size] for n in order[:kept])
    file.write_bytes(made)
    if made == whole:
        assert vault.get("b1", "rows") == bytes(range(4 * SMALL))
    else:
        with pytest.raises(VerificationError, match="damaged"):
            vault.get("b1", "rows")


def test_files_cannot_be_swapped(vault: Vault, tmp_path: Path) -> None:
    for batch, name in (("b1", "rows"), ("b1", "keys"), ("b2", "rows")):
        vault.put(batch, name, VALUE)
    rows = sealed(tmp_path, "rows").read_bytes()
    for other in (sealed(tmp_path, "keys"), sealed(tmp_path, "rows", "b2")):
        other.write_bytes(rows)
    for batch, name in (("b1", "keys"), ("b2", "rows")):
        with pytest.raises(VerificationError, match=f"{name} of batch {batch}"):
            vault.get(batch, name)
    files(tmp_path)["salt"].write_bytes(files(tmp_path, "b2")["salt"].read_bytes())
    with pytest.raises(VerificationError, match="damaged"):
        vault.get("b1", "rows")


def test_secrets_that_are_missing_or_others(tmp_path: Path) -> None:
    storage = LocalFiles(tmp_path)
    Vault(storage, SECRETS).put("b1", "rows", VALUE)
    rotated = to_secrets({"2": "the second secret of the tests", "1": "the first secret of the tests"})
    assert Vault(storage, rotated).get("b1", "rows") == VALUE
    with pytest.raises(ConfigError, match="the secret 1 is missing") as caught:
        Vault(storage, to_secrets({"2": "the second secret of the tests"})).get("b1", "rows")
    assert caught.value.hint is not None
    assert "loaded" not in caught.value.hint
    with pytest.raises(ConfigError, match="another secret 1") as caught:
        Vault(storage, to_secrets({"1": "not the first secret at all"})).get("b1", "rows")
    assert "not the first" not in str(caught.value)
    with pytest.raises(ConfigError, match="no secret"):
        Vault(storage, to_secrets({})).put("b1", "rows", VALUE)


def test_nothing_is_readable_on_storage(vault: Vault, tmp_path: Path) -> None:
    vault.put("b1", "rows", VALUE * 1000)
    vault.put("b1", "stream", io.BytesIO(VALUE * 1000))
    for file in files(tmp_path).values():
        content = file.read_bytes()
        assert VALUE not in content
        assert b"first secret" not in content
        assert file.stat().st_mode & 0o077 == 0
    first, second = sealed(tmp_path, "rows").read_bytes(), sealed(tmp_path, "stream").read_bytes()
    assert first[-100:] != second[-100:]
    vault.put("b1", "rows", VALUE * 1000)
    assert sealed(tmp_path, "rows").read_bytes() != first, "equal content must not be recognized"


def test_destroying_leaves_what_is_not_ours(vault: Vault, tmp_path: Path) -> None:
    vault.destroy("b1")
    vault.put("b1", "rows", VALUE)
    vault.put("b2", "rows", VALUE)
    foreign = tmp_path / FOLDER / "b1" / "notes.txt"
    foreign.write_text("not ours")
    (tmp_path / FOLDER / "not a batch").mkdir()
    (tmp_path / FOLDER / "b1" / ".new-abc").write_bytes(b"left behind by a write that was killed")
    assert vault.batches() == ["b1", "b2"]
    for _ in range(2):
        vault.destroy("b1")
        assert (vault.names("b1"), vault.batches()) == ([], ["b2"])
        with pytest.raises(StorageError, match="nothing is kept aside"):
            vault.get("b1", "rows")
    assert list(files(tmp_path)) == ["notes.txt"]
    assert vault.get("b2", "rows") == VALUE
    with pytest.raises(StorageError, match="nothing is kept aside as keys"):
        vault.get("b2", "keys")
    vault.destroy("b2")
    assert not (tmp_path / FOLDER / "b2").exists()


@pytest.mark.parametrize("batch", ["", ".", "..", "a/b", "../b1", "x" * 101])
def test_a_batch_cannot_leave_the_folder(vault: Vault, batch: str) -> None:
    with pytest.raises(ValueError, match="not the id of a batch"):
        vault.put(batch, "rows", VALUE)
    with pytest.raises(ValueError, match="not the id of a batch"):
        vault.destroy(batch)


def test_rows_come_back_with_their_types(vault: Vault) -> None:
    rows = pa.table(
        {
            "at": pa.array([1, None], pa.timestamp("ns", "Europe/Berlin")),
            "small": pa.array([255, 0], pa.uint8()),
            "nested": pa.array([[{"a": 1}], None]),
            "amount": pa.array([None, None], pa.decimal128(38, 10)),
            "odd.`name": pa.array([b"\x00", b""], pa.binary()),
            "void": pa.nulls(2),
        }
    ).replace_schema_metadata({"made by": "the test"})
    rows = rows.cast(rows.schema.set(1, pa.field("small", pa.uint8(), nullable=False)))
    for table in (rows, rows.slice(0, 0)):
        vault.put_table("b1", "staging.customers", table)
        assert vault.get_table("b1", "staging.customers").equals(table, check_metadata=True)
