"""Compaction: small files merged, hidden rows and duplicates removed; when it is due, by facts that need no JVM."""
