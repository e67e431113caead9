"""Ten large durable messages that end at once keep nobody else waiting.

The end of one copies all of it in its queue's file: 16 ms of work. The server does one in a turn
of its loop, so that others wait for two at most.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.bulk import Producer, header
from support.complexity import MIB, TRIP, Bench, longest, serving
from support.measured import Figure

from quiver_fast.conform.wire.frames import encode_frame, message

COUNT = 10
# Bytes of a message, which are below the longest entry's, and of its frames.
LARGE, PIECE = 15 * MIB, 60_000
# A bystander that had no core did not wait for the server; one that has to waits each time.
ROUNDS = 4


def send_but_the_end(producer: Producer) -> None:
    """Send all frames of a message but its last one."""
    content = header(durable=True) + message(bytes(LARGE))
    # The window counts frames.
    producer.window = 0
    for number, at in enumerate(range(0, len(content), PIECE)):
        while producer.credit() == 0 or producer.window <= number:
            producer.client.pump(b"", lambda: bool(producer.client.frames))
        producer.client.pump(
            encode_frame(
                "transfer", handle=0, delivery_id=0, delivery_tag=b"0", message_format=0,
                more=True, payload=content[at : at + PIECE],
            )
        )  # fmt: skip
    producer.client.echo()


def longest_trip(bench: Bench) -> float:
    """Return a bystander's longest round trip while ten messages end, in ms of the server's CPU."""
    assert bench.watch is not None
    bench.runs += 1
    producers = [Producer(bench, bench.fresh(f"large{number}")) for number in range(COUNT)]
    for producer in producers:
        send_but_the_end(producer)
    bench.watch.start()
    for producer in producers:
        producer.client.pump(encode_frame("transfer", handle=0, delivery_id=0))
    for producer in producers:
        producer.client.pump(b"", lambda client=producer.client: client.settled > 0)  # type: ignore[misc]
    trips = bench.watch.stop()
    bench.close()
    assert trips
    return longest(trips, 1)


@pytest.mark.measured
def test_a_bystander(tmp_path: Path, figure: Figure) -> None:
    with serving(tmp_path, {"store": True}) as bench:
        found: list[float] = []
        while len(found) < ROUNDS and min(found, default=TRIP + 1) > TRIP:
            found.append(longest_trip(bench))
    figure("a bystander's wait, of CPU", min(found), at_most=TRIP, unit="ms")
