"""Remote queues against frames of the same sizes through bare TCP."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.append_latency import appends, copies
from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.reference.build import References
from bench.remote_rates import CREDIT, PERCENTILES, ROUND_TRIP_RATE, QueueServer, serving

pytestmark = [pytest.mark.timeout(600), pytest.mark.benchmark(timer=RATIO_CLOCK)]

COUNT = 1_000_000
# How many more of them bare TCP gets: both must run about equally long, or other work on the
# machine interrupts only the slower one.
REFERENCE_SUBMITS, REFERENCE_ENTRIES = 10, 25
# Half a second: other work on the machine causes most of a tail, and affects neighbouring short
# rounds alike, but not long ones.
TRIPS = 25_000
# Bytes of the documents that the arrow and the server exchange for 100-byte bodies: a submit
# (in a batch that shares its meta-data; alone), `index: …`, hasNext, an entry of a batch.
SUBMIT, SUBMIT_ALONE, INDEX, HAS_NEXT, ENTRY = 161, 188, 48, 62, 154
# Absolute goals: k/s, k/s and microseconds. Ours is several times better, so other work on the
# machine does not decide.
SUBMITS_REACH, ENTRIES_REACH, P50_REACH = 400, 1000, 60
# The batches of the arrow's receiver.
OUTSTANDING = 3
BATCH = CREDIT // OUTSTANDING


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueServer]:
    with serving(tmp_path_factory.mktemp("queues")) as server:
        yield server


def _frames(references: References, *numbers: int) -> Figures:
    """Run the reference: k replies per second, and the percentiles of the round trips."""
    command = [str(references.tcp_frames), *map(str, numbers)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    rate, *trips = (float(word) for word in result.stdout.split())
    return {"rate": rate / 1e3, **dict(zip(PERCENTILES, trips, strict=True))}


def test_submits(bench: Bench, references: References, server: QueueServer) -> None:
    """One client on one connection, a window of 1000 submits."""

    def reference() -> Figures:
        return {
            "rate": _frames(references, SUBMIT, INDEX, REFERENCE_SUBMITS * COUNT, CREDIT)["rate"]
        }

    def submit() -> Figures:
        return server.submit_and_read(COUNT)[0]

    found = bench.interleave("remote-submits", "rate", submit, reference)
    assert found.ours("rate") >= SUBMITS_REACH


def test_entries(bench: Bench, references: References, server: QueueServer) -> None:
    """One tailer, three batches ahead."""

    def reference() -> Figures:
        batches = REFERENCE_ENTRIES * COUNT // BATCH
        found = _frames(references, HAS_NEXT, ENTRY * BATCH, batches, OUTSTANDING)
        return {"rate": found["rate"] * BATCH}

    def read() -> Figures:
        return server.submit_and_read(COUNT)[1]

    found = bench.interleave("remote-entries", "rate", read, reference)
    assert found.ours("rate") >= ENTRIES_REACH


def test_round_trips(bench: Bench, references: References, server: QueueServer) -> None:
    """Submits by an open-loop schedule, 50,000 per second."""

    def reference() -> Figures:
        found = _frames(references, SUBMIT_ALONE, INDEX, TRIPS, CREDIT, ROUND_TRIP_RATE)
        return {name: found[name] for name in PERCENTILES}

    bench.rounds *= 4
    found = bench.interleave("remote-50k", "p50", lambda: server.round_trips(TRIPS), reference)
    assert found.ours("p50") <= P50_REACH


def test_paced_appends(bench: Bench, tmp_path: Path) -> None:
    """The files' possible share in a round trip's tail: one append, by the same schedule."""
    bench.interleave(
        "remote-append", "p50", lambda: appends(tmp_path, TRIPS), lambda: copies(TRIPS)
    )
