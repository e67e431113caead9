"""The Spark session of a job."""

from __future__ import annotations

import os
import re
import sys

from pyspark.sql import SparkSession

from quiver_fast.errors import QuiverError
from spark_analysis.java import why_java_is_missing

__all__ = ["make_session", "reason"]

# A short job is over before the second compiler has paid its work back, and on few cores it
# takes them from what starts.
_LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_CALL_FAILED = "An error occurred while calling"
_CAUSE = "Caused by: "
_OWN_ERROR = re.compile(r"\s*(quiver_fast\.errors\.\w+|\w*Error): ")


def make_session(
    master: str | None = None, shuffle_partitions: int | None = None, *, light: bool = False
) -> SparkSession:
    """Return the session that there is, ``spark-submit``'s for one, or a new one.

    Args:
        master: a Spark master; None for ``spark-submit``'s, else ``local[*]``.
        shuffle_partitions: the number of partitions after a shuffle; None for two per
            core on this machine, and Spark's own number on a cluster.
        light: on this machine, Java starts sooner and runs slower: for jobs whose work is
            in Python alone.

    Raises:
        QuiverError: Java is missing or too old.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    missing = why_java_is_missing()
    if missing is not None:
        raise QuiverError(missing)
    # Workers must have the compiled parser: the driver's Python has it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.appName("quiver-analysis")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local") and light:
            builder = builder.config("spark.driver.extraJavaOptions", _LIGHT_JAVA)
        if master.startswith("local") and shuffle_partitions is None:
            # Each costs a task in Python; Spark's 200 are for a cluster.
            shuffle_partitions = 2 * (os.cpu_count() or 1)
    if shuffle_partitions is not None:
        builder = builder.config("spark.sql.shuffle.partitions", shuffle_partitions)
    return builder.getOrCreate()


def reason(error: Exception) -> str:
    """Return our own error's line from an executor's traceback, or Spark's first line."""
    lines = str(error).strip().splitlines()
    own = [line for line in lines if _OWN_ERROR.match(line)]
    if own:
        return own[-1].split(": ", 1)[1].strip()
    # py4j's own line says only which call failed, and Java's often only where.
    causes = [line for line in lines if line.startswith(_CAUSE)] or lines
    said = causes[-1] if lines[0].startswith(_CALL_FAILED) else lines[0]
    return said.removeprefix(_CAUSE).strip()
