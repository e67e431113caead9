"""Latency of single fragments, of deaths and of small messages through the server."""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from proton import Delivery, Receiver, Sender
from support.engine_client import EngineClient
from support.streams import head

from bench.runner import (
    Case,
    Command,
    Measured,
    RunError,
    arrow_line,
    await_exit,
    latencies,
    product_command,
    records_directory,
)

STREAMS = 8
# Bytes of a stream that does not end.
ENDLESS = 10**15
# Small messages per second beside the streams.
RATE = 1000
# Ends of a client: in order, by the end of its socket, and by its reset.
WAYS = ("close", "fin", "reset")


def first_fragment(port: int, count: int) -> float:
    """Return the median, in us, from the first byte of a stream to its arrival.

    Both clients are in this process, so the figure includes their own time.
    """
    took = []
    with EngineClient(port) as producer, EngineClient(port) as consumer:
        receiver = consumer.receiver("q", count)
        sender = producer.sender("q", streaming=True)
        for _ in range(count):
            producer.until(lambda: sender.credit > 0)
            begin = time.perf_counter_ns()
            delivery = producer.start(sender, head(2) + b"x")
            consumer.read(receiver, 9)
            took.append(time.perf_counter_ns() - begin)
            sender.stream(b"x")
            sender.advance()
            producer.pump(0)
            consumer.until(lambda: not receiver.current.partial)
            consumer.accept(receiver)
            producer.until(lambda delivery=delivery: delivery.settled)
    return median(took) / 1e3


def later_fragments(port: int, count: int) -> float:
    """Return the median, in us, of a fragment of a running stream; see `first_fragment`."""
    took = []
    with EngineClient(port) as producer, EngineClient(port) as consumer:
        receiver = consumer.receiver("q", 1)
        sender = producer.sender("q", streaming=True)
        producer.start(sender, head(ENDLESS >> 20) + b"x")
        consumer.read(receiver, 9)
        for _ in range(count):
            begin = time.perf_counter_ns()
            sender.stream(b"x" * 100)
            producer.pump(0)
            consumer.read(receiver, 100)
            took.append(time.perf_counter_ns() - begin)
    return median(took) / 1e3


# ---- Deaths -----------------------------------------------------------------


def death_of_receivers(port: int, count: int) -> dict[str, float]:
    """Return the median, in us, from a receiver's death to its sender's outcome, by way."""
    return {way: median(_receiver_dies(port, way) for _ in range(count)) for way in WAYS}


def death_of_senders(port: int, count: int) -> dict[str, float]:
    """Return the median, in us, from a sender's death to the receiver's aborted delivery."""
    return {way: median(_sender_dies(port, way) for _ in range(count)) for way in WAYS}


@contextlib.contextmanager
def _running(port: int) -> Iterator[tuple[EngineClient, EngineClient, Receiver, Delivery]]:
    with EngineClient(port) as producer, EngineClient(port) as consumer:
        receiver = consumer.receiver("q", 1)
        sender: Sender = producer.sender("q", streaming=True)
        delivery = producer.start(sender, head(1000) + b"x")
        consumer.read(receiver, 9)
        yield producer, consumer, receiver, delivery


def _receiver_dies(port: int, way: str) -> float:
    with _running(port) as (producer, consumer, _, delivery):
        begin = time.perf_counter_ns()
        _leave(consumer, way)
        producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
        return (time.perf_counter_ns() - begin) / 1e3


def _sender_dies(port: int, way: str) -> float:
    with _running(port) as (producer, consumer, receiver, _):
        seen = receiver.current
        begin = time.perf_counter_ns()
        _leave(producer, way)
        consumer.until(lambda: seen.aborted)
        return (time.perf_counter_ns() - begin) / 1e3


def _leave(client: EngineClient, way: str) -> None:
    if way == "close":
        client.connection.close()
        client.pump(0)
        return
    if way == "reset":
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


# ---- Beside streams ---------------------------------------------------------


def beside_streams(port: int, count: int) -> tuple[float, float]:
    """Return figures of small messages while streams run through the server.

    All ends are our arrows. The arrows of the streams run at full speed with a low priority
    (nice), so they get the rest of two cores, and the latency is the server's.

    Returns:
        the 99th percentile of the small messages' latency, in us, from their intended
        send times on, and MB/s of the streams meanwhile.

    Raises:
        RunError: a stream did not move.
    """
    case = Case(count, rate=RATE, time_unit="us")
    arrow = product_command()
    with tempfile.TemporaryDirectory(dir=records_directory()) as scratch:
        streamed, received = Path(scratch, "streamed"), Path(scratch, "received")
        with _streams(arrow, port, streamed):
            before, begin = _moved(streamed), time.monotonic()
            lines = [
                (arrow_line(arrow, case, "receive", port, through=True), received),
                (arrow_line(arrow, case, "send", port, through=True), Path("/dev/null")),
            ]
            with _measured(lines) as probe:
                await_exit(probe, case.timeout)
            after, seconds = _moved(streamed), time.monotonic() - begin
        still = [stream for stream in after if after[stream] <= before.get(stream, 0)]
        if still or len(after) != STREAMS:
            raise RunError(f"{STREAMS - len(after) + len(still)} of the streams did not move")
        rate = (sum(after.values()) - sum(before.values())) / seconds / 1e6
        return _percentile(latencies(received), 99.0), rate


@contextlib.contextmanager
def _streams(arrow: Command, port: int, records: Path) -> Iterator[None]:
    """Run streams to one receiver until the end of the block; all move when it begins."""
    case = Case(
        1, body_size=ENDLESS, credit=STREAMS, streaming=True, time_unit="us", queue="streams"
    )

    def line(operation: str) -> list[str]:
        words = arrow_line(arrow, case, operation, port, through=True)
        if operation == "receive":
            words[words.index("count=1")] = f"count={STREAMS}"
        return ["nice", "-n", "19", *words]

    nowhere = Path("/dev/null")
    senders = [(line("send"), nowhere) for _ in range(STREAMS)]
    with _measured([(line("receive"), records), *senders]):
        deadline = time.monotonic() + case.timeout
        while len(_moved(records)) < STREAMS:
            if time.monotonic() > deadline:
                raise RunError(f"{len(_moved(records))} of {STREAMS} streams began")
            time.sleep(0.1)
        yield


@contextlib.contextmanager
def _measured(lines: Sequence[tuple[Command, Path]]) -> Iterator[list[Measured]]:
    running: list[Measured] = []
    try:
        running += (Measured(line, output) for line, output in lines)
        yield running
    finally:
        for each in running:
            each.close()


def _moved(records: Path) -> dict[bytes, int]:
    """Return the received bytes of each stream, by the times at which it began."""
    moved: dict[bytes, int] = {}
    for line in records.read_bytes().splitlines(keepends=True):
        if line.startswith(b"B,") and line.endswith(b"\n"):
            _, sent, first, _, size = line.split(b",")
            moved[sent + b"," + first] = moved.get(sent + b"," + first, 0) + int(size)
    return moved


def _percentile(ordered: Sequence[int], percent: float) -> float:
    return float(ordered[max(math.ceil(percent / 100 * len(ordered)), 1) - 1])
