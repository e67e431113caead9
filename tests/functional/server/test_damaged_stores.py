"""A store with damaged records: the server starts, and the other queues are served."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.clients import Clients
from support.queue_damage import HOME, MESSAGE, ROLL, flips, write_records
from support.server import running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.queuefile.appender import Appender

# The bits from one damaged queue to the next; odd, so that each bit of a byte has its turn.
STRIDE = 23
ADDRESS_SPACE = 4 << 30


def damaged_store(store: Path, stride: int) -> int:
    """Make a store with many queues, each with one wrong bit; return their number."""
    write_records(store / "whole")
    write_records(store / HOME)
    (path,) = (store / "whole").glob("*.cq4")
    count = 0
    for count, data in enumerate(flips(path.read_bytes(), stride), 1):
        folder = store / f"q{count}"
        folder.mkdir()
        shutil.copy(store / "whole" / "metadata.cq4t", folder)
        (folder / path.name).write_bytes(data)
    return count


def check(tmp_path: Path, stride: int, start_seconds: float = 120) -> None:
    store = tmp_path / "store"
    assert damaged_store(store, stride) > 100
    with running_server(
        tmp_path, store=store, says=None, address_space=ADDRESS_SPACE, start_seconds=start_seconds,
        end_seconds=120,
    ) as server, Clients(server.port) as clients:  # fmt: skip
        connection = clients.connect()
        consumer = clients.consumer(connection, "whole", credit=20)
        assert len(consumer.take(8)) == 8


def test_each_kind_of_record(tmp_path: Path) -> None:
    check(tmp_path, STRIDE)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_each_bit_of_each_record(tmp_path: Path) -> None:
    # With sanitizers, the start reads some thousand queues in minutes.
    check(tmp_path, 1, start_seconds=900)


def test_one_wrong_bit_in_a_removal(tmp_path: Path) -> None:
    """Its range ends far behind the file, in a later cycle."""
    store = tmp_path / "store"
    write_records(store / "whole")
    (path,) = (store / "whole").glob("*.cq4")
    data = bytearray(path.read_bytes())
    last = data.index(b"quiver.removed") + 14 + 6 + 8
    data[last + 5] ^= 0x40
    path.write_bytes(data)
    says = "damaged notes of removed or failed messages are ignored: 1"
    with running_server(
        tmp_path, store=store, says=says, address_space=ADDRESS_SPACE
    ) as server, Clients(server.port) as clients:  # fmt: skip
        # The message whose removal is damaged is delivered again.
        consumer = clients.consumer(clients.connect(), "whole", credit=20)
        assert len(consumer.take(9)) == 9


def test_messages_of_an_older_version(tmp_path: Path) -> None:
    """Bytes that are refused today are delivered as they are; entries of others are no messages."""
    store = tmp_path / "store"
    body = b"\x00\x53\x77\xa1\x01x"
    # A header whose list has one byte too many, and properties with an unknown field.
    header = b"\x00\x53\x70\xc0\x09\x03\x41\x40\x70\x00\x3d\x09\x00" + body
    properties = b"\x00\x53\x73\xc0\x0f\x0e" + b"\x40" * 14 + body
    with Appender(store / "q", roll=ROLL.name) as appender:
        for content in (MESSAGE, header, properties, b"not of AMQP", MESSAGE):
            appender.append_raw(content)
        appender.append_text("of another program")
    with running_server(tmp_path, store=store) as server:
        first = all_of(server.port, 4)
        again = all_of(server.port, 4)
    assert first == [MESSAGE, header, properties, MESSAGE]
    # The header of a message that was tried before says so, unless it is malformed.
    assert again[1] == header
    assert [len(payload) for payload in again] == [
        len(MESSAGE) + 8, len(header), len(properties) + 15, len(MESSAGE) + 8
    ]  # fmt: skip


def all_of(port: int, count: int) -> list[bytes]:
    """Take messages without settling them."""
    with FrameClient(port) as client:
        client.open()
        client.begin()
        client.attach_receiver("q")
        client.give_credit(count + 1)
        return [client.expect("transfer").payload for _ in range(count)]
