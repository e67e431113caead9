"""The full summary of a file against CSV engines that do its histogram only."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.record_workload import START, make_times, write_file

pytestmark = [pytest.mark.timeout(600), pytest.mark.benchmark(timer=RATIO_CLOCK)]

RECORDS = 10_000_000  # 280 MB
LOW_RATE_RECORDS = 4_000_000

# What is measured runs by itself, so that its memory is its own.
ANALYSE = """
import re, sys, time
from pathlib import Path
from quiver_fast.analysis.local import analyze_runs
from quiver_fast.analysis.summary import receiver_sections
from quiver_fast.records.splits import scan_file
started = time.perf_counter()
receiver_sections(analyze_runs(scan_file(sys.argv[1], threads=int(sys.argv[2]))))
seconds = time.perf_counter() - started
# Not ru_maxrss: that begins with what the parent had.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(seconds, int(peak[1]) / 1024)
"""


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _with_polars(path: str) -> object:
    """Count by second and latency, streaming."""
    pl = import_module("polars")
    times = pl.scan_csv(path, has_header=False, new_columns=["sent", "received"])
    keys = [(pl.col("received") // 1000).alias("second"), pl.col("received") - pl.col("sent")]
    return times.group_by(keys).len().collect(engine="streaming")


def _with_duckdb(path: str) -> object:
    query = "SELECT column1 // 1000, column1 - column0, count(*) FROM records GROUP BY ALL"
    return (
        import_module("duckdb")
        .sql(query.replace("records", f"read_csv('{path}', header=false)"))
        .fetchnumpy()
    )


def _with_pyarrow(path: str) -> object:
    csv, compute = import_module("pyarrow.csv"), import_module("pyarrow.compute")
    table = csv.read_csv(path, csv.ReadOptions(column_names=["sent", "received"]))
    latencies = compute.subtract(table["received"], table["sent"])
    seconds = compute.divide(table["received"], 1000)
    keyed = import_module("pyarrow").table({"second": seconds, "latency": latencies})
    return keyed.group_by(["second", "latency"]).aggregate([([], "count_all")])


READERS = {"pyarrow": _with_pyarrow, "polars": _with_polars, "duckdb": _with_duckdb}


def _analyse(path: Path, threads: int) -> Figures:
    done = subprocess.run(
        [sys.executable, "-c", ANALYSE, str(path), str(threads)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, rss = map(float, done.stdout.split())
    return {"throughput": path.stat().st_size / seconds / 1e6, "rss": rss}


def _write(directory: Path, sent: NDArray[np.int64], received: NDArray[np.int64]) -> Path:
    path = directory / "transfers.csv"
    write_file(str(path), sent, received)
    return path


@pytest.fixture(scope="module")
def fast_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("fast"), *make_times(RECORDS))


@pytest.fixture(scope="module")
def slow_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,500 messages per second: hardly a record equals the one before it."""
    source = np.random.default_rng(1)
    sent = START + source.integers(0, 2, LOW_RATE_RECORDS).cumsum() * 4 // 3
    received = sent + source.integers(0, 6, LOW_RATE_RECORDS)
    return _write(tmp_path_factory.mktemp("slow"), sent, received)


def _fastest_reader(path: Path) -> Figures:
    readers = [read for name, read in READERS.items() if find_spec(name)]
    if not readers:
        pytest.skip("none of pyarrow, polars and duckdb is installed to compare with")
    seconds = min(_seconds(lambda read=read: read(str(path))) for read in readers)  # type: ignore[misc]
    return {"throughput": path.stat().st_size / seconds / 1e6, "rss": float("nan")}


@pytest.mark.parametrize("threads", [1, 2])
def test_summary_against_csv_engines(bench: Bench, fast_run: Path, threads: int) -> None:
    """The reference is the fastest that is installed, with all its threads."""
    bench.interleave(
        f"summary-csv-engines-{threads}",
        "throughput",
        lambda: _analyse(fast_run, threads),
        lambda: _fastest_reader(fast_run),
    )


def test_low_rate_summary_against_csv_engines(bench: Bench, slow_run: Path) -> None:
    bench.interleave(
        "summary-low-rate",
        "throughput",
        lambda: _analyse(slow_run, 1),
        lambda: _fastest_reader(slow_run),
    )
