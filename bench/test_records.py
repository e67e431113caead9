"""The record writer and parser against Python's print, CSV readers and the memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.record_workload import make_times, write_file
from quiver_fast.records.parser import read_transfers

pytestmark = [pytest.mark.timeout(600), pytest.mark.benchmark(timer=RATIO_CLOCK)]

RECORDS = 5_000_000  # 140 MB: far more than any cache
PRINTED_RECORDS = 200_000


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _with_pyarrow(path: str) -> object:
    csv = import_module("pyarrow.csv")
    return csv.read_csv(path, csv.ReadOptions(column_names=["sent", "received"]))


def _with_polars(path: str) -> object:
    return import_module("polars").read_csv(path, has_header=False)


def _with_duckdb(path: str) -> object:
    return import_module("duckdb").read_csv(path, header=False).fetchnumpy()


# Each with its defaults and all its threads; ours has one thread.
READERS = {"pyarrow": _with_pyarrow, "polars": _with_polars, "duckdb": _with_duckdb}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "transfers.csv"
    write_file(str(path), *make_times(RECORDS))
    return path


def test_writer_against_print(bench: Bench) -> None:
    sent, received = make_times(RECORDS)
    pairs = list(zip(sent[:PRINTED_RECORDS].tolist(), received.tolist(), strict=False))

    def write() -> Figures:
        seconds = _seconds(lambda: write_file(os.devnull, sent, received))
        return {"records": RECORDS / seconds / 1e6}

    def print_all() -> None:
        with open(os.devnull, "w") as sink:
            for send_time, receive_time in pairs:
                print(f"{send_time},{receive_time}", file=sink)

    def reference() -> Figures:
        return {"records": PRINTED_RECORDS / _seconds(print_all) / 1e6}

    bench.interleave("writer-print", "records", write, reference)


def _parse(path: Path) -> Figures:
    return {"throughput": path.stat().st_size / _seconds(lambda: read_transfers(path)) / 1e6}


def test_parser_against_csv_readers(bench: Bench, records: Path) -> None:
    """The reference is the fastest of the CSV readers that are installed."""
    readers = [read for name, read in READERS.items() if find_spec(name)]
    if not readers:
        pytest.skip("none of pyarrow, polars and duckdb is installed to compare with")

    def reference() -> Figures:
        fastest = min(_seconds(partial(read, str(records))) for read in readers)
        return {"throughput": records.stat().st_size / fastest / 1e6}

    bench.interleave("parser-csv-readers", "throughput", lambda: _parse(records), reference)


def test_parser_against_memory(bench: Bench, records: Path) -> None:
    """The reference copies the file's bytes in memory once."""
    source = np.fromfile(records, dtype=np.uint8)
    target = np.empty_like(source)
    np.copyto(target, source)

    def reference() -> Figures:
        return {"throughput": source.nbytes / _seconds(lambda: np.copyto(target, source)) / 1e6}

    bench.interleave("parser-memory", "throughput", lambda: _parse(records), reference)
