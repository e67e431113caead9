"""A consumer's output that is nearly full: whole messages wait for the next write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.sections import section, sender
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import message

Start = Callable[..., Server]

TTL = section(
    0x70, Value("list", (Value("boolean", False), Value("null", None), Value("uint", 10**9)))
)


def fill(server: Server, address: str, payload: bytes, count: int) -> None:
    """Send messages, within credit and window."""
    with sender(server.port, address) as client:
        for number in range(count):
            client.transfer(number, payload)
            if number % 30 == 29 or number == count - 1:
                wait_for_outcome(client, number)


def wait_for_outcome(client: FrameClient, number: int) -> None:
    found = {"first": -1}
    while found.get("last", found["first"]) < number:
        found = client.until("disposition").fields


# Messages of several sizes end at other places of the output.
@pytest.mark.parametrize("size", [6, 100, 1000, 5000, 32_800, 60_000])
@pytest.mark.parametrize("head", [b"", TTL], ids=["plain", "new header"])
@pytest.mark.parametrize("frame_size", [512, 65536])
def test_a_message_that_fits_a_frame_comes_in_one(
    start: Start, address: str, tmp_path: Path, frame_size: int, head: bytes, size: int
) -> None:
    server = start()
    payload = head + message(bytes(size))
    count = 600_000 // (len(payload) + 40)
    fill(server, address, payload, count)
    fits = len(payload) + 130 <= frame_size
    with FrameClient(server.port) as client:
        client.open(max_frame_size=frame_size)
        client.begin(incoming_window=2**31 - 1)
        client.attach_receiver(address, snd_settle_mode=1)
        client.give_credit(count, incoming_window=2**31 - 1)
        bytes_left = count * len(payload)
        while bytes_left > 0:
            frame = client.read()
            if frame.name == "transfer":
                assert not (fits and frame.fields.get("more")), frame.payload
                bytes_left -= len(frame.payload)
