"""Who builds a partition when several builds need it: claims over the event log, on every backend.

`book` folds events into claims, the same for every reader. `asking` is what a build does: claim, delegate, take over, check.
`heartbeats` shows that a build is alive. This room knows references, builds and job runs; it must not know what is built.
"""
