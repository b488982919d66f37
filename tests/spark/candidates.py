"""The scenario of erasure and compaction: candidates with 15 columns, three of whom ask to be forgotten."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine import Engine, open_engine
from tests.projects import ProjectFolder

GONE = ("CAND-000001", "CAND-000002", "CAND-000003")
SETTINGS = """
name: candidates
erasure:
  secrets: {"1": "a secret of this project, long enough"}
  hide: vectors
  subjects:
    candidate:
      staging.candidates: {key: candidate_id, personal: [email, phone]}
"""


def make_candidates(root: Path, count: int) -> ProjectFolder:
    """One raw file of candidates; personal values are unlike anybody else's."""
    project = ProjectFolder(root).configure(SETTINGS)
    file = project.raw("candidates", "0001", candidates(count))
    pq.write_table(pq.read_table(file), file, compression="snappy")
    return project


def candidates(count: int) -> pa.Table:
    rng = random.Random(15)
    ids = [f"CAND-{number:06d}" for number in range(1, count + 1)]
    words = [f"word{number}" for number in range(500)]
    return pa.table(
        {
            "candidate_id": ids,
            "email": [f"{rng.randbytes(8).hex()}.{id_.lower()}@example.org" for id_ in ids],
            "phone": [f"+49 {rng.randrange(10**10):010d} {id_[-6:]}" for id_ in ids],
            "city": [rng.choice(("Rome", "Oslo", "Bonn", "Kiel")) for _ in ids],
            "country": [rng.choice(("IT", "NO", "DE")) for _ in ids],
            "age": [rng.randrange(18, 70) for _ in ids],
            "salary": [rng.randrange(20_000, 200_000) / 100 for _ in ids],
            "score": [rng.random() for _ in ids],
            "is_active": [rng.random() < 0.5 for _ in ids],
            "applied_at": pa.array([1_700_000_000_000_000 + rng.randrange(10**13) for _ in ids], pa.timestamp("us")),
            "source": [rng.choice(("web", "fair", "mail")) for _ in ids],
            "skills": [" ".join(rng.choices(words, k=4)) for _ in ids],
            "notes": [" ".join(rng.choices(words, k=6)) for _ in ids],
            "degree": [rng.choice(("BSc", "MSc", "PhD")) for _ in ids],
            "batch": [rng.randrange(100) for _ in ids],
        }
    )


def open_candidates(project: ProjectFolder) -> Engine:
    return open_engine(project.root, environment={})
