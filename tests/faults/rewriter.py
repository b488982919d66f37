"""A process that rewrites one file and replaces it, with a journal: what it finds there it goes on with.

rewriter.py FOLDER PATH JOURNAL
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RewriteError
from penstock.maintenance.files.parquet import rewrite_parquet
from penstock.maintenance.files.replacing import has_aside, identify, replace
from penstock.maintenance.files.text import rewrite_text
from penstock.maintenance.files.text_format import TextFormat
from penstock.maintenance.files.values import FileState, Rewritten
from penstock.storage.files import Files, open_files

GONE = "ann"


def rewrite(files: Files, path: str) -> Rewritten:
    if path.endswith(".parquet"):
        return rewrite_parquet(files, path, ["id"], lambda rows: pc.is_in(rows["id"], pa.array([GONE])))
    return rewrite_text(files, path, TextFormat(), lambda row: row["id"] == GONE)


def main() -> None:
    folder, path, journal = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    files = open_files(folder)
    rewritten = Rewritten.from_json(json.loads(journal.read_text())) if journal.exists() else None
    if rewritten is not None:
        state = identify(files, rewritten)
        if state not in {FileState.OLD, FileState.NEW}:
            raise RewriteError(f"the file is {state}")
        if state is FileState.OLD and not has_aside(files, rewritten):
            rewritten = None
    if rewritten is None:
        rewritten = rewrite(files, path)
        journal.write_text(json.dumps(rewritten.to_json()))
    replace(files, rewritten)


if __name__ == "__main__":
    main()
