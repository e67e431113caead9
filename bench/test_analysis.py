"""The full summary of a file, and the whole command, against engines that do its histogram only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.record_workload import START, make_times, write_file
from quiver_fast.records.writer import RecordWriter, write_many

pytestmark = [pytest.mark.timeout(600), pytest.mark.benchmark(timer=RATIO_CLOCK)]

RECORDS = 10_000_000  # 280 MB
LOW_RATE_RECORDS = 4_000_000
SETTLED_RECORDS = 4_000_000  # and as many settlements: 180 MB
BLOCKS = 10  # of RECORDS: 2.8 GB, so that the start of a process hardly counts
UPSTREAM_RECORDS = 1_000_000  # it is so slow that more records would only take time

# The measured code runs in its own process, for its own memory.
ANALYSE = """
import re, sys, time
from pathlib import Path
from quiver_fast.analysis.read.local import analyze_runs
from quiver_fast.analysis.figures.summary import receiver_sections
from quiver_fast.analysis.export.json_text import json_text
from quiver_fast.records.frames import open_records
from quiver_fast.records.splits import scan_file
started = time.perf_counter()
# Its series is made while it is written.
with open_records(sys.argv[1]) as records:
    found = analyze_runs(scan_file(records, threads=int(sys.argv[2])))
json_text(receiver_sections(found))
seconds = time.perf_counter() - started
# Not ru_maxrss: that begins with what the parent had.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(seconds, int(peak[1]) / 1024)
"""

ANALYSE_SENDER = ANALYSE.replace("receiver_sections", "sender_sections")

COMMAND = """
import re, sys
from pathlib import Path
from quiver_fast.cli.analyze.command import main
code = main([sys.argv[1], "--json", "--quiet"])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(int(peak[1]) / 1024, file=sys.stderr)
sys.exit(code)
"""

POLARS = """
import sys
import polars as pl
times = pl.scan_csv(sys.argv[1], has_header=False, new_columns=["sent", "received"])
keys = [(pl.col("received") // 1000).alias("second"), pl.col("received") - pl.col("sent")]
times.group_by(keys).len().collect(engine="streaming")
"""


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _with_polars(path: str, columns: Sequence[str]) -> object:
    """Count by second and latency, streaming."""
    pl = import_module("polars")
    times = pl.scan_csv(path, has_header=False, new_columns=list(columns))
    keys = [(pl.col("received") // 1000).alias("second"), pl.col("received") - pl.col("sent")]
    return times.group_by(keys).len().collect(engine="streaming")


def _with_duckdb(path: str, columns: Sequence[str]) -> object:
    query = "SELECT received // 1000, received - sent, count(*) FROM records GROUP BY ALL"
    records = f"read_csv('{path}', header=false, names={list(columns)})"
    return import_module("duckdb").sql(query.replace("records", records)).fetchnumpy()


def _with_pyarrow(path: str, columns: Sequence[str]) -> object:
    csv, compute = import_module("pyarrow.csv"), import_module("pyarrow.compute")
    table = csv.read_csv(path, csv.ReadOptions(column_names=list(columns)))
    latencies = compute.subtract(table["received"], table["sent"])
    seconds = compute.divide(table["received"], 1000)
    keyed = import_module("pyarrow").table({"second": seconds, "latency": latencies})
    return keyed.group_by(["second", "latency"]).aggregate([([], "count_all")])


COLUMNS = ("sent", "received")
READERS = {"pyarrow": _with_pyarrow, "polars": _with_polars, "duckdb": _with_duckdb}


def _analyse(path: Path, threads: int, code: str = ANALYSE) -> Figures:
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(threads)],
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


@pytest.fixture(scope="module")
def slow_run_with_ids(slow_run: Path) -> Path:
    """The same as a v1 receiver records it."""
    return _with_ids(slow_run)


def _with_ids(records: Path) -> Path:
    path = records.with_name("with-ids.csv")
    with records.open() as lines, path.open("w") as file:
        file.writelines(f"{number},{line}" for number, line in enumerate(lines, start=1))
    return path


def _fastest_reader(path: Path, columns: Sequence[str] = COLUMNS) -> Figures:
    readers = [read for name, read in READERS.items() if find_spec(name)]
    if not readers:
        pytest.skip("none of pyarrow, polars and duckdb is installed to compare with")
    seconds = min(_seconds(lambda read=read: read(str(path), columns)) for read in readers)  # type: ignore[misc]
    return {"throughput": path.stat().st_size / seconds / 1e6, "rss": float("nan")}


@pytest.mark.parametrize("threads", [1, 2])
def test_summary_against_csv_engines(bench: Bench, fast_run: Path, threads: int) -> None:
    """The reference is the fastest installed engine, with all its threads."""
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


def test_low_rate_summary_with_ids(bench: Bench, slow_run_with_ids: Path) -> None:
    bench.interleave(
        "summary-low-rate-ids",
        "throughput",
        lambda: _analyse(slow_run_with_ids, 1),
        lambda: _fastest_reader(slow_run_with_ids, ("id", *COLUMNS)),
    )


@pytest.fixture(scope="module")
def fast_run_with_ids(fast_run: Path) -> Path:
    """The same as a v1 receiver records it."""
    return _with_ids(fast_run)


@pytest.fixture(scope="module")
def settled_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A v2 sender: a hundred messages, then the settlements of the hundred before, and so on."""
    path = tmp_path_factory.mktemp("settled") / "sender.csv"
    sent, settled = make_times(SETTLED_RECORDS)
    with path.open("w") as file:
        for start in range(0, SETTLED_RECORDS, 100):
            block = range(start, start + 100)
            file.writelines(f"{n},{sent[n]}\n" for n in block)
            file.writelines(f"{'s' if n % 256 else 'S'}{n},{settled[n]}\n" for n in block)
    return path


def test_summary_with_ids(bench: Bench, fast_run_with_ids: Path) -> None:
    bench.interleave(
        "summary-v1",
        "throughput",
        lambda: _analyse(fast_run_with_ids, 1),
        lambda: _fastest_reader(fast_run_with_ids, ("id", *COLUMNS)),
    )


def test_settlement_join(bench: Bench, settled_run: Path) -> None:
    """The reference joins the same lines by id into the same latencies."""
    if find_spec("polars") is None:
        pytest.skip("polars is not installed to compare with")
    bench.interleave(
        "summary-settlement",
        "throughput",
        lambda: _analyse(settled_run, 1, ANALYSE_SENDER),
        lambda: _polars_join(settled_run),
    )


def _polars_join(path: Path) -> Figures:
    pl = import_module("polars")

    def join() -> object:
        lines = pl.scan_csv(path, has_header=False, schema={"id": pl.String, "time": pl.Int64})
        settled = pl.col("id").str.contains("^[sS]")
        late = lines.filter(settled).with_columns(pl.col("id").str.slice(1))
        sent = lines.filter(~settled)
        key = pl.col("id").cast(pl.Int64)
        pairs = sent.with_columns(key).join(late.with_columns(key), on="id", suffix="_settled")
        latency = pl.col("time_settled") - pl.col("time")
        return pairs.group_by(latency).len().collect(engine="streaming")

    return {"throughput": _throughput(path, _seconds(join)), "rss": float("nan")}


# ---- the whole command ---------------------------------------------------------------


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "transfers.csv"
    sent, received = make_times(RECORDS)
    span = int(received[-1] - sent[0]) + 1
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        writer = RecordWriter(descriptor)
        for block in range(BLOCKS):
            write_many(writer, (sent + block * span).data, (received + block * span).data)
        writer.flush_now()
    finally:
        os.close(descriptor)
    return path


def _throughput(path: Path, seconds: float) -> float:
    return path.stat().st_size / seconds / 1e6


def _command(path: Path) -> Figures:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(path)], capture_output=True, text=True, check=True
    )
    seconds = time.perf_counter() - started
    return {"throughput": _throughput(path, seconds), "rss": float(done.stderr)}


def _polars_process(path: Path) -> Figures:
    command = [sys.executable, "-c", POLARS, str(path)]
    seconds = _seconds(lambda: subprocess.run(command, check=True))
    return {"throughput": _throughput(path, seconds), "rss": float("nan")}


def _times(line: bytes) -> tuple[int, int]:
    sent, received = line.split(b",", 1)
    return int(sent), int(received)


def _latencies(lines: Iterable[bytes]) -> Iterator[int]:
    for line in lines:
        sent, received = _times(line)
        yield received - sent


def _as_upstream(path: Path) -> Figures:
    """Upstream's method: a call for each line into NumPy, and its mean and percentiles."""
    started = time.perf_counter()
    with path.open("rb") as lines:
        values = np.fromiter(_latencies(islice(lines, UPSTREAM_RECORDS)), np.int64)
    np.mean(values)
    np.percentile(values, (0, 25, 50, 75, 100, 90, 99, 99.9, 99.99, 99.999))
    seconds = time.perf_counter() - started
    size = path.stat().st_size * UPSTREAM_RECORDS / (BLOCKS * RECORDS)  # lines are of one width
    return {"throughput": size / seconds / 1e6, "rss": float("nan")}


def test_command_against_upstream(bench: Bench, long_run: Path) -> None:
    """From the start of the process to its end; the reference is not charged for its start."""
    bench.interleave(
        "analyze-upstream", "throughput", lambda: _command(long_run), lambda: _as_upstream(long_run)
    )


def test_command_against_polars(bench: Bench, long_run: Path) -> None:
    """Both from the start of the process to its end, with all threads; polars streaming."""
    if find_spec("polars") is None:
        pytest.skip("polars is not installed to compare with")
    bench.interleave(
        "analyze-polars",
        "throughput",
        lambda: _command(long_run),
        lambda: _polars_process(long_run),
    )
