"""Rows per second from text on local[2]: the full summary, and Spark's CSV reader's histogram.

    python -m bench.spark_rates [--no-csv] [ROWS…]

Both read the same file in the same session, warm, in turn; medians are printed. ``cold`` is
our first summary with the start of the session, in a process of its own. Without CSV the
growth with the rows is measured in little time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from bench.record_workload import make_times, write_file
from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.sources import Wanted
from spark_analysis.backend import load_run
from spark_analysis.session import make_session

ROUNDS = 3
# The rows that fit into memory as columns: longer files repeat them with later times.
PIECE = 10_000_000


def write_records(path: Path, rows: int) -> None:
    """Write a v3 receiver's records at two million messages a second."""
    sent, received = make_times(min(rows, PIECE))
    duration = int(sent[-1] - sent[0]) + 1
    part = path.with_suffix(".part")
    with path.open("wb") as whole:
        for number in range(-(-rows // PIECE)):
            later = number * duration
            size = min(PIECE, rows - number * PIECE)
            write_file(str(part), sent[:size] + later, received[:size] + later)
            whole.write(part.read_bytes())
            part.unlink()


def session(*, light: bool = False) -> SparkSession:
    return make_session("local[2]", shuffle_partitions=2, light=light)


def summarise(spark: SparkSession, path: Path) -> int:
    """Return the number of messages in the full summary."""
    run = load_run(spark, RunFiles("run", receiver=path), lambda _done, _total: None, Wanted())
    assert run.receiver is not None
    return int(run.receiver["results"]["message_count"])


def count_csv(spark: SparkSession, path: Path) -> int:
    """Return the number of messages in a histogram from Spark's CSV reader."""
    rows = spark.read.csv(str(path), schema="sent bigint, received bigint")
    second = F.call_function("div", F.col("received"), F.lit(1000)).alias("second")
    latency = (F.col("received") - F.col("sent")).alias("latency")
    table = rows.groupBy(second, latency).agg(F.count("*").alias("n")).toArrow()
    return int(table["n"].to_numpy().sum())


def seconds(action: Callable[[SparkSession, Path], int], spark: SparkSession, path: Path) -> float:
    started = time.perf_counter()
    action(spark, path)
    return time.perf_counter() - started


def measure(spark: SparkSession, rows: int, *, csv: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="quiver-bench-") as folder:
        path = Path(folder, "receiver-transfers.csv")
        write_records(path, rows)
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", __spec__.name, "--cold", str(path)], check=True)
        cold = time.perf_counter() - started
        sides = {"summary": summarise} | ({"csv": count_csv} if csv else {})
        assert {action(spark, path) for action in sides.values()} == {rows}
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, action in sides.items():
                times[name].append(seconds(action, spark, path))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(
            f"{rows / 1e6:6.0f} M rows {name:8}{median:8.2f} s {rows / median / 1e6:8.1f} M rows/s"
        )
    if csv:
        print(f"{rows / 1e6:6.0f} M rows ratio   {medians['csv'] / medians['summary']:8.1f}")
    print(f"{rows / 1e6:6.0f} M rows cold    {cold:8.2f} s")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--cold"]:
        summarise(session(light=True), Path(arguments[1]))
        return
    csv = "--no-csv" not in arguments
    counts = [int(word) for word in arguments if word != "--no-csv"]
    spark = session(light=not csv)
    for rows in counts or [20_000_000]:
        measure(spark, rows, csv=csv)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
