"""Queue files against the memory: appends and reads as a share of copying the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.queue_rates import (
    LARGE_BYTES,
    append_rate,
    fill,
    leave_killed,
    open_seconds,
    read_rate,
    seconds,
    seek_seconds,
)
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.tailer import Tailer

pytestmark = [pytest.mark.timeout(600), pytest.mark.benchmark(timer=RATIO_CLOCK)]

ENTRIES = 2_000_000
SIZE = 40


def copy_rate(size: int, count: int) -> float:
    """Return entries per second of one copy in memory, of all bytes at once."""
    source = np.ones(size * count, dtype=np.uint8)
    target = np.zeros_like(source)
    np.copyto(target, source)
    return count / seconds(lambda: np.copyto(target, source))


@pytest.mark.parametrize(("size", "count"), [(40, ENTRIES), (96, ENTRIES), (1000, 300_000)])
def test_append_against_copy(bench: Bench, tmp_path: Path, size: int, count: int) -> None:
    def ours() -> Figures:
        return {"records": append_rate(tmp_path, size, count) / 1e6}

    def reference() -> Figures:
        return {"records": copy_rate(size, count) / 1e6}

    bench.interleave(f"queue-append-{size}", "records", ours, reference)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Appender]:
    with Appender(tmp_path) as appender:
        fill(appender, SIZE, ENTRIES)
        yield appender


def test_read_against_copy(bench: Bench, queue: Appender) -> None:
    def ours() -> Figures:
        return {"records": read_rate(queue.directory, ENTRIES) / 1e6}

    def reference() -> Figures:
        return {"records": copy_rate(SIZE, ENTRIES) / 1e6}

    bench.interleave("queue-read", "records", ours, reference)


def test_seek_against_reading_one_entry(bench: Bench, queue: Appender) -> None:
    """The reference is a call that returns the next entry; a seek passes at most 255 headers."""
    tailer = Tailer(queue.directory)
    tailer.skip(ENTRIES)

    def read_all() -> None:
        tailer.move_to(queue.bounds[0])
        for _ in range(100_000):
            tailer.read()

    def ours() -> Figures:
        return {"p50": seek_seconds(tailer, queue.bounds[0], ENTRIES) * 1e6}

    def reference() -> Figures:
        return {"p50": seconds(read_all) / 100_000 * 1e6}

    bench.interleave("queue-seek", "p50", ours, reference)


def test_opening_a_large_queue(tmp_path: Path) -> None:
    """1 GB: a second after a kill, 50 ms after an orderly stop; absolute, without a reference."""
    leave_killed(tmp_path, 1000, LARGE_BYTES // 1000)
    killed, stopped = open_seconds(tmp_path)
    assert killed <= 1.0
    # Other work on the disk makes single appends slow.
    assert min(stopped, *(open_seconds(tmp_path)[1] for _ in range(2))) <= 0.05
