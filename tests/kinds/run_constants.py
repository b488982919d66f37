"""`penstock run` of a project, with a kind from outside: what a user's own program would do."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.engine import open_engine
from penstock.kinds.registry import KINDS
from tests.kinds.constants import ConstantsKind

if __name__ == "__main__":
    with open_engine(Path(sys.argv[1]), environment={}, kinds=(*KINDS, ConstantsKind())) as engine:
        sys.exit(engine.run().has_failed)
