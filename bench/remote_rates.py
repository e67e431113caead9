"""Rates and round trips of remote queues (csp): our server, our arrow, over loopback.

    python -m bench.remote_rates [--count N] [--rounds N] [--store DIR] [--durability POLICY]

Prints medians over the rounds: submits per second of one pipelined client on one
connection, entries per second to one tailer, and the round trip of a submit (from its
intended time to its index) at 50,000 per second. Values have 100-byte bodies.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.comparison import Figures

ROUND_TRIP_RATE = 50_000
CREDIT = 1000
START_SECONDS = 10.0
RUN_SECONDS = 300
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}


class QueueServer:
    """A running queue server; every measurement has a queue of its own.

    Args:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = itertools.count(1)

    def submit_and_read(self, count: int) -> tuple[Figures, Figures]:
        """Submit ``count`` values, pipelined, then read them: both rates, in k/s."""
        queue = f"rates-{next(self._numbers)}"
        sent = self._arrow("send", queue, count)
        received = self._arrow("receive", queue, count)
        return {"rate": _rate(sent, 0) / 1e3}, {"rate": _rate(received, 1) / 1e3}

    def round_trips(self, count: int, rate: int = ROUND_TRIP_RATE) -> Figures:
        """Submit by a schedule: microseconds from intended send time to index."""
        queue = f"trips-{next(self._numbers)}"
        options = (f"rate={rate}", "record-format=v2", "settlement=1")
        trips = _trips(self._arrow("send", queue, count, *options))
        return {name: float(np.percentile(trips, p)) for name, p in PERCENTILES.items()}

    def _arrow(self, operation: str, queue: str, count: int, *options: str) -> bytes:
        """Run an arrow to its end and return its records, times in microseconds."""
        command = [
            sys.executable, "-m", "quiver_fast.arrow.main", "connection-mode=client",
            "channel-mode=active", f"operation={operation}", "id=bench", "scheme=csp",
            "host=127.0.0.1", f"port={self._port}", f"path={queue}", f"count={count}",
            "time-unit=us", f"credit-window={CREDIT}", *options,
        ]  # fmt: skip
        with tempfile.TemporaryFile() as records:
            subprocess.run(command, stdout=records, check=True, timeout=RUN_SECONDS)
            records.seek(0)
            return records.read()


def _rate(records: bytes, column: int) -> float:
    """Return records per second between the first and the last time of a column."""
    lines = records.split(b"\n")[:-1]
    first, last = (int(line.split(b",")[column]) for line in (lines[0], lines[-1]))
    return len(lines) / max(last - first, 1) * 1e6


def _trips(records: bytes) -> np.ndarray:
    """Return float64[n], microseconds from intended send time to index, by v2 records."""
    sent, settled = {}, {}
    for line in records.split(b"\n")[:-1]:
        name, when = line.split(b",")
        if line[:1] in b"Ss":
            settled[name[1:]] = int(when)
        else:
            sent[name] = int(when)
    return np.array([settled[name] - sent[name] for name in sent], dtype=np.float64)


@contextmanager
def serving(store: Path, durability: str = "none") -> Iterator[QueueServer]:
    """Run a queue server on a free port.

    Raises:
        SystemExit: it does not start.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "quiver_fast.server.main", "scheme=csp", "host=127.0.0.1",
        f"port={port}", "path=", "ready-file=-", "quiet=1", f"store={store}",
        f"durability={durability}",
    ]  # fmt: skip
    server = subprocess.Popen(command)
    try:
        _wait_for(port, server)
        yield QueueServer(port)
    finally:
        server.terminate()
        server.wait(10)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the server did not start")


def _one_round(server: QueueServer, count: int) -> dict[str, float]:
    submits, entries = server.submit_and_read(count)
    trips = server.round_trips(2 * ROUND_TRIP_RATE)
    return {
        "submits (k/s)": submits["rate"],
        "entries (k/s)": entries["rate"],
        **{f"round trip {name} (us)": value for name, value in trips.items()},
    }


def main() -> None:
    """Run the rounds and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--durability", default="none")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        serving(arguments.store or Path(scratch), arguments.durability) as server,
    ):
        rounds = [_one_round(server, arguments.count) for _ in range(arguments.rounds)]
    for name in rounds[0]:
        values = [measured[name] for measured in rounds]
        listed = ", ".join(f"{value:,.0f}" for value in values)
        print(f"{name:<24} {statistics.median(values):>10,.0f}   {listed}")


if __name__ == "__main__":
    main()
