"""Copies of the projects below `tables_v*`, as they were on the machine that made them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tests.compat.make_tables import ROOT
from tests.projects import ProjectFolder

FORMATS = (1, 2, 3)


def copy_project(format_: int, root: Path) -> ProjectFolder:
    """The project of this format of manifests: paths are those of the copy, files are as old as the manifests say."""
    shutil.copytree(Path(__file__).parent / f"tables_v{format_}", root)
    for manifest in sorted(root.glob("storage/*/*/_penstock/*.json")):
        text = manifest.read_text().replace(ROOT, str(root))
        manifest.write_text(text)
        for file in json.loads(text)["files"]:
            path = root / "raw" / file["path"]  # the whole path of a change file stays what it is
            if path.exists():
                os.utime(path, ns=(file["modified_ns"], file["modified_ns"]))
    return ProjectFolder(root)
