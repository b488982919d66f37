"""Spark settings whose type is known: with a value of another type, no session starts.

Only settings that Spark reads in every session are listed; what Spark says about all others, it says when the session starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.config.shape import AnyScalar
from penstock.model.nearest import did_you_mean

_COUNT = re.compile(r"\+?0*[1-9][0-9]*\Z")
_OFFSET = re.compile(r"(UTC|GMT|UT)?[+-]\d{1,2}(:?\d{1,2}(:?\d{2})?)?\Z", re.ASCII)
_SIZE = re.compile(r"-?\d+([kmgtp]?b?)\Z", re.ASCII | re.IGNORECASE)
_JAVA_SIZE = re.compile(r"(0x)?\d+[kmgt]?\Z", re.ASCII | re.IGNORECASE)
_SHORT_ZONE = re.compile(r"Z|[A-Z]{2,3}|[A-Z]{3}\d[A-Z]{3}|GMT0|NZ-CHAT|W-SU")
_OLD_ZONES = (
    "Cuba", "Egypt", "Eire", "GB-Eire", "Greenwich", "Hongkong", "Iceland", "Iran", "Israel", "Jamaica", "Japan",
    "Kwajalein", "Libya", "Navajo", "Poland", "Portugal", "Singapore", "Turkey", "Universal", "Zulu",
)  # fmt: skip
_OLD_AREAS = ("SystemV/", "US/", "Canada/", "Mexico/", "Brazil/", "Chile/")
"""Java knows all of these; in the database of a machine they may be missing (Debian's tzdata without tzdata-legacy)."""
_SUBSTITUTED = "${"
"""Spark fills it in itself."""


def _count_problem(text: str) -> str | None:
    return None if _SUBSTITUTED in text or _COUNT.match(text.strip()) else "must be a whole number of at least 1"


def _flag_problem(text: str) -> str | None:
    is_flag = text.strip().lower() in {"true", "false"}
    return None if _SUBSTITUTED in text or is_flag else "must be true or false"


def _zone_problem(text: str) -> str | None:
    """What neither Java nor this machine knows; names are told apart by case, as Java does."""
    if _SUBSTITUTED in text or _OFFSET.match(text) or _SHORT_ZONE.fullmatch(text):
        return None
    if text in _OLD_ZONES or text.startswith(_OLD_AREAS):
        return None
    import zoneinfo  # few projects set it

    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = (
            zoneinfo.available_timezones()
        )  # none on a machine without the database: Spark says what it thinks of it
        near = did_you_mean(text, known)
        return f"must be a time zone, such as Europe/Berlin, UTC or +02:00{near}" if known else None
    return None


def _size_problem(text: str) -> str | None:
    return None if _SUBSTITUTED in text or _SIZE.match(text.strip()) else "must be a size, such as 512m or 2g"


def _java_size_problem(text: str) -> str | None:
    """Of the driver: its Java gets the text as it is."""
    return None if _SUBSTITUTED in text or _JAVA_SIZE.match(text) else "must be a size, such as 512m or 2g"


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
_SIZES = (
    "spark.driver.maxResultSize",
    "spark.driver.memoryOverhead",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.executor.pyspark.memory",
    "spark.memory.offHeap.size",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
)
SPARK_SETTINGS: Mapping[str, AnyScalar] = {
    **dict.fromkeys(_COUNTS, AnyScalar(as_text=True, problem=_count_problem)),
    **dict.fromkeys(_FLAGS, AnyScalar(as_text=True, problem=_flag_problem)),
    **dict.fromkeys(_SIZES, AnyScalar(as_text=True, problem=_size_problem)),
    "spark.driver.memory": AnyScalar(as_text=True, problem=_java_size_problem),
    "spark.sql.session.timeZone": AnyScalar(as_text=True, problem=_zone_problem),
}
