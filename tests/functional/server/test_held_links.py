"""What a connection's open frame and its links hold counts in the server's memory-limit."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from support.fast_frames import DIGITS, NUMBER, copies
from support.floods import Flood
from support.metrics import scrape
from support.processes import free_port, wait_until
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import composite, encode_frame

LINKS = 300
LONG = "n" * 2000
# Of a value that the engine decoded.
VALUE = 70
NOWHERE = "$none"


@dataclass
class Account:
    """A server whose memory of connections can be asked for."""

    server: Server
    port: int

    def held(self) -> float:
        return scrape(self.port).value("quiver_server_held_bytes")

    def wait_for(self, held: float) -> None:
        wait_until(lambda: self.held() == held, f"{held} bytes are held")


@pytest.fixture
def account(start: Callable[..., Server]) -> Account:
    port = free_port()
    return Account(start(metrics_port=port), port)


@pytest.fixture
def flood(account: Account) -> Iterator[Flood]:
    """A client on a session, of which something is held already."""
    with Flood(account.server.port) as client:
        client.start().echo()
        yield client


def attach(address: str, name: str = DIGITS + LONG, **fields: object) -> bytes:
    return encode_frame(
        "attach", name=name, handle=NUMBER, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address=address, **fields),
    )  # fmt: skip


def release(client: Flood, how: str, detaches: int) -> None:
    """Detach all links, or end their session; there are so many detaches of the server then."""
    if how == "end":
        client.pump(encode_frame("end"), lambda: client.seen["end"] > 0)
    else:
        detach = encode_frame("detach", handle=NUMBER, closed=how == "closed")
        client.pump(copies(detach, range(LINKS)), lambda: client.seen["detach"] >= detaches)


@pytest.mark.parametrize("address", ["queue0", NOWHERE])
@pytest.mark.parametrize("how", ["closed", "detached", "end"])
def test_links_count_until_they_end(account: Account, flood: Flood, address: str, how: str) -> None:
    before, detaches = account.held(), flood.seen["detach"] + LINKS
    refused = address == NOWHERE
    answer = "detach" if refused else "attach"
    wanted = flood.seen[answer] + LINKS
    flood.pump(copies(attach(address), range(LINKS)), lambda: flood.seen[answer] >= wanted)
    wait_until(lambda: account.held() - before > 2 * LINKS * len(LONG), "they count")
    release(flood, how, detaches)
    account.wait_for(before)


def test_one_name_again_and_again(account: Account, flood: Flood) -> None:
    """Detached without closing (part 2.6.6), it leaves nothing."""
    before, wanted = account.held(), flood.seen["detach"] + 2000
    pair = attach("queue0", LONG).replace(NUMBER.to_bytes(4, "big"), bytes(4))
    pair += encode_frame("detach", handle=0, closed=False)
    flood.pump(pair * 2000, lambda: flood.seen["detach"] >= wanted)
    account.wait_for(before)


def test_values_count(account: Account, flood: Flood) -> None:
    """The engine needs much for each value of an array whose values have no bytes."""
    before, wanted = account.held(), flood.seen["attach"] + 1
    # In place of a symbol of as many bytes: array32, its size, its count, the constructor of null.
    frame = attach("queue0", "l", capabilities=Value("symbol", "12345678"))
    nulls = b"\xf0" + struct.pack(">II", 5, 60_000) + b"\x40"
    assert b"\xa3\x0812345678" in frame
    frame = frame.replace(b"\xa3\x0812345678", nulls)
    flood.pump(copies(frame, [1]), lambda: flood.seen["attach"] >= wanted)
    wait_until(lambda: account.held() - before > VALUE * 60_000, "they count")


@pytest.mark.parametrize("address", ["queue0", "topic/news"])
def test_selectors_count(account: Account, flood: Flood, address: str) -> None:
    """One of 4,096 characters has as many steps, of more than 100 bytes each."""
    before, wanted = account.held(), flood.seen["attach"] + 1
    capabilities = symbols("topic") if "topic" in address else None
    key = Value("symbol", "apache.org:selector-filter:string")
    text = Value("string", "+".join("a" * 2000) + " = 1")
    chosen = Value("map", ((key, Value("described", (key, text))),))
    source = composite("source", address=address, capabilities=capabilities, filter=chosen)
    frame = encode_frame("attach", name="l", handle=1, role=True, source=source)
    flood.pump(frame, lambda: flood.seen["attach"] >= wanted)
    wait_until(lambda: account.held() - before > 400_000, "it counts")
    wanted = flood.seen["detach"] + 1
    flood.pump(encode_frame("detach", handle=1, closed=True),
               lambda: flood.seen["detach"] >= wanted)  # fmt: skip
    account.wait_for(before)


def test_an_open_frame_counts(account: Account) -> None:
    before = account.held()
    offered = symbols(*[""] * 300)
    with FrameClient(account.server.port) as client:
        client.open(container_id="c" * 200, offered_capabilities=offered)
        wait_until(lambda: account.held() - before > VALUE * 300, "it counts")
    account.wait_for(before)


@pytest.mark.parametrize("address", ["queue0", NOWHERE])
def test_beyond_memory_limit(start: Callable[..., Server], address: str) -> None:
    """Links of long names and few bytes else; the connection that holds most is closed."""
    server = start(memory_limit=8 << 20, says="memory-limit: a connection that held")
    with Flood(server.port) as client, Flood(server.port) as other:
        other.start()
        client.start()
        with contextlib.suppress(EOFError):
            client.pump(copies(attach(address), range(1000)), lambda: client.ended)
        assert b"amqp:resource-limit-exceeded" in client.last
        other.echo()
