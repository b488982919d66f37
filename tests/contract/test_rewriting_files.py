"""Rewriting and replacing a file: the same on disk, on S3 and on Azure."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import ConcurrentRunError, RewriteError
from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.replacing import discard, has_aside, identify, replace
from penstock.maintenance.files.text import rewrite_text
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.values import FileState, Rewritten
from penstock.model.text_files import OnBadRow, TextFiles
from penstock.storage.files import Files, open_files
from penstock.storage.text.landing import LINE, Landing
from penstock.storage.text.reading import TextReading, read_text_footer
from tests.parquet_files import find_ids
from tests.storage_servers import BUCKET, open_azure, open_s3

NAME = "people/a.parquet"


def content(*ids: int) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table({"id": ids}), target)
    return target.getvalue()


class RewritingContract:
    """What every place of files does."""

    @pytest.fixture
    def files(self) -> Iterator[Files]:
        raise NotImplementedError

    def put(self, files: Files, name: str, content: bytes) -> None:
        """Write a file as a user does."""
        raise NotImplementedError

    def rewrite(self, files: Files) -> Rewritten:
        self.put(files, NAME, content(1, 2, 3))
        return rewrite_parquet(files, NAME, ["id"], find_ids(2))

    def test_a_file_is_replaced(self, files: Files) -> None:
        rewritten = self.rewrite(files)
        assert identify(files, rewritten) is FileState.OLD
        assert has_aside(files, rewritten)
        replace(files, rewritten)
        assert identify(files, rewritten) is FileState.NEW
        assert pq.read_table(io.BytesIO(files.read(NAME)))["id"].to_pylist() == [1, 3]
        assert [file.path for file in files.walk("")] == [NAME]
        assert files.walk("")[0].size == rewritten.new.size

    def test_replacing_again_does_nothing(self, files: Files) -> None:
        rewritten = self.rewrite(files)
        replace(files, rewritten)
        stamp = files.stamp(NAME)
        replace(files, Rewritten.from_json(rewritten.to_json()))
        assert files.stamp(NAME) == stamp

    def test_text(self, files: Files) -> None:
        self.put(files, "a.json", b'{"id": 1}\n{"id": 2}\n')
        replace(files, rewrite_text(files, "a.json", TextFormat(), lambda row: row["id"] == 1))
        assert files.read("a.json") == b'{"id": 2}\n'

    def test_a_file_that_somebody_changed_is_left_alone(self, files: Files) -> None:
        rewritten = self.rewrite(files)
        self.put(files, NAME, content(7))
        assert identify(files, rewritten) is FileState.OTHER
        with pytest.raises(RewriteError, match="changed by somebody else"):
            replace(files, rewritten)
        assert files.read(NAME) == content(7)

    def test_a_file_that_is_gone_stays_gone(self, files: Files) -> None:
        rewritten = self.rewrite(files)
        files.remove(NAME)
        assert identify(files, rewritten) is FileState.MISSING
        with pytest.raises(RewriteError, match="is gone"):
            replace(files, rewritten)
        assert not files.exists(NAME)

    @pytest.mark.parametrize("left", [None, b"cut o"])
    def test_without_the_whole_new_content_nothing_is_replaced(self, files: Files, left: bytes | None) -> None:
        rewritten = self.rewrite(files)
        assert rewritten.aside is not None
        files.remove(rewritten.aside)
        if left is not None:
            self.put(files, rewritten.aside, left)
        assert not has_aside(files, rewritten)
        with pytest.raises(RewriteError, match="not complete"):
            replace(files, rewritten)
        assert files.read(NAME) == content(1, 2, 3)

    def test_what_lies_aside_can_be_discarded(self, files: Files) -> None:
        rewritten = self.rewrite(files)
        discard(files, rewritten)
        discard(files, rewritten)
        assert [file.path for file in files.walk("")] == [NAME]
        assert identify(files, rewritten) is FileState.OLD

    def test_the_store_itself_refuses_a_file_that_changed(self, files: Files) -> None:
        """Between the look and the write, too."""
        rewritten = self.rewrite(files)
        assert rewritten.aside is not None
        stamp = files.stamp(NAME)
        assert stamp is not None
        self.put(files, NAME, content(7, 8))
        with pytest.raises(ConcurrentRunError):
            files.replace(rewritten.aside, NAME, stamp)
        assert files.read(NAME) == content(7, 8)

    def test_an_error_while_writing_leaves_nothing(self, files: Files) -> None:
        self.put(files, NAME, content(1))
        with suppress(KeyError), files.open_new("people/.b", NAME) as stream:
            stream.write(b"half")
            raise KeyError
        assert [file.path for file in files.walk("")] == [NAME]

    def test_a_raw_text_file_is_read_there_and_landed_there(self, files: Files) -> None:
        self.put(files, "people/2.csv.gz", gzip.compress(b"id,name\n1,a\n2\n"))
        reading = TextReading(TextFiles(on_bad_row=OnBadRow.QUARANTINE))
        footer = read_text_footer(files, "people/2.csv.gz", reading)
        landing = Landing(files, files, reading.settings)
        bad = landing.land("people/2.csv.gz", footer, footer.columns, "landed/run/people/2.csv.gz.parquet")
        assert bad is not None
        with files.open("landed/run/people/2.csv.gz.parquet") as stream:
            assert pq.read_table(stream).to_pylist() == [{"id": 1, "name": "a", LINE: 2}]
        with files.open(bad) as stream:
            assert pq.read_table(stream)[LINE].to_pylist() == [3]


class TestOnDisk(RewritingContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return open_files(str(tmp_path))

    def put(self, files: Files, name: str, content: bytes) -> None:
        file = Path(files.uri) / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)


class StoreContract(RewritingContract):
    """What object stores have besides."""

    def put(self, files: Files, name: str, content: bytes) -> None:
        obstore.put(files._store, name, content, attributes={"Content-Type": "x/y", "owner": "me"})

    def test_what_the_store_keeps_of_an_object_stays(self, files: Files) -> None:
        replace(files, self.rewrite(files))
        assert obstore.get(files._store, NAME).attributes == {"Content-Type": "x/y", "owner": "me"}

    def test_a_change_between_look_and_write_is_found_by_the_store(
        self, files: Files, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rewritten = self.rewrite(files)
        read = type(files)._put_over

        def put_over(self_: Files, path: str, *rest: object) -> None:
            self.put(files, path, content(9))
            read(self_, path, *rest)

        monkeypatch.setattr(type(files), "_put_over", put_over)
        with pytest.raises(RewriteError, match="changed by somebody else"):
            replace(files, rewritten)
        assert files.read(NAME) == content(9)


class TestOnS3(StoreContract):
    @pytest.fixture
    def files(self, s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
        for variable, value in s3_environment.items():
            monkeypatch.setenv(variable, value)
        yield open_files(f"s3://{BUCKET}/rewriting")
        store = open_s3(s3_environment)
        store.delete([each["path"] for batch in store.list("rewriting") for each in batch])

    def test_a_store_without_conditions_is_written_without_them(self, files: Files) -> None:
        rewritten = self.rewrite(files)
        simple = open_files(files.uri, settings={"aws_conditional_put": "disabled"})
        replace(simple, rewritten)
        assert identify(files, rewritten) is FileState.NEW


class TestOnAzure(StoreContract):
    @pytest.fixture
    def files(self, azure_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
        for variable, value in azure_environment.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
        yield open_files(f"az://{BUCKET}/rewriting")
        store = open_azure(azure_environment)
        store.delete([each["path"] for batch in store.list("rewriting") for each in batch])
