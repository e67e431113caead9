"""State of messages that survives a crash: time to live, failures, first-acquirer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Delivery
from support.clients import Clients
from support.server import Server

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.live import LiveEntries, remove_entries

Start = Callable[..., Server]
HOUR = 3600.0


@pytest.mark.parametrize("kill", [True, False])
def test_time_to_live_and_failures(start: Start, tmp_path: Path, kill: bool) -> None:
    server = start(store=tmp_path / "store")
    began = time.time()
    with Clients(server.port) as clients:
        connection = clients.connect()
        producer = clients.producer(connection, "q")
        producer.publish("failed", "fresh", durable=True, ttl=HOUR)
        producer.publish("for ever", durable=True)
        for _ in range(3):
            consumer = clients.consumer(connection, "q", credit=1)
            consumer.take_one().modify(failed=True)
            consumer.close()
        clients.sync(connection)
    if kill:
        server.kill()
    else:
        assert server.end().code == 0
    server = start(store=tmp_path / "store")
    with Clients(server.port) as clients:
        taken = clients.consumer(clients.connect(), "q", credit=3).take(3)
        passed = time.time() - began
        messages = {each.body: each.message for each in taken}
        assert list(messages) == ["failed", "fresh", "for ever"]
        assert [message.delivery_count for message in messages.values()] == [3, 0, 0]
        assert not messages["failed"].first_acquirer
        assert messages["fresh"].first_acquirer
        for body in ("failed", "fresh"):
            assert HOUR - passed - 0.1 <= messages[body].ttl < HOUR
        assert messages["for ever"].ttl == 0


def test_what_expired_while_the_server_was_down(start: Start, tmp_path: Path) -> None:
    server = start(store=tmp_path / "store")
    with Clients(server.port) as clients:
        producer = clients.producer(clients.connect(), "q")
        assert clients.outcome(producer.send("gone", durable=True, ttl=0.05)) == Delivery.ACCEPTED
        assert clients.outcome(producer.send("here", durable=True)) == Delivery.ACCEPTED
        server.kill()
        ends = time.time() + 0.05
    server = start(store=tmp_path / "store")
    # A start takes longer than that; if ever it does not, its time is not over yet.
    assert time.time() > ends
    with Clients(server.port) as clients:
        assert clients.drain_queue(clients.connect(), "q") == ["here"]


def test_a_poisonous_message_does_not_fill_the_disk(start: Start, tmp_path: Path) -> None:
    server = start(store=tmp_path / "store")
    with Clients(server.port) as clients:
        connection = clients.connect()
        clients.producer(connection, "q").publish("poison", durable=True)
        consumer = clients.consumer(connection, "q", credit=1)
        for _ in range(100):
            consumer.take_one().modify(failed=True)
            consumer.link.flow(1)
        clients.sync(connection)
    server.kill()
    (states,) = LiveEntries(tmp_path / "store" / "q").states.values()
    assert states == (0, 64)


def test_states_are_of_live_entries_only(tmp_path: Path) -> None:
    appender = Appender(tmp_path / "q")
    indexes = [appender.append_raw(b"x") for _ in range(3)]
    for index, end, failures in [(0, 5, 0), (1, 7, 0), (1, 7, 2), (2, 0, 1)]:
        numbers = (indexes[index], end, failures)
        content = b"".join(number.to_bytes(8, "little") for number in numbers)
        head = b"\xb9\x0cquiver.state\x82" + (len(content) + 1).to_bytes(4, "little") + b"\x8a"
        appender.append_meta_data(head + content)
    remove_entries(appender, [indexes[0]])
    appender.close()
    assert LiveEntries(tmp_path / "q").states == {indexes[1]: (7, 2), indexes[2]: (0, 1)}
