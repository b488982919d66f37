"""Spark settings whose type is known: with a value of another type, no session starts.

Only settings that Spark reads in every session are listed; what Spark says about all others, it says when the session starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.config.shape import AnyScalar

_COUNT = re.compile(r"\+?0*[1-9][0-9]*\Z")
_SUBSTITUTED = "${"
"""Spark fills it in itself."""


def _count_problem(text: str) -> str | None:
    return None if _SUBSTITUTED in text or _COUNT.match(text.strip()) else "must be a whole number of at least 1"


def _flag_problem(text: str) -> str | None:
    is_flag = text.strip().lower() in {"true", "false"}
    return None if _SUBSTITUTED in text or is_flag else "must be true or false"


_COUNTS = (
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism",
)
_FLAGS = (
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.skewJoin.enabled",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.execution.arrow.pyspark.enabled",
)
SPARK_SETTINGS: Mapping[str, AnyScalar] = {
    **dict.fromkeys(_COUNTS, AnyScalar(as_text=True, problem=_count_problem)),
    **dict.fromkeys(_FLAGS, AnyScalar(as_text=True, problem=_flag_problem)),
}
