"""A load that finds others begun fences them off, but not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from builders import NAME, begin, load
from penstock.errors import ConcurrentRunError
from penstock.lake.tables import Lake
from penstock.model.progress import Entry, Manifest
from penstock.storage.local import LocalFiles


@pytest.mark.parametrize(("others", "fences"), [(0, 0), (1, 1), (99, 10)])
def test_others_that_begin_again_and_again_end_the_load(
    others: int, fences: int, storage: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(storage, complete=True)
    lake = Lake(None, storage)  # type: ignore[arg-type] - the fence, which needs Spark, is replaced
    fenced, begun = [], Lake.begin

    def begin_beside(self: Lake, manifest: Manifest, *names: Any) -> Manifest:
        if len(fenced) < others:
            begin(storage)
        return begun(self, manifest, *names)

    def fence(*_: object) -> None:
        fenced.append(load(storage, entry=Entry.FENCE))

    monkeypatch.setattr(Lake, "begin", begin_beside)
    monkeypatch.setattr(Lake, "_fence", fence)
    manifest = Manifest(str(NAME), 0, 1, build_request_id="us")
    if others <= 1:
        assert lake.begin_append(manifest, NAME, 1).number > 1
    else:
        with pytest.raises(ConcurrentRunError, match="again and again"):
            lake.begin_append(manifest, NAME, 1)
    assert len(fenced) == fences
