"""The auxiliary table of an AutoCDC target: change events that its rows cannot express, as segments next to its progress.

A segment is written before the commit of its load and counts only if the committed progress manifest lists it. So one commit
decides for both tables, nothing here needs its own transaction, and what a failed load left is never read.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.errors import ChangeFlowError
from penstock.kinds.cdc.progress import SEGMENTS, Identity, Segment
from penstock.lake.manifests import FOLDER
from penstock.model.changes import Flow
from penstock.model.names import DatasetName
from penstock.model.progress import RawFile
from penstock.model.types import quote_name
from penstock.storage.files import Files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_IDENTITY = "target.json"
_SEGMENT = re.compile(r"\d{20}-[0-9a-f]{32}(\.parquet)?")
_FEW = 100_000


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """The segments of one target."""

    session: SparkSession
    files: Files
    name: DatasetName
    base: int
    """The load that was read: what is written from it counts only if no other load commits first."""

    @property
    def folder(self) -> str:
        return f"{self.name.path}/{FOLDER}/{SEGMENTS}"

    def begin(self, identity: Identity) -> None:
        """Create the table's folder with the target's identity, which is needed when the progress is lost."""
        path = f"{self.folder}/{_IDENTITY}"
        if _IDENTITY in self.files.names(self.folder):
            with suppress(FileNotFoundError):
                self.files.remove(path)
        with suppress(FileExistsError):  # two writers create the same target
            self.files.create(path, json.dumps(identity.to_json()).encode())

    def read_identity(self) -> Identity:
        """The target's identity; ChangeFlowError when it is missing too, because then segments may be missing as well."""
        try:
            return Identity.from_json(json.loads(self.files.read(f"{self.folder}/{_IDENTITY}")))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            raise damaged_error(self.name, "its folder is missing") from None

    def read(self, segments: Sequence[Segment], flow: Flow) -> DataFrame:
        """The events of these segments; ChangeFlowError when one of them is gone or was changed."""
        sizes = self._sizes()
        broken = [segment.name for segment in segments if sizes.get(segment.name) != segment.size]
        if broken:
            raise damaged_error(self.name, f"{len(broken)} of its {len(segments)} segments are missing or changed")
        paths = [self.files.spark_path(f"{self.folder}/{segment.name}") for segment in segments]
        return self.session.read.schema(to_schema(flow)).parquet(*paths)

    def read_small(self, segments: Sequence[Segment], like: pa.Schema) -> pa.Table | None:
        """The same without Spark, `key`, `sequence` and `data` in the types of `like`; None when there are too many rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if sum(segment.rows for segment in segments) > _FEW or not all(s.name.endswith(".parquet") for s in segments):
            return None
        shape = pa.schema(
            [*(like.field(n) for n in ("key", "sequence", "kind", "data")), pa.field("attempt", pa.int64())]
        )
        found = []
        for segment in segments:
            with self.files.open(f"{self.folder}/{segment.name}") as file:
                table = pq.read_table(file, columns=shape.names)
            columns = [align(table.column(field.name).combine_chunks(), field.type) for field in shape]
            found.append(pa.table(columns, schema=shape))
        return pa.concat_tables(found)

    def write_small(self, rows: pa.Table, truncates: int) -> Segment:
        """Write a segment of few rows without Spark, in one file."""
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(rows, buffer, compression="zstd")
        name = f"{self.base:020d}-{uuid4().hex}.parquet"
        self.files.create(f"{self.folder}/{name}", buffer.getvalue())
        return Segment(name, rows.num_rows, buffer.tell(), truncates)

    def write_large(self, rows: DataFrame, count: int, truncates: int) -> Segment:
        """Write a segment by Spark, as a folder of files."""
        name = f"{self.base:020d}-{uuid4().hex}"
        rows.write.parquet(self.files.spark_path(f"{self.folder}/{name}"))
        size = sum(file.size for file in self.files.walk(f"{self.folder}/{name}"))
        return Segment(name, count, size, truncates)

    def find_all(self) -> tuple[Segment, ...]:
        """Every segment on storage: all of them count when it is unknown which were committed.

        They hold events of the feed, which come again. But what a load that failed gave up may still be needed.
        """
        rows = self._count_rows()
        return tuple(
            Segment(name, rows.get(name, 0), size, truncates=1, forgets=False)
            for name, size in sorted(self._sizes().items())
        )

    def check(self, segments: Sequence[Segment]) -> None:
        """ChangeFlowError when one of these segments cannot be read; every page is checked."""
        names = {segment.name for segment in segments}
        for name, file in self._files():
            if name in names and file.path.endswith(".parquet"):
                self._look_into(name, file, lambda content: content.read())

    def _count_rows(self) -> dict[str, int]:
        rows: dict[str, int] = {}
        for name, file in self._files():
            if file.path.endswith(".parquet") and "/_temporary/" not in file.path:  # left by a killed writer
                found = self._look_into(name, file, lambda content: content.metadata.num_rows)
                rows[name] = rows.get(name, 0) + (found or 0)
        return rows

    def _look_into(self, name: str, file: RawFile, look: Callable[[Any], Any]) -> Any:
        """What `look` finds in a Parquet file; None when another writer removed it meanwhile."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with self.files.open(file.path) as content:
                return look(pq.ParquetFile(content))
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError):
            raise damaged_error(self.name, f"its segment {name} cannot be read") from None

    def _sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name, file in self._files():
            sizes[name] = sizes.get(name, 0) + file.size
        return sizes

    def _files(self) -> Iterator[tuple[str, RawFile]]:
        """All files, each with the segment that it belongs to."""
        for file in self.files.walk(self.folder):
            name = file.path.removeprefix(f"{self.folder}/").split("/")[0]
            if _SEGMENT.fullmatch(name):
                yield name, file

    def find_unlisted(self, listed: Iterable[Segment]) -> dict[str, int]:
        """Segments that a failed load left, or that a load in progress is about to commit; with their sizes."""
        names = {segment.name for segment in listed}
        return {name: size for name, size in self._sizes().items() if name not in names}

    def segment_of(self, address: str) -> str:
        """The name of the segment that a file belongs to."""
        return address.rsplit(f"/{self.folder}/", 1)[-1].split("/", maxsplit=1)[0]

    def remove_except(self, kept: Iterable[Segment]) -> None:
        """Remove segments that no progress manifest lists any more.

        A segment of an earlier load than ours can no longer count: that load finds the table changed.
        """
        names = {segment.name for segment in kept}
        for name, file in self._files():
            if name not in names and int(name[:20]) <= self.base:
                with suppress(FileNotFoundError):  # another writer cleans up too
                    self.files.remove(file.path)


def align(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """The values in another type; a struct field by field, because columns may have been added or widened since."""
    import pyarrow as pa

    if not pa.types.is_struct(type_):
        return values.cast(type_)
    known = {field.name: index for index, field in enumerate(values.type)}
    children = [
        align(values.field(known[field.name]), field.type) if field.name in known else pa.nulls(len(values), field.type)
        for field in type_
    ]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=values.is_null())


def to_schema(flow: Flow) -> str:
    """The columns of a segment, as a Spark schema."""

    def fields(columns: Iterable[Any]) -> str:
        return ", ".join(f"{quote_name(column.name)}: {column.type}" for column in columns)

    return (
        f"key struct<{fields(flow.key_columns)}>, sequence {flow.sequence_type}, kind int, "
        f"data struct<{fields(flow.columns)}>, silent array<string>, attempt bigint"
    )


def damaged_error(name: DatasetName, what: str) -> ChangeFlowError:
    """The auxiliary table cannot be trusted: with it, rows would become wrong."""
    return ChangeFlowError(
        "auxiliary_damaged",
        f"{name}: the auxiliary table is damaged: {what}; nothing was written",
        hint="restore the target's _penstock folder from a backup, or rebuild the target from the change feed; "
        f"in a pipeline: penstock run --full-refresh {name}",
    )
