"""Flows of changes in definition files: what they become, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.project_file import load_project
from penstock.definitions.checking import check_inputs
from penstock.definitions.loading import load_definitions
from penstock.errors import DefinitionError
from penstock.model.changes import FeedFiles, SnapshotFunction
from penstock.model.names import DatasetName
from penstock.model.spec import DatasetKind, DatasetSpec

HEAD = "from penstock import pipelines as dp\n"
TARGET = 'dp.create_streaming_table("t", comment="c", tags=["x"])\n'


def load(folder: Path, text: str) -> dict[str, DatasetSpec]:
    (folder / "penstock.yml").write_text("name: shop\n")
    (folder / "transformations").mkdir(exist_ok=True)
    (folder / "transformations" / "flows.py").write_text(HEAD + text)
    return {spec.name.name: spec for spec in load_definitions(load_project(folder / "penstock.yml", environment={}))}


def test_a_flow_of_a_dataset(tmp_path: Path) -> None:
    spec = load(
        tmp_path,
        TARGET + 'dp.create_auto_cdc_flow("t", "staging.feed", ["id"], "ts", stored_as_scd_type=2, '
        'apply_as_deletes="op = 1", track_history_except_column_list=["seen"])\n',
    )["t"]
    assert (spec.kind, spec.layout.comment, spec.tags) == (DatasetKind.STREAMING_TABLE, "c", ("x",))
    assert spec.inputs == (DatasetName("staging", "feed"),)
    (flow,) = spec.flows
    assert (flow.name, flow.sequence_by, flow.apply_as_deletes) == ("t", "ts", "op = 1")
    assert flow.options.scd_type == 2
    assert flow.options.track_history_except_column_list == ("seen",)
    assert str(flow.location) == "transformations/flows.py:3"


def test_a_flow_of_change_files_is_found_from_the_projects_folder(tmp_path: Path) -> None:
    text = TARGET + 'dp.create_auto_cdc_flow("t", dp.change_files("feeds/t", envelope="debezium"), ["id"], "ts")\n'
    (flow,) = load(tmp_path, text)["t"].flows
    assert flow.source == FeedFiles(str(tmp_path / "feeds/t"), "json", "debezium", project=str(tmp_path))


def test_several_flows_into_one_target(tmp_path: Path) -> None:
    text = TARGET + "".join(
        f'dp.create_auto_cdc_flow("t", "staging.{feed}", ["id"], "ts", name="{feed}")\n' for feed in ("a", "b")
    )
    spec = load(tmp_path, text)["t"]
    assert [flow.name for flow in spec.flows] == ["a", "b"]
    assert spec.inputs == (DatasetName("staging", "a"), DatasetName("staging", "b"))


def test_a_snapshot_flow(tmp_path: Path) -> None:
    text = TARGET + 'dp.create_auto_cdc_from_snapshot_flow("t", "staging.now", ["sku"], stored_as_scd_type=2)\n'
    (flow,) = load(tmp_path, text)["t"].flows
    assert flow.is_snapshot
    assert flow.sequence_by is None


def test_a_snapshot_flow_of_a_function(tmp_path: Path) -> None:
    text = TARGET + "def ask(version):\n    return None\n"
    (flow,) = load(tmp_path, text + 'dp.create_auto_cdc_from_snapshot_flow("t", ask, ["sku"])\n')["t"].flows
    assert isinstance(flow.source, SnapshotFunction)
    assert flow.source.name == "ask"
    assert "0x" not in repr(flow), "a fingerprint of it must be the same tomorrow"


def test_a_temporary_view_is_no_source(tmp_path: Path) -> None:
    view = "@dp.temporary_view\ndef feed():\n    return dp.spark.range(1)\n"
    specs = load(tmp_path, TARGET + view + 'dp.create_auto_cdc_flow("t", "feed", ["id"], "ts")\n')
    with pytest.raises(DefinitionError, match="temporary view"):
        check_inputs(specs.values(), set())


FLOW = 'dp.create_auto_cdc_flow("t", "staging.feed", ["id"], "ts")\n'
WRONG = {
    "target not created": (FLOW, "main.t is not created", 2),
    "a table of raw files as target": ('dp.create_streaming_table("staging.t")\n', "staging.t cannot be defined", 2),
    "other keys": (
        TARGET + FLOW + 'dp.create_auto_cdc_flow("t", "staging.feed", ["no"], "ts", name="u")\n',
        "different keys",
        4,
    ),
    "a folder in another's": (
        TARGET
        + 'dp.create_auto_cdc_flow("t", dp.change_files("feeds"), ["id"], "ts")\n'
        + 'dp.create_auto_cdc_flow("t", dp.change_files("feeds/x"), ["id"], "ts", name="u")\n',
        "read nested folders",
        4,
    ),
    "other SCD type": (
        TARGET + FLOW + FLOW.replace('"ts")', '"ts", name="u", stored_as_scd_type=2)'),
        "different SCD types",
        4,
    ),
    "a snapshot beside another flow": (
        TARGET + FLOW + 'dp.create_auto_cdc_from_snapshot_flow("t", "staging.now", ["id"], name="u")\n',
        "not the only flow",
        4,
    ),
    "a snapshot of change files": (
        TARGET + 'dp.create_auto_cdc_from_snapshot_flow("t", dp.change_files("f"), ["id"])\n',
        "cannot be the source of a snapshot",
        3,
    ),
    "no flow": (TARGET, "main.t has no flow", 2),
    "created twice": (TARGET + TARGET, "created twice", 3),
    "two flows of one name": (TARGET + FLOW + FLOW, "two flows called 't'", 4),
    "no keys": (TARGET + 'dp.create_auto_cdc_flow("t", "staging.feed", [], "ts")\n', "keys is empty", 3),
    "keys as a number": (TARGET + 'dp.create_auto_cdc_flow("t", "staging.feed", 5, "ts")\n', "keys must be a list", 3),
    "keys as text": (TARGET + 'dp.create_auto_cdc_flow("t", "staging.feed", "id", "ts")\n', "keys must be a list", 3),
    "no sequence": (TARGET + 'dp.create_auto_cdc_flow("t", "staging.feed", ["id"], None)\n', "sequence_by must be", 3),
    "no source": (TARGET + 'dp.create_auto_cdc_flow("t", None, ["id"], "ts")\n', "source must be text", 3),
    "scd type": (
        TARGET + 'dp.create_auto_cdc_flow("t", "staging.feed", ["id"], "ts", stored_as_scd_type=3)\n',
        "stored_as_scd_type",
        3,
    ),
    "tracking with SCD1": (
        TARGET + 'dp.create_auto_cdc_flow("t", "staging.f", ["id"], "ts", track_history_column_list=["a"])\n',
        "need stored_as_scd_type=2",
        3,
    ),
    "format": (
        TARGET + 'dp.create_auto_cdc_flow("t", dp.change_files("f", format="xml"), ["id"], "ts")\n',
        "change files are json",
        3,
    ),
    "unknown setting": ('dp.create_streaming_table("t", colour="red")\n', "no parameter 'colour'", 2),
    "defined twice": (
        TARGET + FLOW + "@dp.table\ndef t():\n    return dp.read('staging.feed')\n",
        "main.t is defined twice",
        4,
    ),
}


@pytest.mark.parametrize(("text", "message", "line"), WRONG.values(), ids=WRONG)
def test_a_wrong_flow_is_told_with_its_line(tmp_path: Path, text: str, message: str, line: int) -> None:
    with pytest.raises(DefinitionError, match=message) as caught:
        load(tmp_path, text)
    assert str(caught.value.location) == f"transformations/flows.py:{line}"
