"""Partitions of datasets: their names, which ones exist, what a request for them means, and which ones read which.

Everything here is arithmetic on ordinals. It must not read tables or make a list where a range is enough.
"""
