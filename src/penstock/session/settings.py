"""Every setting of a Spark session: for loads anywhere, for one machine, and what the user adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.model.project import SparkSettings
from penstock.session.class_archive import archive_options
from penstock.session.java import Java

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

LOADS = {
    # An append that evolves a table widens every type that Delta can widen, int to double and decimal included.
    "spark.databricks.delta.typeWidening.allowAutomaticWidening": "always",
    # Otherwise Spark substitutes `${...}` in names and texts by settings and environment values.
    "spark.sql.variable.substitute": "false",
    # The parser of Delta 4.4 does not pass on the new way in which Spark 4.2 fills in `args` of `spark.sql`: they stay unbound.
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    # Spark's default, INT96, is read as nanoseconds by other readers, which have no place for years before 1677 and after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What loads need in every session."""

_DELTA = {"spark.sql.extensions": EXTENSION, "spark.sql.catalog.spark_catalog": CATALOG}

EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # Spark 4.2.0 hangs forever when a Python UDF reads a file scan directly (ColumnarArrowEvalPython).
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # Delta's files have checksums of their pages, which Spark does not look at otherwise: damage could pass for other values.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    **LOADS,
}

QUICK = {
    # Delta spreads the state of every table version over this many tasks, 50 by default: on one machine most are empty.
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""What makes every commit on one machine faster, and changes no row."""

_LOCAL = {
    **QUICK,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

SHORT = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}

QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""One compiler instead of two. Java then reserves a fifth of the usual code cache, which many queries fill: it would stop
compiling, and later crash."""

_FAIR = {
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": Path(__file__).with_name("fair_pools.xml").as_uri(),
}
"""Job runs at the same time share the cores, instead of the first one taking all it can use."""

_LOGGING = Path(__file__).with_name("log4j2.properties")

_JOINED = {"spark.driver.extraClassPath": ":", "spark.jars": ",", "spark.sql.extensions": ","}
"""Lists that the user's values are added to: Delta does not work without ours."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a run needs of a session."""

    settings: SparkSettings
    configuration: Mapping[str, str]
    places: tuple[str, ...]
    """Where tables and raw files live: decides which connectors the session needs."""
    state_folder: Path
    name: str = "penstock"
    is_short: bool = False
    """The work is small: the JVM skips its optimizing compiler."""
    packages: tuple[str, ...] = ()
    """Maven coordinates of JDBC drivers that loads need."""


def to_session_options(request: SessionRequest, java: Java, jars: Sequence[Path]) -> dict[str, str]:
    """Every setting of a session that Penstock starts; the user's configuration overrides ours, or is added to it."""
    master = request.settings.master
    options = {"spark.app.name": request.name, "spark.master": master, **EVERYWHERE, **_DELTA, **_FAIR}
    options["spark.sql.warehouse.dir"] = str(request.state_folder / "warehouse")
    class_path = ":".join(map(str, jars))
    java_options: list[str] = []
    if master.startswith("local"):
        options |= {**_LOCAL, "spark.driver.extraClassPath": class_path}
        java_options = [*archive_options(java, jars), f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
        if request.is_short:
            options |= SHORT
            java_options += QUICK_COMPILER
    else:
        options["spark.jars"] = ",".join(map(str, jars))
    configuration = dict(request.configuration)
    java_options.append(configuration.pop("spark.driver.extraJavaOptions", ""))
    for key, separator in _JOINED.items():
        if configuration.get(key) and options.get(key):
            configuration[key] = _join(configuration[key], options[key], separator)
    joined = " ".join(option for option in java_options if option)
    return options | ({"spark.driver.extraJavaOptions": joined} if joined else {}) | configuration


def _join(theirs: str, ours: str, separator: str) -> str:
    given = theirs.split(separator)
    return separator.join([*given, *(part for part in ours.split(separator) if part not in given)])
