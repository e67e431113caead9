"""Streams pass from connection to connection as they are."""

from __future__ import annotations

import os
import time
import zlib

import pytest
from support.server import Server
from support.streams import Arriving, head, pair, send_part

MEBIBYTE = 1 << 20


@pytest.mark.parametrize("streaming_links", [False, True])
@pytest.mark.parametrize("frame", [512, 5000, 65536])
def test_frames_of_any_size(
    server: Server, address: str, frame: int, streaming_links: bool
) -> None:
    """None is larger than its receiver's limit, which would close the connection."""
    size = 200_000 if frame == 512 else 2 * MEBIBYTE
    message = head(size) + os.urandom(size)
    with pair(server, streaming_links=streaming_links, max_frame=frame) as (producer, consumer):
        base = consumer.receiver(address)
        sender = producer.sender(address, streaming=True)
        producer.start(sender, message[:9])
        link = consumer.take() if streaming_links else base
        got = bytearray()

        def take() -> None:
            consumer.pump(0)
            while link.current is not None and (part := link.recv(MEBIBYTE)):
                got.extend(part)

        send_part(producer, sender, message[9:], take)
        sender.advance()

        def ended() -> bool:
            producer.pump(0)
            take()
            return len(got) == len(message) and not link.current.partial

        consumer.until(ended)
        assert bytes(got) == message


def test_a_socket_that_takes_a_part(server: Server, address: str) -> None:
    """Unsent bytes of a stream go first, before those of other streams."""
    size = 8 * MEBIBYTE
    with pair(server, streaming_links=True) as (producer, consumer):
        consumer.receiver(address)
        senders = [producer.sender(address, streaming=True) for _ in range(3)]
        blocks = [os.urandom(65536) for _ in senders]
        for sender in senders:
            producer.start(sender, head(size))
        arriving = [Arriving(consumer, consumer.take()) for _ in senders]
        sent, left = [zlib.crc32(head(size))] * 3, [size] * 3

        def give() -> bool:
            able = [n for n in range(3) if left[n] and senders[n].session.outgoing_bytes < 65536]
            for number in able:
                sent[number] = zlib.crc32(blocks[number], sent[number])
                senders[number].stream(blocks[number])
                left[number] -= len(blocks[number])
                if not left[number]:
                    senders[number].advance()
            producer.pump(0)
            return bool(able)

        deadline = time.monotonic() + 60
        while sum(each.count for each in arriving) < 3 * (size + 8):
            assert time.monotonic() < deadline
            # The socket is full whenever nothing more can be given.
            while give():
                pass
            for each in [*arriving, *arriving]:
                each.take()
        assert sorted(each.crc for each in arriving) == sorted(sent)
