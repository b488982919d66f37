"""Change feeds of any size, and who applies them: Penstock, the MERGE that blogs teach, and Spark 4.3's handlers."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql import functions as F
from spark43_handler import Changes, Spark43Handler

import penstock
from penstock.model.changes import RESERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STEP = 1000
"""So far the sequences of one batch reach; late events are up to three batches late."""
LATE, DELETES = 0.2, 0.1


@dataclass(slots=True)
class Feed:
    """Batches of events for random keys; each key at most once in a batch, for the MERGE cannot do with more."""

    keys: int
    rows: int
    is_calm: bool = False
    """Deletes come in order and for rows that exist, so that nothing has to be remembered beside the target."""
    seed: int = 1
    _number: int = 0
    _gone: set[int] = field(default_factory=set)

    def first(self, session: SparkSession) -> DataFrame:
        """As many upserts as the target is to have rows: the history of every key."""
        number = F.col("id")
        return session.range(self.rows).select(
            (number % self.keys).alias("id"),
            F.lit("U").alias("op"),
            (F.floor(number / self.keys) * STEP).cast("bigint").alias("ts"),
            F.concat(F.lit("name "), number).alias("name"),
            F.lit("first").alias("city"),
        )

    def batch(self, session: SparkSession, count: int) -> DataFrame:
        """The next batch, on the driver already."""
        self._number += 1
        chance = random.Random(self.seed * 1_000_003 + self._number)  # noqa: S311 - a benchmark
        begin = (self.rows // self.keys + 10 + self._number) * STEP
        events = [self._event(chance, key, begin) for key in chance.sample(range(self.keys), count)]
        columns = [pa.array(column) for column in zip(*events, strict=True)]
        return session.createDataFrame(pa.table(dict(zip(("id", "op", "ts", "name", "city"), columns, strict=True))))

    def _event(self, chance: random.Random, key: int, begin: int) -> tuple[int, str, int, str, str]:
        is_late, is_delete = chance.random() < LATE, chance.random() < DELETES
        if self.is_calm and (is_late or key in self._gone):
            is_delete = False
        (self._gone.add if is_delete else self._gone.discard)(key)
        at = begin + chance.randrange(STEP) - (chance.randrange(3 * STEP) if is_late else 0)
        return key, "D" if is_delete else "U", at, f"name in batch {self._number}", f"city {chance.randrange(50)}"


class Contender(Protocol):
    """Somebody who keeps a target."""

    def apply(self, batch: DataFrame) -> Any:
        """Apply one batch."""


def time_of(contender: Contender, batch: DataFrame) -> float:
    begun = time.perf_counter()
    contender.apply(batch)
    return time.perf_counter() - begun


@dataclass(slots=True)
class Ours:
    """A target of `penstock.apply_changes`."""

    session: SparkSession
    path: Path
    scd_type: int = 2
    wrote_auxiliary: bool = False
    _auxiliary: tuple[int, int] = (0, 0)

    def apply(self, batch: DataFrame) -> None:
        found = penstock.apply_changes(
            self.session,
            batch,
            str(self.path),
            keys=["id"],
            sequence_by="ts",
            apply_as_deletes="op = 'D'",
            except_column_list=["op", "ts"],
            stored_as_scd_type=self.scd_type,
        )
        now = (found.auxiliary_rows, found.auxiliary_bytes)
        self.wrote_auxiliary, self._auxiliary = now != self._auxiliary, now

    def read(self) -> DataFrame:
        return self.session.read.format("delta").load(str(self.path)).drop(RESERVED)


@dataclass(slots=True)
class ByHand:
    """The two-source MERGE of the blogs: right for events in order, of which it gets one for each key."""

    session: SparkSession
    path: Path

    def fill(self, rows: DataFrame) -> None:
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(self.path))

    def apply(self, batch: DataFrame) -> None:
        batch.createOrReplaceTempView("updates")
        is_changed = "NOT ({0}.name <=> {1}.name AND {0}.city <=> {1}.city)"
        target = f"delta.`{self.path}`"
        self.session.sql(f"""
            MERGE INTO {target} t USING (
              SELECT u.id AS merge_key, u.* FROM updates u
              UNION ALL
              SELECT NULL AS merge_key, u.* FROM updates u JOIN {target} c ON u.id = c.id
              WHERE c.__END_AT IS NULL AND u.op <> 'D' AND {is_changed.format("u", "c")}
            ) s ON t.id = s.merge_key AND t.__END_AT IS NULL
            WHEN MATCHED AND (s.op = 'D' OR {is_changed.format("s", "t")}) THEN UPDATE SET __END_AT = s.ts
            WHEN NOT MATCHED AND s.op <> 'D' THEN
              INSERT (id, name, city, __START_AT, __END_AT) VALUES (s.id, s.name, s.city, s.ts, NULL)
        """)


@dataclass(slots=True)
class BySpark43:
    """Spark 4.3's own handler, with the batch numbers that a stream would give it."""

    handler: Spark43Handler
    _number: int = 0

    def apply(self, batch: DataFrame) -> None:
        self._number += 1
        self.handler.apply(batch, self._number)


def declare_to_spark43() -> Changes:
    return Changes(("id",), "ts", "op = 'D'", except_column_list=("op", "ts"))


@dataclass(slots=True)
class Floor:
    """The least that a batch could cost: append some rows, and read the rows of some keys."""

    session: SparkSession
    path: Path

    def apply(self, batch: DataFrame) -> None:
        place = str(self.path)
        rows = batch.selectExpr("id", "name", "city", "ts AS __START_AT", "CAST(NULL AS BIGINT) AS __END_AT")
        rows.coalesce(1).write.format("delta").mode("append").save(place)
        self.session.read.format("delta").load(place).join(F.broadcast(batch.select("id")), "id", "left_semi").toArrow()
