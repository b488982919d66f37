"""Keys erased from what is not a Delta table: raw files, change files, copies of any kind, and auxiliary tables.

`erasing` is the entry. Spark finds the records (`searching`), `maintenance.files` writes the files again (`rewriting`), and the
progress of every table that read them accepts the old and the new content meanwhile (`accepting`).
"""
