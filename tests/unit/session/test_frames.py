"""What counts as a DataFrame of Spark; no session is needed to tell."""

from __future__ import annotations

import pandas as pd
import pytest
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
from pyspark.sql.connect.functions import lit

from penstock.session.opening import is_spark_frame


class Wrapped(ClassicFrame):
    """What a library makes of a frame."""


@pytest.mark.parametrize("kind", [ClassicFrame, ConnectFrame, Wrapped])
def test_frames_are_told_by_their_class(kind: type) -> None:
    assert is_spark_frame(object.__new__(kind))


@pytest.mark.parametrize("given", [lit(1), lit(1).isStreaming, None, 1, pd.DataFrame(), ClassicFrame])
def test_other_values_are_not_frames_even_if_they_have_every_attribute(given: object) -> None:
    assert not is_spark_frame(given)
