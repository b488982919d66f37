"""One erasure from the first load to the receipt, in a process of its own whose Spark keeps an event log; says what it found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.engine import Engine, open_engine
from penstock.maintenance.scan.needles import Needle
from penstock.maintenance.scan.places import FolderPlace
from penstock.maintenance.scan.scanner import scan_for_residue
from penstock.maintenance.tables.values import Caution
from penstock.storage.files import open_files
from penstock.transforms.key_hashes import to_pads
from tests.projects import ProjectFolder
from tests.spark.erasure_projects import ANN, BOB, feed

PERSONAL = (ANN, "Ann Miller", "Ann of Erasure Street")


def scan(folders: list[Path], texts: tuple[str, ...]) -> list[str]:
    """The files below these folders that have one of the texts, in any encoding."""
    places = [FolderPlace(str(folder), open_files(str(folder))) for folder in folders]
    result = scan_for_residue([Needle(text, (text,)) for text in texts], places)
    assert not result.unreadable, result.unreadable
    return sorted({f"{Path(hit.place).name}/{hit.file}: {hit.where}" for hit in result.hits})


def find_bytes(root: Path, contents: list[bytes]) -> list[str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(root)) for path in files if any(each in path.read_bytes() for each in contents))


def check_run(engine: Engine) -> int:
    result = engine.run()
    problems = [str(item.problem) for item in result.items if item.problem]
    assert not problems, problems
    return sum(item.load.suppressed for item in result.items if item.load)


def main(root: Path, secret: str) -> None:
    project = ProjectFolder(root)
    pads = to_pads("1", secret.encode())
    secrets = (secret, secret.encode().hex(), pads.inner.hex(), pads.outer.hex())
    raw = [secret.encode(), pads.inner, pads.outer]
    found: dict[str, object] = {}
    environment = {"ERASURE_SECRET": secret}
    with open_engine(root, environment=environment) as engine:
        check_run(engine)
        engine.erasure.add("customer", [f"email={ANN}"], reason="DSR-17")
        values = {"email": [ANN.upper(), BOB], "name": [PERSONAL[2], "Bob"], "age": ["thirty", "41"]}
        project.raw("customers", "0002", {**values, "age": [40, 41]})
        project.raw("customers", "0003", values)
        feed(project, "2", (ANN, "Paris", 9), (BOB, "Kiel", 4), (ANN, None, 12))
        found["suppressed"] = check_run(engine)
        clean = [root / name for name in ("events", ".penstock", "storage/_penstock")]
        found["sealed"] = len(list((root / "storage/_penstock/aside").rglob("*.sealed")))
        found["before"] = scan(clean, (*PERSONAL, *secrets))
        found["secrets before"] = [*scan([root], secrets), *find_bytes(root, raw)]
        (receipt,) = engine.erasure.erase(caution=Caution(settle=0.5, wait=20)).receipts
        found["hits"] = receipt.scan.hits
    found["after"] = [*scan([root], (*PERSONAL, *secrets)), *find_bytes(root, raw)]
    found["logged"] = sum(path.stat().st_size for path in (root / "events").rglob("*") if path.is_file())
    found["sealed after"] = len(list((root / "storage/_penstock/aside").rglob("*.sealed")))
    print(json.dumps(found))  # noqa: T201 - for the test that started this process


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
