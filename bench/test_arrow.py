"""The arrow, peer-to-peer, against the idiomatic C reference."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.reference.build import References
from bench.runner import Case, figures, run_pair

pytestmark = [pytest.mark.timeout(900), pytest.mark.benchmark(timer=RATIO_CLOCK)]

full = pytest.mark.full

# Counts are about a second of the reference; --bench-full takes three times as many.
# Large bodies have a small window: the reference holds all of it in memory.
THROUGHPUT = {
    "body-100": Case(2_000_000),
    "message-ids": Case(800_000, message_ids=True),
    "settlement": Case(600_000, settlement=True),
    "body-0": Case(1_000_000, body_size=0),
    "body-1": Case(1_000_000, body_size=1),
    "body-1k": Case(400_000, body_size=1_000),
    "body-10k": Case(60_000, body_size=10_000),
    "body-100k": Case(6_000, body_size=100_000, credit=100),
    "body-1m": Case(600, body_size=1_000_000, credit=10),
    "credit-1": Case(20_000, credit=1),
    "credit-10": Case(150_000, credit=10),
    "credit-100": Case(600_000, credit=100),
    "credit-10k": Case(800_000, credit=10_000),
    "credit-100k": Case(600_000, credit=100_000),
}
QUICK_THROUGHPUT = [
    "body-100", "message-ids", "settlement", "body-1k", "body-10k", "body-100k",
    "credit-1", "credit-100k",
]  # fmt: skip

LATENCY = {
    "latency-10k": Case(20_000, rate=10_000, time_unit="us"),
    "latency-50k": Case(100_000, rate=50_000, time_unit="us"),
    "latency-100k": Case(200_000, rate=100_000, time_unit="us"),
}
QUICK_LATENCY = ["latency-50k"]

TCP_SHARE = {"tcp-share-100k": THROUGHPUT["body-100k"], "tcp-share-1m": THROUGHPUT["body-1m"]}

STARTUP_ROUNDS_FACTOR = 3  # a start-up is short, so more of them
RSS_SECONDS = 60


def _params(cases: dict[str, Case], quick: list[str]) -> list[object]:
    return [
        pytest.param(name, case, id=name, marks=[] if name in quick else [full])
        for name, case in cases.items()
    ]


def _sized(bench: Bench, case: Case) -> Case:
    return replace(case, count=case.count * 3) if bench.full else case


def _pair(command: Sequence[str], case: Case) -> Callable[[], Figures]:
    return lambda: figures(run_pair(command, command, case))


@pytest.mark.parametrize(("name", "case"), _params(THROUGHPUT, QUICK_THROUGHPUT))
def test_throughput(bench: Bench, references: References, name: str, case: Case) -> None:
    sized = _sized(bench, case)
    bench.interleave(
        name, "rate", _pair(bench.arrow, sized), _pair([str(references.arrow)], sized)
    )


@pytest.mark.parametrize(("name", "case"), _params(LATENCY, QUICK_LATENCY))
def test_latency(bench: Bench, references: References, name: str, case: Case) -> None:
    sized = _sized(bench, case)
    bench.interleave(name, "p50", _pair(bench.arrow, sized), _pair([str(references.arrow)], sized))


@pytest.mark.parametrize(("name", "case"), _params(TCP_SHARE, ["tcp-share-100k"]))
def test_share_of_tcp(bench: Bench, references: References, name: str, case: Case) -> None:
    """The reference is a raw copy of as many bytes through loopback TCP."""
    sized = _sized(bench, case)

    def transfer() -> Figures:
        run = run_pair(bench.arrow, bench.arrow, sized)
        return {"throughput": sized.count * sized.body_size / run.elapsed / 1e6}

    def copy() -> Figures:
        command = [str(references.tcp_copy), str(sized.count * sized.body_size)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return {"throughput": float(result.stdout) / 1e6}

    bench.interleave(name, "throughput", transfer, copy)


def test_startup(bench: Bench, references: References) -> None:
    """One message; the wall clock of a whole sender, and of a receiver until it listens."""
    case = Case(1)
    bench.rounds *= STARTUP_ROUNDS_FACTOR
    bench.interleave(
        "startup", "sender_startup", _pair(bench.arrow, case), _pair([str(references.arrow)], case)
    )


@full
def test_memory_is_flat(bench: Bench) -> None:
    """Memory of a minute-long run: its end is not above what it was after five seconds."""
    short = Case(1_000_000, keep_records=False)
    per_second = short.count / run_pair(bench.arrow, bench.arrow, short).elapsed
    run = run_pair(
        bench.arrow, bench.arrow, replace(short, count=int(per_second * RSS_SECONDS), timeout=300)
    )
    for side in (run.sender, run.receiver):
        settled = side.rss[len(side.rss) * 5 // RSS_SECONDS]
        assert max(side.rss) <= settled * 1.02
