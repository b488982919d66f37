"""Raw text files, CSV and JSON lines, read as exactly as Parquet: what a footer would say, and the same rows as Parquet.

There is one reader, for the plan and for the load. It never rounds, shifts or guesses: a record that is not certain is bad.
"""
