"""The Spark session of a job."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from quiver_fast.errors import QuiverError
from spark_analysis.java import why_java_is_missing

__all__ = ["make_session"]


def make_session(master: str | None = None, shuffle_partitions: int | None = None) -> SparkSession:
    """Return a session; the one of ``spark-submit`` where it has made one.

    Args:
        master: a Spark master; None for ``spark-submit``'s, else ``local[*]``.
        shuffle_partitions: the number of partitions after a shuffle; None for Spark's.

    Raises:
        QuiverError: Java is missing or too old.
    """
    missing = why_java_is_missing()
    if missing is not None:
        raise QuiverError(missing)
    # Workers must have the compiled parser: the driver's Python has it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.appName("quiver-analysis")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    if master is not None:
        builder = builder.master(master)
    elif "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master("local[*]")
    if shuffle_partitions is not None:
        builder = builder.config("spark.sql.shuffle.partitions", shuffle_partitions)
    return builder.getOrCreate()
