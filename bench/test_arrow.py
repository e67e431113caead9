"""The arrow, peer-to-peer, against the idiomatic C reference."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cases import LATENCY, SCHEDULE, STREAM, STREAM_FULL, TCP_SHARE, THROUGHPUT
from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench, case_parameters, sized
from bench.reference.build import References
from bench.runner import Case, Command, figures, run_pair
from bench.tcp import copy_of

pytestmark = [pytest.mark.timeout(900), pytest.mark.benchmark(timer=RATIO_CLOCK)]

full = pytest.mark.full

STARTUP_ROUNDS_FACTOR = 3  # a start-up is short, so there are more rounds
RSS_SECONDS = 60


def _pair(command: Command, case: Case) -> Callable[[], Figures]:
    return lambda: figures(run_pair(command, command, case))


@pytest.mark.parametrize(("name", "case"), case_parameters(THROUGHPUT))
def test_throughput(
    bench: Bench, arrow: Command, references: References, name: str, case: Case
) -> None:
    longer = sized(bench, case)
    bench.interleave(name, "rate", _pair(arrow, longer), _pair([str(references.arrow)], longer))


@pytest.mark.parametrize(("name", "case"), case_parameters(LATENCY))
def test_latency(
    bench: Bench, arrow: Command, references: References, name: str, case: Case
) -> None:
    longer = sized(bench, case)
    bench.interleave(name, "p50", _pair(arrow, longer), _pair([str(references.arrow)], longer))


@pytest.mark.parametrize(("name", "case"), case_parameters(SCHEDULE))
def test_schedule(
    bench: Bench, arrow: Command, references: References, name: str, case: Case, tmp_path: Path
) -> None:
    """The reference only sleeps and wakes on the same schedule: the machine's own delay."""
    report = tmp_path / "report.json"

    def send() -> Figures:
        run_pair([*arrow, f"report-file={report}"], arrow, case)
        return {"late": json.loads(report.read_text())["schedule"]["late_us"]["p99"]}

    def sleep() -> Figures:
        command = [str(references.timer), str(case.rate), str(case.count)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return {"late": float(result.stdout)}

    bench.interleave(name, "late", send, sleep)


@pytest.mark.parametrize(("name", "case"), case_parameters(TCP_SHARE))
def test_share_of_tcp(
    bench: Bench, arrow: Command, references: References, name: str, case: Case
) -> None:
    """The reference is a raw copy of as many bytes through loopback TCP."""
    longer = sized(bench, case)

    def transfer() -> Figures:
        return {"throughput": run_pair(arrow, arrow, longer).throughput}

    bench.interleave(name, "throughput", transfer, copy_of(references, longer))


def test_stream(bench: Bench, arrow: Command, references: References) -> None:
    """One message of gigabytes; the reference is a raw copy of as many bytes."""
    case = STREAM_FULL if bench.full else STREAM
    copy = copy_of(references, case)

    def stream() -> Figures:
        run = run_pair(arrow, arrow, case)
        return {
            "throughput": run.throughput,
            "sender_rss": run.sender.peak_rss / 1e6,
            "receiver_rss": run.receiver.peak_rss / 1e6,
        }

    def raw() -> Figures:
        # The copy keeps nothing; memory is gated on our own megabytes.
        return {**copy(), "sender_rss": 0.0, "receiver_rss": 0.0}

    bench.interleave("stream", "throughput", stream, raw)


def test_startup(bench: Bench, arrow: Command, references: References) -> None:
    """One message; the wall clock of a whole sender, and of a receiver until it listens."""
    case = Case(1)
    bench.rounds *= STARTUP_ROUNDS_FACTOR
    bench.interleave(
        "startup", "sender_startup", _pair(arrow, case), _pair([str(references.arrow)], case)
    )


@full
def test_memory_is_flat(arrow: Command) -> None:
    """Memory of a minute-long run: no more at the end than after five seconds."""
    short = Case(1_000_000, keep_records=False)
    per_second = short.count / run_pair(arrow, arrow, short).elapsed
    run = run_pair(arrow, arrow, replace(short, count=int(per_second * RSS_SECONDS), timeout=300))
    for side in (run.sender, run.receiver):
        settled = side.rss[len(side.rss) * 5 // RSS_SECONDS]
        assert max(side.rss) <= settled * 1.02
