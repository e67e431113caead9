"""Long durable messages that end at once: a turn of the loop makes few of them whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from proton import Delivery, Sender
from support.engine_client import EngineClient
from support.server import Server, running_server

from tests.functional.server.test_chain_faults import everything
from tests.functional.server.test_chains import (
    MEBIBYTE,
    QUEUE,
    live,
    message_of,
    streamed,
)

Start = Callable[..., Server]
# More bytes than the ends of several may copy in one turn.
SIZE = 5 * MEBIBYTE
COUNT = 4


class Producer:
    """A client that has sent a long message but for its last byte."""

    def __init__(self, stack: ExitStack, server: Server) -> None:
        self.client = stack.enter_context(EngineClient(server.port))
        self.message = message_of(os.urandom(SIZE))
        self.sender: Sender = self.client.sender(QUEUE, streaming=True)
        self.delivery = self.client.start(self.sender, self.message[:100])
        streamed(self.client, self.sender, self.message[100:-1])
        self.client.sync()

    def end(self) -> None:
        """Send the last byte."""
        self.sender.stream(self.message[-1:])
        self.sender.advance()
        self.client.pump(0)

    def is_accepted(self) -> bool:
        """Wait for the outcome; say whether it is the good one."""
        self.client.until(lambda: bool(self.delivery.remote_state))
        return bool(self.delivery.remote_state == Delivery.ACCEPTED)


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Have the server see all that happens meanwhile in one turn of its loop."""
    server.running.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.running.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("durability", ["none", "group"])
@pytest.mark.parametrize("consumed", [False, True])
def test_each_is_whole(start: Start, tmp_path: Path, durability: str, consumed: bool) -> None:
    """Also those that wait for a later turn, whose consumers have the most of them already."""
    server = start(store=tmp_path / "store", durability=durability)
    with ExitStack() as stack:
        producers = [Producer(stack, server) for _ in range(COUNT)]
        if consumed:
            consumer = stack.enter_context(EngineClient(server.port))
            consumer.read(consumer.receiver(QUEUE), MEBIBYTE)
            consumer.socket.close()
        with stopped(server):
            for producer in producers:
                producer.end()
        assert all(producer.is_accepted() for producer in producers)
        reader = stack.enter_context(EngineClient(server.port))
        # The header of a message delivered before differs, so the body is compared.
        found = sorted(each[-SIZE:] for each in everything(reader, QUEUE))
        assert found == sorted(producer.message[-SIZE:] for producer in producers)


def test_what_follows_on_the_link_stays_behind(start: Start, tmp_path: Path) -> None:
    server = start(store=tmp_path / "store")
    small = message_of(b"small")
    with ExitStack() as stack:
        producers = [Producer(stack, server) for _ in range(COUNT)]
        with stopped(server):
            for producer in producers:
                producer.end()
                producer.client.send(producer.sender, small)
        for producer in producers:
            assert producer.is_accepted()
            producer.client.sync()
        found = everything(stack.enter_context(EngineClient(server.port)), QUEUE)
        assert sorted(map(len, found)) == sorted([len(small), len(producers[0].message)] * COUNT)
        # Each link's own order: no small one is before as many long ones.
        for place in range(len(found)):
            short = sum(len(each) == len(small) for each in found[: place + 1])
            assert short <= place + 1 - short


@pytest.mark.parametrize("way", ["cut", "detach", "abort"])
def test_links_that_go_while_they_wait(start: Start, tmp_path: Path, way: str) -> None:
    """Their messages are whole or not there; the others' are there."""
    server = start(store=tmp_path / "store")
    with ExitStack() as stack:
        producers = [Producer(stack, server) for _ in range(COUNT)]
        gone = producers[1::2]
        with stopped(server):
            for producer in producers:
                if way != "abort" or producer not in gone:
                    producer.end()
                if producer not in gone:
                    continue
                if way == "cut":
                    producer.client.socket.close()
                elif way == "detach":
                    producer.sender.close()
                    producer.client.pump(0)
                else:
                    producer.delivery.abort()
                    producer.client.pump(0)
        stay = [producer for producer in producers if producer not in gone]
        assert all(producer.is_accepted() for producer in stay)
        found = everything(stack.enter_context(EngineClient(server.port)), QUEUE)
        assert {producer.message for producer in stay} <= set(found)
        assert set(found) <= {producer.message for producer in producers}
        assert len(set(found)) == len(found)
        if way == "abort":
            assert len(found) == len(stay)
    assert live(tmp_path / "store") == []


@pytest.mark.parametrize("durability", ["none", "group"])
def test_a_crash_while_some_wait(tmp_path: Path, durability: str) -> None:
    """Accepted messages are there, whole; others are whole or missing."""
    keys = {"store": tmp_path / "store", "durability": durability}
    with running_server(tmp_path, **keys) as server, ExitStack() as stack:
        producers = [Producer(stack, server) for _ in range(COUNT)]
        with stopped(server):
            for producer in producers:
                producer.end()
        # One of them is accepted, and the others are on their way.
        first = producers[0]
        assert first.is_accepted()
        server.kill()
        accepted = {first.message}
        for producer in producers[1:]:
            producer.client.until(
                lambda client=producer.client: client.closed_by_peer  # type: ignore[misc]
            )
            if producer.delivery.remote_state == Delivery.ACCEPTED:
                accepted.add(producer.message)
    with running_server(tmp_path, **keys) as again, EngineClient(again.port) as client:
        found = everything(client, QUEUE)
    assert accepted <= set(found) <= {producer.message for producer in producers}
    assert len(set(found)) == len(found)
