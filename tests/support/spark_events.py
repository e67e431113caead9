"""Events of Spark on a busy machine, which tests have to wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MILLISECONDS = 100_000
ATTEMPTS = 20
LATE = "Python worker failed to connect back"

Result = TypeVar("Result")


def await_events(spark: SparkSession) -> None:
    """Return once all events of Spark's stages so far are written."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(MILLISECONDS)


def patiently(stream: Callable[[], Result]) -> Result:
    """Start a stream that goes on from its checkpoint, again if its process came too late.

    Spark gives the Python of a stream's source ten seconds to start, whatever else runs.
    """
    from pyspark.errors import StreamingQueryException

    for _ in range(ATTEMPTS - 1):
        try:
            return stream()
        except StreamingQueryException as error:
            if LATE not in str(error):
                raise
    return stream()
