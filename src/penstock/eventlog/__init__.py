"""The append-only truth of every build: contract, backends by URI, projections. Never imports Spark."""
