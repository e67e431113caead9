"""The cost of durability: the same messages through our server, not stored, stored and synced.

    python -m bench.durable --count 300000 --rounds 3 [--store DIRECTORY]

One line per policy: the rate, its share of the rate without durability, the server's CPU time,
and the messages for one sync; then the effect on other traffic: the latency of 1,000 messages a
second through a queue that stores nothing, alone and while another queue is at full rate under
that policy. The store is on the file system of DIRECTORY.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.runner import (
    Case,
    Measured,
    RunError,
    arrow_line,
    await_exit,
    await_ready,
    free_port,
    latencies,
    product_command,
    records_directory,
    transferred,
)
from bench.through import our_server

POLICIES = ("none", "interval:10", "group")
PACED = Case(5000, rate=1000, time_unit="us", queue="other")


@dataclass(frozen=True)
class Result:
    """One run through a server with a store."""

    rate: float  # messages per second
    cpu: float  # the server's, seconds per message
    syncs: int  # checkpoints in its file: each sync of new entries writes one


@contextlib.contextmanager
def serving(store: Path, durability: str) -> Iterator[tuple[Measured, int]]:
    """Run a server with a store; yield it and its port."""
    port = free_port()
    line = [*our_server(port), f"store={store}", f"durability={durability}"]
    server = Measured(line, Path("/dev/null"))
    try:
        await_ready(server, port)
        yield server, port
        server.process.send_signal(signal.SIGTERM)
        await_exit([server], 60.0)
    finally:
        server.close()


def line(case: Case, operation: str, port: int, *, durable: bool) -> list[str]:
    """Return an arrow's command line."""
    changed = {"durable=0": f"durable={int(durable)}"}
    if case.duration:
        # A receiver through a server does not see the end of its sender.
        changed["duration=0"] = f"duration={case.duration + 1}"
    words = arrow_line(product_command(), case, operation, port, through=True)
    return [changed.get(word, word) for word in words]


@contextlib.contextmanager
def pair(
    case: Case, server: Measured, port: int, scratch: Path, *, durable: bool
) -> Iterator[Path]:
    """Run a receiver and a sender to their end around the block; yield the receiver's records."""
    received = scratch / f"received-{case.queue}"
    arrows = []
    try:
        for operation, records in (("receive", received), ("send", scratch / f"sent-{case.queue}")):
            words = line(case, operation, port, durable=durable)
            arrows.append(Measured(words, records))
        yield received
        await_exit(arrows, case.timeout, watched=[server])
    finally:
        for arrow in arrows:
            arrow.close()


def run(case: Case, directory: str | None, durability: str, *, durable: bool) -> Result:
    """Send a case's messages through a new server.

    Raises:
        RunError: a process failed or hung, or records are missing.
    """
    with (
        tempfile.TemporaryDirectory(dir=records_directory()) as scratch,
        tempfile.TemporaryDirectory(dir=directory) as store,
    ):
        with serving(Path(store), durability) as (server, port):
            with pair(case, server, port, Path(scratch), durable=durable) as received:
                pass
            count, elapsed = transferred(received, case)
        assert server.side is not None
        files = Path(store, "q").glob("*.cq4")
        syncs = sum(path.read_bytes().count(b"checkpoint: { seq") for path in files)
        return Result(count / elapsed, server.side.cpu / count, syncs)


def bystander(case: Case, directory: str | None, durability: str | None) -> tuple[int, ...]:
    """Return the latencies (us) of paced messages that nobody stores, sorted.

    Args:
        durability: of another queue at full rate; None for no other queue.
    """
    with (
        tempfile.TemporaryDirectory(dir=records_directory()) as scratch,
        tempfile.TemporaryDirectory(dir=directory) as store,
        serving(Path(store), durability or "none") as (server, port),
        contextlib.ExitStack() as stack,
    ):
        if durability is not None:
            beside = pair(case, server, port, Path(scratch), durable=True)
            stack.enter_context(beside)
            time.sleep(0.5)
        with pair(PACED, server, port, Path(scratch), durable=False) as received:
            pass
        return latencies(received)


def report(case: Case, directory: str | None, rounds: int) -> Iterator[str]:
    """Measure, and yield one line after the other."""
    plain = [run(case, directory, "none", durable=False).rate for _ in range(rounds)]
    yield f"not durable: {statistics.median(plain) / 1e3:.0f} k/s"
    for policy in POLICIES:
        results = [run(case, directory, policy, durable=True) for _ in range(rounds)]
        rate = statistics.median(result.rate for result in results)
        cpu = statistics.median(result.cpu for result in results)
        syncs = statistics.median(result.syncs for result in results)
        each = f", {case.count / syncs:.0f} messages per sync" if syncs else ""
        yield (
            f"{policy}: {rate / 1e3:.0f} k/s, {100 * rate / statistics.median(plain):.0f} %, "
            f"{cpu * 1e6:.2f} us of CPU each{each}"
        )
    for beside in (None, *POLICIES):
        times = bystander(Case(0, duration=8), directory, beside)
        shares = [times[int(len(times) * share)] for share in (0.5, 0.99, 0.999)]
        yield "others' latency beside {}: p50 {} us, p99 {} us, p99.9 {} us".format(
            beside or "nothing", *shares
        )


def main(arguments: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300_000, help="messages")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--body-size", type=int, default=100, help="bytes")
    parser.add_argument("--store", help="directory for the stores (default: the system's)")
    options = parser.parse_args(arguments)
    case = Case(options.count, body_size=options.body_size)
    try:
        for text in report(case, options.store, options.rounds):
            print(text, flush=True)
    except RunError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
