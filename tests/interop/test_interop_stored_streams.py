"""A store with streams in it that are whole, unfinished, aborted: Java sees the whole ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.chronicle import read_queues
from support.engine_client import EngineClient
from support.queue_twin import raw
from support.server import running_server
from support.streams import head

from quiver_fast.queuefile.verify import verify_queue
from tests.functional.server.test_chains import (
    DURABLE,
    MEBIBYTE,
    QUEUE,
    REFERENCE,
    message_of,
    parts_of,
    send,
    streamed,
)

pytestmark = [pytest.mark.peer("chronicle"), pytest.mark.timeout(200)]


def entries(queue: Path) -> list[bytes]:
    (found,) = read_queues(queue)
    return [content for _, content in found]


def test_java_reads_whole_messages_only(tmp_path: Path) -> None:
    """While they arrive, after a crash, and after the start that follows it."""
    queue = tmp_path / "store" / QUEUE
    small = DURABLE + head(1) + b"s"
    whole = [message_of(os.urandom(size)) for size in (300_000, 2 * MEBIBYTE)]
    long = message_of(os.urandom(17 * MEBIBYTE))
    with (
        running_server(tmp_path, store=tmp_path / "store") as server,
        EngineClient(server.port) as producer,
    ):
        sender = producer.sender(QUEUE, streaming=True)
        unfinished = producer.sender(QUEUE, streaming=True)
        producer.start(unfinished, message_of(b"u" * MEBIBYTE)[:500_000])
        send(producer, sender, whole[0])
        aborted = producer.start(sender, message_of(b"a" * MEBIBYTE)[:100])
        streamed(producer, sender, bytes(400_000))
        aborted.abort()
        send(producer, sender, whole[1])
        producer.send(sender, small)
        send(producer, sender, long)
        producer.sync()
        expected = [raw(each) for each in (*whole, small)]
        while_it_runs = entries(queue)
        # Unfinished, aborted and whole streams have parts.
        assert len({chain for chain, _ in parts_of(queue)}) == 5
        server.kill()
    for found in (while_it_runs, entries(queue)):
        assert found[:3] == expected
        (reference,) = found[3:]
        assert reference[6:14] == REFERENCE
        assert reference[38:] == long[:4096]
    with running_server(tmp_path, store=tmp_path / "store"):
        pass
    assert entries(queue) == while_it_runs
    assert verify_queue(queue).deviations == []
