"""Run pairs of arrows over loopback and measure them, interleaved with a reference.

A pair is a receiver (connection-mode=server, channel-mode=passive) on a free
port and a sender that connects to it. All figures come from outside the
arrows: the records that they print, the CPU time that the kernel accounts to each
process, their peak memory and the wall clock. Process start-up is included.

Run as a program, it prints one table (ours, reference, ratio):

    python -m bench.runner --count 1m --body-size 100 --rounds 5
"""

from __future__ import annotations

import argparse
import errno
import itertools
import math
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.comparison import Comparison, rows_of, table
from bench.reference import build

ROOT = Path(__file__).resolve().parents[1]
Command = Sequence[str]

READY_TIMEOUT = 60.0  # seconds until the receiver must listen
SAMPLE_PERIOD = 0.02  # seconds between readings of the memory high-water marks
# Of arrows: a server detaches a link when another client of the same id attaches it.
_NUMBERS = itertools.count()


class RunError(Exception):
    """An arrow failed, hung or printed wrong records."""


@dataclass(frozen=True)
class Certificate:
    """PEM files: the certificate of the listening side, and the authority for the other."""

    cert: str
    key: str
    authority: str


@dataclass(frozen=True)
class Case:
    """One workload: the arguments of both arrows. Sizes in bytes, times in seconds.

    With a duration and no count, only the sender gets the duration, and the receiver
    receives until its peer closes, so that it receives every message.
    """

    count: int
    duration: int = 0
    body_size: int = 100
    credit: int = 1000
    rate: int = 0
    message_ids: bool = False
    settlement: bool = False
    streaming: bool = False
    keep_records: bool = True
    time_unit: str = "ms"
    timeout: float = 120.0
    tls: Certificate | None = None
    # In each arrow; they share count and rate.
    connections: int = 1
    queue: str = "q"


@dataclass(frozen=True)
class Side:
    """The kernel's accounting of one arrow."""

    cpu: float  # seconds, user and system
    wall: float  # seconds from spawn to exit
    peak_rss: int  # bytes
    rss: tuple[int, ...]  # bytes, sampled every SAMPLE_PERIOD


@dataclass(frozen=True)
class Run:
    """One measured pair."""

    case: Case
    count: int  # messages transferred
    sender: Side
    receiver: Side
    ready: float  # seconds from spawn until the receiver listens
    elapsed: float  # seconds from the first send to the last receive
    latencies: tuple[int, ...] = ()  # sorted, in the case's time unit; only under rate

    @property
    def throughput(self) -> float:
        """MB/s of bodies."""
        return self.count * self.case.body_size / self.elapsed / 1e6


def _percentile(ordered: Sequence[int], percent: float) -> float:
    """Return the nearest-rank percentile of an ordered sequence."""
    return float(ordered[max(math.ceil(percent / 100 * len(ordered)), 1) - 1])


def figures(run: Run) -> dict[str, float]:
    """Return the figures of a run, in the units of ``comparison.METRICS``.

    A start-up case (one message) has the wall clocks; a case under rate has its
    latencies, all others the rate.
    """
    count = run.count
    if count == 1:
        return {"sender_startup": run.sender.wall * 1e3, "receiver_startup": run.ready * 1e3}
    found = {
        "sender_cpu": run.sender.cpu * 1e9 / count,
        "receiver_cpu": run.receiver.cpu * 1e9 / count,
        "sender_rss": run.sender.peak_rss / 1e6,
        "receiver_rss": run.receiver.peak_rss / 1e6,
    }
    if not run.case.rate:
        return found | {"rate": count / run.elapsed / 1e3}
    return found | percentiles(run.latencies, run.case)


def percentiles(ordered: Sequence[int], case: Case) -> dict[str, float]:
    """Return the percentiles of a case's ordered latencies, in us."""
    microsecond = _units_per_second(case) / 1e6
    named = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
    return {name: _percentile(ordered, percent) / microsecond for name, percent in named.items()}


# ---- One process ------------------------------------------------------------


class Measured:
    """A running program. Reaps its process itself, to get the kernel's accounting.

    Args:
        line: the program and its arguments.
        output: the file for its standard output.
        end_codes: the exit codes with which it succeeds.
    """

    def __init__(self, line: Command, output: Path, end_codes: Sequence[int] = (0,)) -> None:
        self.name = shlex.join(line)
        self.end_codes = end_codes
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self.spawned = time.monotonic()
        with output.open("wb") as stream:
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=stream, stderr=self.errors
            )
        self.exit_descriptor = os.pidfd_open(self.process.pid)
        self.rss: list[int] = []
        self.peak_rss = 0
        self.side: Side | None = None

    def sample_memory(self) -> None:
        """Read the memory marks of the running program.

        The kernel's ru_maxrss is useless: a child inherits the peak of the process that
        forked it, which is this one.
        """
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except ProcessLookupError:
            return
        marks = dict(line.split(":", 1) for line in status.splitlines())
        if "VmHWM" in marks:  # gone once the process has become a zombie
            self.peak_rss = max(self.peak_rss, int(marks["VmHWM"].split()[0]) * 1024)
            self.rss.append(int(marks["VmRSS"].split()[0]) * 1024)

    def reap(self) -> None:
        """Collect the ended process.

        Raises:
            RunError: it ended with a wrong exit code.
        """
        wall = time.monotonic() - self.spawned
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.side = Side(usage.ru_utime + usage.ru_stime, wall, self.peak_rss, tuple(self.rss))
        if self.process.returncode not in self.end_codes:
            raise RunError(f"exit code {self.process.returncode}, {self.name}\n{self.error_text()}")

    def error_text(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()

    def close(self) -> None:
        """End the process if it still runs, and release its resources."""
        if self.side is None and self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        os.close(self.exit_descriptor)
        self.errors.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_listening(port: int) -> bool:
    """Check for a listener without connecting, because an arrow accepts only once.

    Linux lets two sockets with SO_REUSEADDR share an address until one of them
    listens, so this neither misses a listener nor blocks it.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return True
    return False


def await_ready(receiver: Measured, port: int) -> float:
    """Wait until a program listens, and return how many seconds that took."""
    deadline = receiver.spawned + READY_TIMEOUT
    while not _is_listening(port):
        if select.select([receiver.exit_descriptor], [], [], 0.001)[0]:
            receiver.reap()
            raise RunError(f"ended before it listened: {receiver.name}")
        if time.monotonic() > deadline:
            raise RunError(f"does not listen after {READY_TIMEOUT} s: {receiver.name}")
    return time.monotonic() - receiver.spawned


def await_exit(
    arrows: Sequence[Measured], timeout: float, watched: Sequence[Measured] = ()
) -> None:
    """Reap programs as they end, and sample the memory of the watched ones too."""
    deadline = time.monotonic() + timeout
    running = {arrow.exit_descriptor: arrow for arrow in arrows}
    while running:
        for descriptor in select.select(list(running), [], [], SAMPLE_PERIOD)[0]:
            running.pop(descriptor).reap()
        for arrow in (*running.values(), *watched):
            arrow.sample_memory()
        if time.monotonic() > deadline:
            names = "\n".join(arrow.name for arrow in running.values())
            raise RunError(f"still running after {timeout} s:\n{names}")


# ---- Records ----------------------------------------------------------------


def _last_line(path: Path) -> bytes:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 256))
        return stream.read().splitlines()[-1]


def _count_lines(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(piece.count(b"\n") for piece in iter(lambda: stream.read(1 << 20), b""))


def _count_records(path: Path) -> int:
    """Count the records among other lines: F or B begins a part of a stream, @ names an end."""
    with path.open("rb") as stream:
        return sum(line[:1].isdigit() for line in stream)


def _times(line: bytes) -> tuple[int, int]:
    """Return (send, receive) of a receiver's record: its last two fields in every revision."""
    fields = line.split(b",")
    return int(fields[-2]), int(fields[-1])


def _units_per_second(case: Case) -> int:
    return {"ms": 10**3, "us": 10**6, "ns": 10**9}[case.time_unit]


def transferred(records: Path, case: Case) -> tuple[int, float]:
    """Return the number of a receiver's records and the seconds from first send to last receive.

    Raises:
        RunError: there is no record, or not exactly ``case.count`` of them.
    """
    mixed = case.streaming or case.connections > 1
    found = _count_records(records) if mixed else _count_lines(records)
    if found == 0 or (case.count and found != case.count):
        raise RunError(f"the receiver printed {found} records, not {case.count or 'some'}")
    with records.open("rb") as stream:
        first = next(line for line in stream if not line.startswith(b"@"))
    # The first line of a stream's sender is a part of a body, which begins with the send time.
    first_send = int(first.split(b",")[1]) if case.streaming else _times(first)[0]
    _, last_receive = _times(_last_line(records))
    # A transfer within one tick of the clock still took some of it.
    return found, max(last_receive - first_send, 1) / _units_per_second(case)


def latencies(records: Path) -> tuple[int, ...]:
    """Return the sorted latencies of a receiver's records, signed, in their own unit."""
    with records.open("rb") as stream:
        pairs = map(_times, stream)
        return tuple(sorted(receive - send for send, receive in pairs))


def rate_together(received: Sequence[Path], case: Case) -> float:
    """Return the messages per second of several receivers, while all of them receive.

    Raises:
        RunError: one ended before another began.
    """
    times = [_receive_times(records) for records in received]
    begin, end = max(each[0] for each in times), min(each[-1] for each in times)
    if begin >= end:
        raise RunError("the receivers do not receive at the same time")
    count = sum(bisect_right(each, end) - bisect_left(each, begin) for each in times)
    return count / (end - begin) * _units_per_second(case)


def _receive_times(records: Path) -> list[int]:
    with records.open("rb") as stream:
        return [_times(line)[1] for line in stream]


# ---- One pair ---------------------------------------------------------------


def arrow_line(
    command: Command, case: Case, operation: str, port: int, *, through: bool = False
) -> list[str]:
    """Return an arrow's command line; with ``through`` both arrows are clients of a server."""
    arguments = _arguments(case, operation, port, operation == "receive" and not through)
    return [*command, *(f"{key}={value}" for key, value in arguments.items())]


def _arguments(case: Case, operation: str, port: int, listening: bool) -> dict[str, object]:
    receiving = operation == "receive"
    arguments: dict[str, object] = {
        "connection-mode": "server" if listening else "client",
        "channel-mode": "passive" if listening else "active",
        "operation": operation,
        "id": f"bench-{operation}-{next(_NUMBERS)}",
        "scheme": "amqp",
        "host": "127.0.0.1",
        "port": port,
        "path": case.queue,
        "duration": 0 if receiving else case.duration,
        "count": case.count,
        "body-size": case.body_size,
        "credit-window": case.credit,
        "transaction-size": 0,
        "durable": 0,
    }
    if case.settlement:  # the revision of the contract that has ids and S/s lines
        arguments["settlement"] = 1
    else:
        arguments |= {"rate": case.rate, "set-message-id": int(case.message_ids)}
    if case.tls is not None and listening:
        arguments |= {"scheme": "amqps", "cert": case.tls.cert, "key": case.tls.key}
    elif case.tls is not None:
        arguments |= {"scheme": "amqps", "trust-store": case.tls.authority}
    if case.streaming:
        arguments["streaming"] = 1
    if case.connections > 1:
        arguments["connections"] = case.connections
    if case.time_unit != "ms":
        arguments["time-unit"] = case.time_unit
    return arguments


def records_directory() -> str | None:
    """Prefer memory for the records, because the disk is not measured."""
    shared = Path("/dev/shm")
    return str(shared) if os.access(shared, os.W_OK) else None


def run_pair(sender: Command, receiver: Command, case: Case) -> Run:
    """Run one receiver and one sender to the end.

    With ``keep_records=False`` the records go to /dev/null and the elapsed time is
    the sender's wall clock; that needs a count.

    Raises:
        RunError: a process failed or hung, or records are missing.
    """
    assert case.count or case.keep_records
    with tempfile.TemporaryDirectory(dir=records_directory()) as scratch:
        sink = Path("/dev/null")
        sent = Path(scratch, "sent") if case.keep_records else sink
        received = Path(scratch, "received") if case.keep_records else sink
        port = free_port()
        arrows = [Measured(arrow_line(receiver, case, "receive", port), received)]
        try:
            ready = await_ready(arrows[0], port)
            arrows.append(Measured(arrow_line(sender, case, "send", port), sent))
            await_exit(arrows, case.timeout)
        finally:
            for arrow in arrows:
                arrow.close()
        receiving, sending = (arrow.side for arrow in arrows)
        assert receiving is not None
        assert sending is not None
        count, elapsed = (
            transferred(received, case) if case.keep_records else (case.count, sending.wall)
        )
        timed = latencies(received) if case.rate else ()
        return Run(case, count, sending, receiving, ready, elapsed, timed)


# ---- Comparison -------------------------------------------------------------


def compare(ours: Command, reference: Command, case: Case, rounds: int) -> Comparison:
    """Run interleaved rounds, in each first the reference's pair, then ours."""
    comparison = Comparison()
    for _ in range(rounds):
        reference_figures = figures(run_pair(reference, reference, case))
        comparison.add(figures(run_pair(ours, ours, case)), reference_figures)
    return comparison


def product_command() -> list[str]:
    """Return the command of our arrow, with the interpreter that runs the bench."""
    return [sys.executable, str(ROOT / "impls" / "quiver-arrow-pyfast")]


# ---- The program ------------------------------------------------------------


def _quantity(text: str) -> int:
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    return int(text if scale == 1 else text[:-1]) * scale


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.runner", description="Compare two arrows, peer-to-peer, interleaved."
    )
    parser.add_argument("--arrow", help="command to measure (default: the product's arrow)")
    parser.add_argument("--reference", help="command to compare with (default: the C reference)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=_quantity, default=1_000_000, help="k and m are understood")
    parser.add_argument(
        "--duration", type=int, default=0, help="seconds to send, instead of a count"
    )
    parser.add_argument("--body-size", type=_quantity, default=100, help="bytes")
    parser.add_argument("--credit", type=_quantity, default=1000, help="messages")
    parser.add_argument(
        "--rate", type=_quantity, default=0, help="messages per second; 0: no limit"
    )
    parser.add_argument("--message-ids", action="store_true")
    parser.add_argument("--settlement", action="store_true", help="ids and S/s lines")
    parser.add_argument("--no-records", action="store_true", help="send the records to /dev/null")
    return parser.parse_args(arguments)


def _case(options: argparse.Namespace) -> Case:
    case = Case(
        count=0 if options.duration else options.count,
        duration=options.duration,
        body_size=options.body_size,
        credit=options.credit,
        message_ids=options.message_ids,
        settlement=options.settlement,
        keep_records=not options.no_records,
    )
    return replace(case, rate=options.rate, time_unit="us") if options.rate else case


def main(arguments: Sequence[str]) -> int:
    """Print the table of one comparison."""
    options = _parse(arguments)
    ours = shlex.split(options.arrow) if options.arrow else product_command()
    if options.reference:
        reference: Command = shlex.split(options.reference)
    else:
        reference = [str(build.build().arrow)]
    case = _case(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        comparison = compare(ours, reference, case, options.rounds)
    except RunError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    for line in table(rows_of("pair", comparison, {})):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
