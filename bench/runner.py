"""Run pairs of arrows over loopback and measure them, interleaved with a reference.

A pair is a receiver (connection-mode=server, channel-mode=passive) on a free
port and a sender that connects to it. What is measured comes from outside the
arrows: the records they print, the CPU time that the kernel accounts to each
process, their peak memory and the wall clock. Process start-up is included.

Run as a program, it prints one table (ours, reference, ratio):

    python -m bench.runner --count 1m --body-size 100 --rounds 5
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from bench.reference import build

ROOT = Path(__file__).resolve().parents[1]
Command = Sequence[str]

READY_TIMEOUT = 15.0  # seconds until the receiver must listen
SAMPLE_PERIOD = 0.02  # seconds between readings of the memory high-water marks


class RunError(Exception):
    """An arrow failed, hung or printed other records than it should."""


@dataclass(frozen=True)
class Case:
    """One workload: what both arrows are told. Sizes in bytes, times in seconds."""

    count: int
    body_size: int = 100
    credit: int = 1000
    rate: int = 0
    message_ids: bool = False
    settlement: bool = False
    keep_records: bool = True
    time_unit: str = "ms"
    timeout: float = 120.0


@dataclass(frozen=True)
class Side:
    """What the kernel accounted to one arrow."""

    cpu: float  # seconds, user and system
    wall: float  # seconds from spawn to exit
    peak_rss: int  # bytes
    rss: tuple[int, ...]  # bytes, sampled every SAMPLE_PERIOD


@dataclass(frozen=True)
class Run:
    """One measured pair."""

    case: Case
    sender: Side
    receiver: Side
    ready: float  # seconds from spawn until the receiver listens
    elapsed: float  # seconds from the first send to the last receive
    latencies: tuple[int, ...] = ()  # sorted, in the case's time unit; only under rate


# ---- Metrics ----------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A figure of a run. ``gate`` turns (ours, reference) into the gated value."""

    unit: str
    value: Callable[[Run], float]
    larger_is_better: bool = False
    gate: Callable[[float, float], float] = field(default=lambda ours, reference: ours / reference)


def _percentile(percent: float) -> Callable[[Run], float]:
    def value(run: Run) -> float:
        rank = math.ceil(percent / 100 * len(run.latencies))
        return float(run.latencies[max(rank, 1) - 1])

    return value


def _startup_share(ours: float, reference: float) -> float:
    """Share of the allowance for start-up: 1.5 times the reference and 60 ms for Python."""
    return ours / (1.5 * reference + 60.0)


METRICS = {
    "rate": Metric("k/s", lambda run: run.case.count / run.elapsed / 1e3, larger_is_better=True),
    "sender_cpu": Metric("ns", lambda run: run.sender.cpu * 1e9 / run.case.count),
    "receiver_cpu": Metric("ns", lambda run: run.receiver.cpu * 1e9 / run.case.count),
    # Memory is gated on our own megabytes: a leak in the reference must not excuse ours.
    "sender_rss": Metric("MB", lambda run: run.sender.peak_rss / 1e6, gate=lambda ours, _: ours),
    "receiver_rss": Metric(
        "MB", lambda run: run.receiver.peak_rss / 1e6, gate=lambda ours, _: ours
    ),
    "p50": Metric("us", _percentile(50)),
    "p99": Metric("us", _percentile(99)),
    "p99.9": Metric("us", _percentile(99.9)),
    "sender_startup": Metric("ms", lambda run: run.sender.wall * 1e3, gate=_startup_share),
    "receiver_startup": Metric("ms", lambda run: run.ready * 1e3, gate=_startup_share),
}


# ---- One process ------------------------------------------------------------


class _Arrow:
    """A running arrow. Reaps its process itself, to get the kernel's accounting."""

    def __init__(self, command: Command, arguments: dict[str, object], records: Path) -> None:
        line = [*command, *(f"{key}={value}" for key, value in arguments.items())]
        self.name = f"{arguments['operation']}: {shlex.join(line)}"
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self.spawned = time.monotonic()
        with records.open("wb") as output:
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=output, stderr=self.errors
            )
        self.exit_descriptor = os.pidfd_open(self.process.pid)
        self.rss: list[int] = []
        self.peak_rss = 0
        self.side: Side | None = None

    def sample_memory(self) -> None:
        """Read the memory marks of the running program.

        The kernel's ru_maxrss will not do: a child inherits the peak of the
        process that forked it, that is of this one.
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
            RunError: it ended with a non-zero exit code.
        """
        wall = time.monotonic() - self.spawned
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.side = Side(usage.ru_utime + usage.ru_stime, wall, self.peak_rss, tuple(self.rss))
        if self.process.returncode != 0:
            raise RunError(f"exit code {self.process.returncode}, {self.name}\n{self.error_text()}")

    def error_text(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()

    def close(self) -> None:
        """End the process if it still runs, and release what is held."""
        if self.side is None and self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        os.close(self.exit_descriptor)
        self.errors.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_listening(port: int) -> bool:
    """Look whether someone listens, without connecting: an arrow accepts only once."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":  # TCP_LISTEN
                return True
    return False


def _await_ready(receiver: _Arrow, port: int) -> float:
    deadline = receiver.spawned + READY_TIMEOUT
    while not _is_listening(port):
        if select.select([receiver.exit_descriptor], [], [], 0.001)[0]:
            receiver.reap()
            raise RunError(f"ended before it listened: {receiver.name}")
        if time.monotonic() > deadline:
            raise RunError(f"does not listen after {READY_TIMEOUT} s: {receiver.name}")
    return time.monotonic() - receiver.spawned


def _await_exit(arrows: Sequence[_Arrow], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    running = {arrow.exit_descriptor: arrow for arrow in arrows}
    while running:
        for descriptor in select.select(list(running), [], [], SAMPLE_PERIOD)[0]:
            running.pop(descriptor).reap()
        for arrow in running.values():
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


def _times(line: bytes) -> tuple[int, int]:
    """Return (send, receive) of a receiver's record: its last two fields in every revision."""
    fields = line.split(b",")
    return int(fields[-2]), int(fields[-1])


def _units_per_second(case: Case) -> int:
    return {"ms": 10**3, "us": 10**6, "ns": 10**9}[case.time_unit]


def transfer_seconds(records: Path, case: Case) -> float:
    """Return the seconds from the first send to the last receive of a receiver's records.

    Raises:
        RunError: there are not exactly ``case.count`` records.
    """
    found = _count_lines(records)
    if found != case.count:
        raise RunError(f"the receiver printed {found} records, not {case.count}")
    with records.open("rb") as stream:
        first_send, _ = _times(stream.readline())
    _, last_receive = _times(_last_line(records))
    # A transfer within one tick of the clock still took some of it.
    return max(last_receive - first_send, 1) / _units_per_second(case)


def latencies(records: Path) -> tuple[int, ...]:
    """Return the sorted latencies of a receiver's records, signed, in their own unit."""
    with records.open("rb") as stream:
        pairs = map(_times, stream)
        return tuple(sorted(receive - send for send, receive in pairs))


# ---- One pair ---------------------------------------------------------------


def _arguments(case: Case, operation: str, port: int) -> dict[str, object]:
    receiving = operation == "receive"
    arguments: dict[str, object] = {
        "connection-mode": "server" if receiving else "client",
        "channel-mode": "passive" if receiving else "active",
        "operation": operation,
        "id": f"bench-{operation}",
        "scheme": "amqp",
        "host": "127.0.0.1",
        "port": port,
        "path": "q",
        "duration": 0,
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
    if case.time_unit != "ms":
        arguments["time-unit"] = case.time_unit
    return arguments


def _records_directory() -> str | None:
    """Prefer memory for the records: the disk is not what is measured."""
    shared = Path("/dev/shm")
    return str(shared) if os.access(shared, os.W_OK) else None


def run_pair(sender: Command, receiver: Command, case: Case) -> Run:
    """Run one receiver and one sender to the end.

    With ``keep_records=False`` the records go to /dev/null and the elapsed time is
    the sender's wall clock.

    Raises:
        RunError: a process failed or hung, or records are missing.
    """
    with tempfile.TemporaryDirectory(dir=_records_directory()) as scratch:
        sink = Path("/dev/null")
        sent = Path(scratch, "sent") if case.keep_records else sink
        received = Path(scratch, "received") if case.keep_records else sink
        port = _free_port()
        arrows = [_Arrow(receiver, _arguments(case, "receive", port), received)]
        try:
            ready = _await_ready(arrows[0], port)
            arrows.append(_Arrow(sender, _arguments(case, "send", port), sent))
            _await_exit(arrows, case.timeout)
        finally:
            for arrow in arrows:
                arrow.close()
        receiving, sending = (arrow.side for arrow in arrows)
        assert receiving is not None
        assert sending is not None
        elapsed = transfer_seconds(received, case) if case.keep_records else sending.wall
        timed = latencies(received) if case.rate else ()
        return Run(case, sending, receiving, ready, elapsed, timed)


# ---- Comparison -------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Figures of interleaved rounds: round i of ours ran next to round i of the reference."""

    ours: list[Run]
    reference: list[Run]

    def figures(self, name: str) -> tuple[float, float, float]:
        """Return the medians (ours, reference, gated value) of the metric ``name``.

        The gated value is the median of the pair-wise ones (mostly ratios): neighbours
        in time share the noise of the machine.
        """
        metric = METRICS[name]
        pairs = [
            (metric.value(ours), metric.value(reference))
            for ours, reference in zip(self.ours, self.reference, strict=True)
        ]
        ours, reference = (median(column) for column in zip(*pairs, strict=True))
        return ours, reference, median(metric.gate(*pair) for pair in pairs)


def rounds_of(
    ours: Command, reference: Command, case: Case, rounds: int
) -> Iterator[tuple[Run, Run]]:
    """Yield (our run, reference run), the reference run first in each round."""
    for _ in range(rounds):
        reference_run = run_pair(reference, reference, case)
        yield run_pair(ours, ours, case), reference_run


def compare(ours: Command, reference: Command, case: Case, rounds: int) -> Comparison:
    """Run ``rounds`` interleaved rounds of both."""
    pairs = list(rounds_of(ours, reference, case, rounds))
    return Comparison([pair[0] for pair in pairs], [pair[1] for pair in pairs])


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
    parser.add_argument("--body-size", type=_quantity, default=100, help="bytes")
    parser.add_argument("--credit", type=_quantity, default=1000, help="messages")
    parser.add_argument("--rate", type=_quantity, default=0, help="messages per second; 0: no limit")
    parser.add_argument("--message-ids", action="store_true")
    parser.add_argument("--settlement", action="store_true", help="ids and S/s lines")
    parser.add_argument("--no-records", action="store_true", help="send the records to /dev/null")
    return parser.parse_args(arguments)


def _case(options: argparse.Namespace) -> Case:
    case = Case(
        count=options.count,
        body_size=options.body_size,
        credit=options.credit,
        message_ids=options.message_ids,
        settlement=options.settlement,
        keep_records=not options.no_records,
    )
    return replace(case, rate=options.rate, time_unit="us") if options.rate else case


def metric_names(case: Case) -> list[str]:
    """Name the metrics that mean something for a throughput case, or one under rate."""
    timed = ["p50", "p99", "p99.9"] if case.rate else ["rate"]
    return [*timed, "sender_cpu", "receiver_cpu", "sender_rss", "receiver_rss"]


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
    print(f"{'':14}{'ours':>12}{'reference':>12}{'ratio':>9}")
    for name in metric_names(case):
        ours_value, reference_value, _ = comparison.figures(name)
        label = f"{name} [{METRICS[name].unit}]"
        ratio = ours_value / reference_value
        print(f"{label:18}{ours_value:>8.1f}{reference_value:>12.1f}{ratio:>9.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
