"""Messages in parts of a byte: what the server needs for each part is bounded, or counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.measured import Figure
from support.metrics import scrape
from support.processes import free_port
from support.sections import declare, section
from support.server import Server
from support.streams import rss

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite, message
from tests.functional.server.test_chains import DURABLE, QUEUE, parts_of

Start = Callable[..., Server]
SMALL = message(b"x")
LINKS = 100
# The first window of a session has 64 frames.
DELIVERIES = 25
# The least memory of a message or of a delivery's record.
RECORD = 200


def held(port: int) -> float:
    return scrape(port).value("quiver_server_held_bytes")


def begun(server: Server) -> FrameClient:
    client = FrameClient(server.port)
    client.open()
    client.begin(outgoing_window=2**31 - 1)
    return client


def synced(client: FrameClient) -> None:
    """Return when the server has handled all frames; read what came before."""
    client.send("begin", channel=1, next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    client.send("end", channel=1)
    while client.read().name != "end":
        pass


def fill(client: FrameClient, address: str) -> None:
    """Send deliveries of two frames, which wait for room, on many links."""
    number = 2
    for handle in range(1, LINKS + 1):
        client.attach_sender(address, handle=handle)
        client.wait_for_credit()
        for _ in range(DELIVERIES):
            client.transfer(number, SMALL[:1], handle=handle, more=True)
            client.transfer(number, SMALL[1:], handle=handle)
            number += 1
    synced(client)


def full(client: FrameClient) -> None:
    """Fill a queue of 64 KiB."""
    client.attach_sender("q")
    client.wait_for_credit()
    for number in range(2):
        client.transfer(number, message(b"x" * 40_000), settled=True)


def test_deliveries_that_wait_count(start: Start) -> None:
    """Those of two frames and six bytes count as the memory that they take."""
    metrics = free_port()
    with begun(start(queue_limit=65536, metrics_port=metrics)) as client:
        full(client)
        synced(client)
        before = held(metrics)
        fill(client, "q")
        assert held(metrics) > before + LINKS * DELIVERIES * RECORD
        for handle in range(1, LINKS + 1):
            client.send("detach", handle=handle, closed=True)
            client.expect("detach")
        assert held(metrics) == before


@pytest.mark.measured
def test_deliveries_that_wait_are_small(start: Start, figure: Figure) -> None:
    server = start(queue_limit=65536)
    with begun(server) as client:
        full(client)
        before = rss(server)
        fill(client, "q")
        most = LINKS * DELIVERIES * 1024 + (1 << 20)
        figure("bytes of 2,500 small deliveries", rss(server) - before, at_most=most, unit="B")


def test_messages_that_have_begun_count(start: Start) -> None:
    """One byte of a message counts as the chunk that it is in."""
    metrics = free_port()
    with begun(start(metrics_port=metrics)) as client:
        for handle in range(LINKS):
            client.attach_sender("q", handle=handle)
            client.wait_for_credit()
        before = held(metrics)
        for handle in range(LINKS):
            client.transfer(handle, SMALL[:1], handle=handle, more=True)
            # The session's window has 64 frames.
            if handle % 20 == 19:
                synced(client)
        assert held(metrics) > before + LINKS * 32768
        for handle in range(LINKS):
            client.transfer(handle, SMALL[1:], handle=handle)
            client.expect("disposition")
        assert held(metrics) == before


def test_messages_of_a_transaction_count(start: Start) -> None:
    metrics = free_port()
    with begun(start(metrics_port=metrics)) as client:
        client.attach_sender("", target=composite("coordinator"))
        client.wait_for_credit()
        transaction = declare(client, 0)
        client.attach_sender("q", handle=1)
        client.wait_for_credit()
        before = held(metrics)
        state = composite("transactional_state", txn_id=transaction)
        for number in range(1, 51):
            client.transfer(number, SMALL, handle=1, state=state)
        client.expect("disposition")
        synced(client)
        assert held(metrics) > before + 50 * RECORD
        client.transfer(51, section(0x77, composite("discharge", txn_id=transaction, fail=True)))
        synced(client)
        assert held(metrics) == before


def test_parts_of_a_stored_message_are_few(start: Start, tmp_path: Path) -> None:
    """Its consumer gets each of the first parts at once, and later ones together."""
    store = tmp_path / "store"
    # A message is a stream from 256 KiB on.
    begin = 5 * 60_000
    data = DURABLE + message(b"x" * (begin + 6000))
    with begun(start(store=store)) as client:
        client.attach_receiver(QUEUE, handle=1)
        client.give_credit(1, handle=1, incoming_window=2**31 - 1)
        client.attach_sender(QUEUE)
        client.wait_for_credit()
        for at in range(0, begin, 60_000):
            client.transfer(0, data[at : at + 60_000], more=True)
        assert client.expect("transfer").fields["more"]
        for at in range(begin, len(data), 25):
            # The window of the session is topped up when half of its 64 frames are left.
            for each in range(at, min(at + 25, len(data))):
                client.send("transfer", handle=0, more=True, payload=data[each : each + 1])
            synced(client)
        client.send("transfer", handle=0, more=False)
        synced(client)
    # Without a bound there are more than 6,000.
    assert 1024 < len(parts_of(store / QUEUE)) < 1024 + len(data) // 512 + 3
