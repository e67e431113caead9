"""How long single fragments and small messages take through the server."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Sequence
from statistics import median

from support.engine_client import EngineClient
from support.streams import head

STREAMS = 8


def first_fragment(port: int, count: int) -> float:
    """Return the median, in us, from the first byte of a stream to its arrival.

    Both clients are in this process: what they take themselves is in the figure.
    """
    took = []
    with EngineClient(port) as producer, EngineClient(port) as consumer:
        receiver = consumer.receiver("q", count)
        sender = producer.sender("q", streaming=True)
        for _ in range(count):
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


def run_streams(port: int) -> None:
    """Run streams as fast as this process can, until it is ended."""
    with EngineClient(port) as producer, EngineClient(port, streaming_links=True) as consumer:
        consumer.receiver("streams")
        senders = [producer.sender("streams", streaming=True) for _ in range(STREAMS)]
        for sender in senders:
            producer.start(sender, head(1 << 31))
        links = [consumer.take() for _ in senders]
        while True:
            for sender in senders:
                if sender.session.outgoing_bytes < 65536:
                    sender.stream(b"x" * 16384)
            producer.pump(0)
            consumer.pump(0)
            for link in links:
                while link.current is not None and link.recv(65536):
                    pass


def beside_streams(port: int, count: int) -> float:
    """Return the 99th percentile, in us, of a small message beside streams that run."""
    took = []
    streams = multiprocessing.get_context("spawn").Process(target=run_streams, args=(port,))
    streams.start()
    try:
        with EngineClient(port) as producer, EngineClient(port) as consumer:
            receiver = consumer.receiver("small", count)
            sender = producer.sender("small")
            for _ in range(count):
                producer.until(lambda: sender.credit > 0)
                begin = time.perf_counter_ns()
                producer.send(sender, head(1) + b"y")
                consumer.read(receiver, 9)
                took.append(time.perf_counter_ns() - begin)
                consumer.accept(receiver)
                time.sleep(0.005)
    finally:
        streams.kill()
        streams.join()
    return _percentile(sorted(took), 99.0) / 1e3


def _percentile(ordered: Sequence[int], percent: float) -> float:
    return float(ordered[max(math.ceil(percent / 100 * len(ordered)), 1) - 1])
