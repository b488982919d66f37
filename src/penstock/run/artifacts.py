"""What a pipeline run writes for other programs: `manifest.json` and `run_results.json` in the project's state folder."""

from __future__ import annotations

import json
from typing import Any

from penstock.kinds.protocol import Workspace
from penstock.model.plan import Plan
from penstock.model.results import RunResult
from penstock.model.spec import DatasetSpec


def write_artifacts(workspace: Workspace, plan: Plan, result: RunResult) -> None:
    """Write both files, each atomically."""
    project = workspace.project
    manifest = {
        "format": 1,
        "project": project.name,
        "target": project.target,
        "datasets": [_to_json(spec) for spec in workspace.specs],
        "plan": plan.to_json(),
    }
    for name, content in (("manifest.json", manifest), ("run_results.json", result.to_json())):
        scratch = project.state_folder / f".{name}.{result.build_request_id}"
        scratch.write_text(json.dumps(content, indent=2) + "\n")
        scratch.replace(project.state_folder / name)


def _to_json(spec: DatasetSpec) -> dict[str, Any]:
    return {
        "dataset": str(spec.name),
        "kind": str(spec.kind),
        "location": str(spec.location),
        "inputs": [str(name) for name in spec.inputs],
        "fingerprint": spec.fingerprint,
        "tags": list(spec.tags),
        "comment": spec.layout.comment,
        "expectations": [expectation.to_json() for expectation in spec.expectations],
    }
