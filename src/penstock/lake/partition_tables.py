"""Delta tables whose partitions are written by themselves, several at a time: each commit has an application id of its own.

Under one application id, Delta would skip a commit whose number is lower than one that was committed before it, and refuse two at
the same time. So every load has an application id of its own here, and every commit counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from penstock.errors import ConcurrentRunError, TakenOverError
from penstock.lake.delta_log import FENCED, Commit, iter_commits, to_application
from penstock.lake.log_repair import has_damaged_log
from penstock.lake.manifests import create_manifest
from penstock.lake.statements import complete_layout, quote, text
from penstock.model.names import DatasetName
from penstock.model.partitions.ordinals import from_numbers
from penstock.model.progress import Manifest
from penstock.model.spec import TableLayout
from penstock.model.types import type_from_json
from penstock.session.jobs import current_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter

    from penstock.lake.tables import Lake

RETENTION = {"delta.setTransactionRetentionDuration": "interval 30 days"}
"""Each commit has an application id: without this, a table would list those of all commits ever made."""


class FencedError(TakenOverError):
    """A load was taken over by another run, which made sure that it cannot commit any more."""

    code = "fenced"


@dataclass(frozen=True, slots=True)
class PartitionTable:
    """A table that has one Delta partition column."""

    lake: Lake
    name: DatasetName
    key: str

    def begin(self, manifest: Manifest, version: int | None) -> Manifest:
        """Write the manifest of a load, whose payload knows the table's commits up to this version."""
        number = self.lake.state(self.name).number or 0
        as_of = -1 if version is None else version
        return create_manifest(self.lake.files, self.name, replace(manifest, number=number, as_of=as_of))

    def is_laid_out(self) -> bool:
        """Whether the table on storage is partitioned by the key."""
        path = self.lake.files.spark_path(self.name.path)
        detail = self.lake.session.sql(f"DESCRIBE DETAIL delta.{quote(path)}").select("partitionColumns").collect()
        return [str(column) for column in detail[0][0]] == [self.key]

    def create(self, rows: DataFrame, begun: Manifest, layout: TableLayout, *, replaces: bool = False) -> Commit:
        """Make the table with the columns of these rows and without rows; with `replaces`, in place of another one.

        Without it, another process that made the table first is an error, and what it wrote since is kept.
        """
        complete = complete_layout(layout, type_from_json(rows.schema.jsonValue()))
        given = RETENTION | dict(complete.table_properties)
        ours = {key: value for key, value in given.items() if key.startswith("delta.")}
        writer = rows.limit(0).write.mode("overwrite" if replaces else "error").partitionBy(self.key)
        if replaces:
            writer = writer.option("overwriteSchema", "true")
        try:
            commit = self._save(writer.options(**ours), begun, replaces=replaces)
        except Exception as error:
            if "DELTA_PATH_EXISTS" not in str(error):
                raise
            raise ConcurrentRunError(f"{self.name} was made by another run meanwhile", hint="run again") from None
        others = {key: value for key, value in given.items() if key not in ours or replaces}
        self.lake.set_properties(self.name, others | ({"comment": layout.comment} if layout.comment else {}))
        return commit

    def evolve(self, rows: DataFrame, begun: Manifest) -> Commit:
        """Add the columns that the rows have and the table lacks, and widen types; writes no rows."""
        return self._save(rows.limit(0).write.mode("append").option("mergeSchema", "true"), begun)

    def replace(self, rows: DataFrame, values: Sequence[str], begun: Manifest) -> Commit:
        """Replace exactly these partitions by the rows; Delta refuses rows that belong to others."""
        return self._save(rows.write.mode("overwrite").option("replaceWhere", self.condition(rows, values)), begun)

    def write_aside(self, rows: DataFrame, values: Sequence[str], begun: Manifest) -> None:
        """The same for a table beside the one that a load is for, which is made when it is needed."""
        exists = self.lake.state(self.name).exists
        if exists and not has_damaged_log(self.lake.files, self.name.path) and self.is_laid_out():
            self.replace(rows, values, begun)
        else:
            writer = rows.write.mode("overwrite").option("overwriteSchema", "true")
            self._save(writer.partitionBy(self.key), begun, replaces=True)

    def empty(self, begun: Manifest) -> None:
        """Remove all rows, if there is such a table."""
        if self.lake.state(self.name).exists and not has_damaged_log(self.lake.files, self.name.path):
            self._save(self.lake.read(self.name).limit(0).write.mode("overwrite"), begun)

    def condition(self, rows: DataFrame, values: Sequence[str]) -> str:
        """The condition that holds for the rows of these partitions."""
        return to_condition(self.key, rows.schema[self.key].dataType.simpleString(), values)

    def fence(self) -> None:
        """Make sure that job runs which this one took over cannot commit any more: their application ids get a last version."""
        job = current_job()
        for number in job.fences if job is not None else ():
            nothing = self.lake.read(self.name).limit(0).write.format("delta").mode("append")
            with self.lake.writing(self.name):
                nothing.options(txnAppId=to_application(number), txnVersion=str(FENCED)).save(
                    self.lake.files.spark_path(self.name.path)
                )

    def _save(self, writer: DataFrameWriter, begun: Manifest, *, replaces: bool = False) -> Commit:
        """One commit, under the number of the job run's claim: whoever takes over knows it before anything is written.

        A table that is replaced need not have a readable log.
        """
        job = current_job()
        owner = job.number if job is not None and job.number is not None else begun.number
        numbered = writer.format("delta").options(txnAppId=to_application(owner), txnVersion=str(begun.number))
        with self.lake.writing(self.name, replaces=replaces):
            numbered.save(self.lake.files.spark_path(self.name.path))
        for commit in iter_commits(self.lake.files, self.name.path):
            if commit.number == begun.number:
                return commit
            if begun.as_of is not None and commit.version <= begun.as_of:
                break
        raise FencedError(
            f"{self.name}: another run took over this work; load {begun.number} changed nothing", hint="run again"
        )


def to_condition(key: str, type_: str, values: Sequence[str]) -> str:
    """The condition that a column of this type has one of these values.

    Delta checks it for each row that is written, without folding constants: so dates are ranges, and text is not cast.
    """
    column = quote(key)
    if type_ != "date":
        literals = ", ".join(
            text(value) if type_ == "string" else f"CAST({text(value)} AS {type_})" for value in values
        )
        return f"{column} IN ({literals})"
    days = from_numbers(date.fromisoformat(value).toordinal() for value in values)
    ends = [(date.fromordinal(each.start).isoformat(), date.fromordinal(each[-1]).isoformat()) for each in days]
    return " OR ".join(f"({column} >= DATE {text(a)} AND {column} <= DATE {text(b)})" for a, b in ends)
