"""The `penstock` command: one file per noun; commands never print, an Output does."""
