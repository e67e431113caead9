"""Rows per second from text to exact percentiles on local[2], against Spark's CSV reader.

    python -m bench.spark_rates [ROWS]

Both answer the same question in the same session, warm, in turn; medians are printed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from spark_analysis import transforms
from spark_analysis.reading import read_records
from spark_analysis.session import make_session
from spark_analysis.splits import discover

ROUNDS = 3
RATE = 1_000_000
RANKS = (50, 99, 99.9, 100)
START = 1_700_000_000_000
SPLIT = 64 << 20


def write_records(path: Path, rows: int) -> None:
    """Write a v3 receiver's records at a million messages a second."""
    random = np.random.default_rng(1)
    sent = START + np.arange(rows) // (RATE // 1000)
    received = np.maximum.accumulate(sent + random.integers(0, 3, rows))
    table = pa.table({"sent": sent, "received": received})
    pa.csv.write_csv(table, path, pa.csv.WriteOptions(include_header=False))


def ours(spark: SparkSession, path: Path) -> DataFrame:
    records = read_records(spark, discover([str(path)]), SPLIT)
    return transforms.percentiles(transforms.histograms(records), RANKS)


def csv(spark: SparkSession, path: Path) -> DataFrame:
    rows = spark.read.csv(str(path), schema="sent bigint, received bigint")
    histogram = rows.groupBy(
        F.lit("run").alias("run"),
        F.lit("receiver").alias("arrow"),
        F.lit("ms").alias("unit"),
        F.call_function("div", F.col("received"), F.lit(1000)).alias("second"),
        (F.col("received") - F.col("sent")).alias("latency"),
    ).agg(F.count("*").alias("n"))
    return transforms.percentiles(histogram, RANKS)


def timed(question: Callable[[], DataFrame]) -> tuple[float, list[float]]:
    start = time.perf_counter()
    [row] = question().collect()
    return time.perf_counter() - start, row.percentiles


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
    spark = make_session("local[2]", shuffle_partitions=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "receiver-transfers.csv")
        write_records(path, rows)
        sides = {"quiver": lambda: ours(spark, path), "csv": lambda: csv(spark, path)}
        answers = {name: timed(side)[1] for name, side in sides.items()}
        assert answers["quiver"] == answers["csv"]
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, side in sides.items():
                times[name].append(timed(side)[0])
    spark.stop()
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, seconds in medians.items():
        print(f"{name:8}{seconds:8.2f} s {rows / seconds / 1e6:8.1f} M rows/s")
    print(f"ratio   {medians['csv'] / medians['quiver']:8.1f}")


if __name__ == "__main__":
    main()
