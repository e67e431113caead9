"""Peak memory of the Python worker that reads one default split, at any rate and unit.

    python -m bench.spark_memory [--size MB] [WORD…]

A case is named `v2 sender low ms`; with words only cases that have all of them are measured.
`low` is a message per millisecond, so that no line repeats the one before; `high` are two million
messages per second; `jittered`, only for receivers, is a message per millisecond, with different
latencies within a second. `records` reads the rows of the data source, `summary` folds the split
like the analysis of one end without ids. Peaks are those of the kernel (VmHWM), with all imports
of the worker.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.sources import Wanted
from spark_analysis.backend import load_run
from spark_analysis.files import SPLIT_SIZE, discover
from spark_analysis.record_rows import read_records
from spark_analysis.session import make_session

TICKS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
RATES = {"low": 1_000, "high": 2_000_000, "jittered": 1_000}
START = 1_700_000_000
# A message is received, and settled, so many ticks and messages later.
LATER = 3
PRIME = 7919
IN_FLIGHT = 100
SAMPLED = 256
CHUNK = 100_000


def lines_of(record_format: str, role: str, rate: str, unit: str) -> Iterator[str]:
    """Yield lines without end."""
    jittered = rate == "jittered"
    ticks = TICKS[unit]
    start, step = START * ticks, ticks
    with_id = record_format != "v3"
    for number in itertools.count():
        sent = start + number * step // RATES[rate]
        if role == "receiver":
            jitter = number * PRIME % ticks if jittered else number % 7
            line = f"{sent},{sent + LATER + jitter}\n"
        else:
            line = f"{sent}\n" if with_id else f"{sent},0\n"
        yield f"{number},{line}" if with_id else line
        if record_format == "v2" and role == "sender" and number >= IN_FLIGHT:
            settled = number - IN_FLIGHT
            prefix = "s" if settled % SAMPLED else "S"
            yield f"{prefix}{settled},{sent + LATER}\n"


def write(path: Path, lines: Iterator[str], size: int) -> None:
    with path.open("w") as file:
        while file.tell() < size:
            file.write("".join(itertools.islice(lines, CHUNK)))


def workers() -> list[psutil.Process]:
    """Return the Python processes that Spark's JVM started, now."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ended meanwhile
            if "pyspark.daemon" in " ".join(child.cmdline()):
                found.append(child)
    return found


def peak(action: Callable[[], None]) -> tuple[float, float]:
    """Return the largest resident size of a worker meanwhile in MB, and the seconds."""
    for worker in workers():
        with suppress(OSError):  # it ended meanwhile
            Path(f"/proc/{worker.pid}/clear_refs").write_text("5")  # forget the peak so far
    started = time.perf_counter()
    action()
    seconds = time.perf_counter() - started
    sizes = [0]
    for worker in workers():
        with suppress(OSError):
            status = Path(f"/proc/{worker.pid}/status").read_text()
            sizes.append(int(status.split("VmHWM:")[1].split()[0]))
    return max(sizes) / 1024, seconds


def measure(spark: SparkSession, path: Path, *, fold: bool) -> None:
    def records() -> None:
        rows = read_records(spark, discover([str(path)]))
        rows.write.format("noop").mode("overwrite").save()

    def summary() -> None:
        load_run(spark, RunFiles("run", other=path), lambda _done, _total: None, Wanted())

    size, seconds = peak(records)
    print(f"  records {size:6.0f} MB {seconds:6.1f} s", end="")
    if fold:
        size, seconds = peak(summary)
        print(f"  summary {size:6.0f} MB {seconds:6.1f} s", end="")
    print(flush=True)


def main(arguments: list[str]) -> None:
    size = SPLIT_SIZE
    if arguments[:1] == ["--size"]:
        size, arguments = int(arguments[1]) << 20, arguments[2:]
    spark = make_session("local[1]", shuffle_partitions=1)
    cases = itertools.product(("v1", "v2", "v3"), ("sender", "receiver"), RATES, TICKS)
    for case in cases:
        if not set(arguments) <= set(case):
            continue
        record_format, role, rate, unit = case
        if (role, rate) == ("sender", "jittered"):
            continue
        with tempfile.TemporaryDirectory(prefix="quiver-bench-") as folder:
            path = Path(folder, f"{role}-transfers.csv")
            write(path, lines_of(record_format, role, rate, unit), size)
            print(f"{' '.join(case):24}", end="")
            measure(spark, path, fold=record_format == "v3")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
