"""What a forked command need not import any more: all of Penstock, and what its commands import when they need it."""

from __future__ import annotations

import importlib
import pkgutil

import deltalake  # noqa: F401
import grpc  # noqa: F401
import pandas as pd  # noqa: F401
import pyspark.sql.connect.functions
import pyspark.sql.connect.session  # noqa: F401
import rich.table  # noqa: F401

import penstock

for _module in pkgutil.walk_packages(penstock.__path__, "penstock."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
