"""The arrow, peer-to-peer, against the idiomatic C reference."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cases import LATENCY, QUICK, SCHEDULE, TCP_SHARE, THROUGHPUT
from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.reference.build import References
from bench.runner import Case, Command, figures, run_pair

pytestmark = [pytest.mark.timeout(900), pytest.mark.benchmark(timer=RATIO_CLOCK)]

full = pytest.mark.full

STARTUP_ROUNDS_FACTOR = 3  # a start-up is short, so more of them
RSS_SECONDS = 60


def _params(cases: dict[str, Case]) -> list[object]:
    return [
        pytest.param(name, case, id=name, marks=[] if name in QUICK else [full])
        for name, case in cases.items()
    ]


def _sized(bench: Bench, case: Case) -> Case:
    return replace(case, count=case.count * 3) if bench.full else case


def _pair(command: Command, case: Case) -> Callable[[], Figures]:
    return lambda: figures(run_pair(command, command, case))


@pytest.mark.parametrize(("name", "case"), _params(THROUGHPUT))
def test_throughput(
    bench: Bench, arrow: Command, references: References, name: str, case: Case
) -> None:
    sized = _sized(bench, case)
    bench.interleave(name, "rate", _pair(arrow, sized), _pair([str(references.arrow)], sized))


@pytest.mark.parametrize(("name", "case"), _params(LATENCY))
def test_latency(
    bench: Bench, arrow: Command, references: References, name: str, case: Case
) -> None:
    sized = _sized(bench, case)
    bench.interleave(name, "p50", _pair(arrow, sized), _pair([str(references.arrow)], sized))


@pytest.mark.parametrize(("name", "case"), _params(SCHEDULE))
def test_schedule(
    bench: Bench, arrow: Command, references: References, name: str, case: Case, tmp_path: Path
) -> None:
    """The reference only sleeps and wakes on the same schedule: the machine's own lateness."""
    report = tmp_path / "report.json"

    def send() -> Figures:
        run_pair([*arrow, f"report-file={report}"], arrow, case)
        return {"late": json.loads(report.read_text())["schedule"]["late_us"]["p99"]}

    def sleep() -> Figures:
        command = [str(references.timer), str(case.rate), str(case.count)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return {"late": float(result.stdout)}

    bench.interleave(name, "late", send, sleep)


@pytest.mark.parametrize(("name", "case"), _params(TCP_SHARE))
def test_share_of_tcp(
    bench: Bench, arrow: Command, references: References, name: str, case: Case
) -> None:
    """The reference is a raw copy of as many bytes through loopback TCP."""
    sized = _sized(bench, case)

    def transfer() -> Figures:
        run = run_pair(arrow, arrow, sized)
        return {"throughput": sized.count * sized.body_size / run.elapsed / 1e6}

    def copy() -> Figures:
        command = [str(references.tcp_copy), str(sized.count * sized.body_size)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return {"throughput": float(result.stdout) / 1e6}

    bench.interleave(name, "throughput", transfer, copy)


def test_startup(bench: Bench, arrow: Command, references: References) -> None:
    """One message; the wall clock of a whole sender, and of a receiver until it listens."""
    case = Case(1)
    bench.rounds *= STARTUP_ROUNDS_FACTOR
    bench.interleave(
        "startup", "sender_startup", _pair(arrow, case), _pair([str(references.arrow)], case)
    )


@full
def test_memory_is_flat(arrow: Command) -> None:
    """Memory of a minute-long run: its end is not above what it was after five seconds."""
    short = Case(1_000_000, keep_records=False)
    per_second = short.count / run_pair(arrow, arrow, short).elapsed
    run = run_pair(arrow, arrow, replace(short, count=int(per_second * RSS_SECONDS), timeout=300))
    for side in (run.sender, run.receiver):
        settled = side.rss[len(side.rss) * 5 // RSS_SECONDS]
        assert max(side.rss) <= settled * 1.02
