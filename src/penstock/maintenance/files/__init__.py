"""A user's file written again without some of its records, everything else as it was; or refused before any write.

`parquet.rewrite_parquet` and `text.rewrite_text` write the new file aside and verify it. `replacing` puts it in the place of
the old one, and says after a kill which of the two is there. Nothing here knows tables, manifests or keys.
"""
