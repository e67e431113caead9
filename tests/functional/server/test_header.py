"""The header section as the server reads and writes it, against another's codec.

The second delivery of a message shows how the server treats its header:
each example is sent, released or failed, and received again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Delivery, Message
from support.clients import Clients, Consumer, Producer
from support.examples import examples
from support.server import running_server

# Constructors of parts 1.6: every width that a field may be written in.
BOOLEANS = {True: (b"\x41", b"\x56\x01"), False: (b"\x42", b"\x56\x00", b"\x40")}
NULL = b"\x40"


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Producer, Consumer]]:
    with (
        running_server(tmp_path_factory.mktemp("server")) as server,
        Clients(server.port) as clients,
    ):
        yield (
            clients.producer(clients.connect(), "queue0"),
            clients.consumer(clients.connect(), "queue0"),
        )


def numbers(value: int) -> list[bytes]:
    """Return all encodings of an uint (part 1.6.5)."""
    found = [b"\x70" + value.to_bytes(4, "big")]
    if value < 256:
        found.append(b"\x52" + bytes([value]))
    if value == 0:
        found.append(b"\x43")
    return found


@st.composite
def headers(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """Return a header's fields and one of its encodings."""
    said: dict[str, Any] = {
        "durable": draw(st.booleans()),
        "priority": draw(st.none() | st.integers(0, 255)),
        # Long enough not to expire here.
        "ttl": draw(st.none() | st.integers(600_000, 2**32 - 1)),
        "first_acquirer": draw(st.booleans()),
        "delivery_count": draw(st.integers(0, 300) | st.integers(0, 2**32 - 3)),
    }
    fields = [
        draw(st.sampled_from(BOOLEANS[said["durable"]])),
        NULL if said["priority"] is None else b"\x50" + bytes([said["priority"]]),
        NULL if said["ttl"] is None else draw(st.sampled_from(numbers(said["ttl"]))),
        draw(st.sampled_from(BOOLEANS[said["first_acquirer"]])),
        draw(st.sampled_from(numbers(said["delivery_count"]))),
    ]
    defaults = {"durable": False, "priority": None, "ttl": None, "first_acquirer": False}
    # Trailing fields may be left out; the default of delivery-count is 0.
    count = draw(st.integers(0, 5))
    for name in list(said)[count:]:
        said[name] = defaults.get(name, 0)
    body = b"".join(fields[:count])
    # The engine that checks reads no descriptor by name.
    descriptor = draw(st.sampled_from((b"\x00\x53\x70", b"\x00\x80" + bytes(7) + b"\x70")))
    forms = [
        b"\xc0" + bytes([len(body) + 1, count]) + body,
        b"\xd0" + (len(body) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + body,
    ]
    if count == 0:
        forms.append(b"\x45")
    return said, descriptor + draw(st.sampled_from(forms))


def check(message: Message, said: dict[str, Any], failures: int) -> None:
    assert message.durable == said["durable"]
    # 4 is the default of priority (part 3.2.1).
    assert message.priority == (4 if said["priority"] is None else said["priority"])
    assert message.delivery_count == said["delivery_count"] + failures
    if said["ttl"] is None:
        assert message.ttl == 0.0
    else:
        assert said["ttl"] / 1000 - 60 < message.ttl <= said["ttl"] / 1000


@given(header=headers(), fail=st.booleans(), body=st.binary(max_size=300))
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_headers_pass_and_are_rewritten(
    ends: tuple[Producer, Consumer], header: tuple[dict[str, Any], bytes], fail: bool, body: bytes
) -> None:
    producer, consumer = ends
    said, encoded = header
    bare = Message(id="the id", body=body, inferred=True).encode()
    # The engine's own header comes first; ours replaces it.
    sent = producer.send_encoded(encoded + without_header(bare))
    assert producer.clients.outcome(sent) == Delivery.ACCEPTED
    consumer.link.flow(1)
    first = consumer.take_one()
    check(first.message, said, 0)
    if said["ttl"] is not None:
        assert first.message.first_acquirer
    if fail:
        first.modify(failed=True)
    else:
        first.release()
    consumer.clients.pause(0.01)
    consumer.link.flow(1)
    second = consumer.take_one()
    check(second.message, said, int(fail))
    assert not second.message.first_acquirer
    assert (second.message.id, second.body) == ("the id", body)
    second.accept()


def without_header(encoded: bytes) -> bytes:
    """Return a message of the engine's without its header section."""
    if encoded[:3] != b"\x00\x53\x70":
        return encoded
    assert encoded[3] in (0x45, 0xC0)
    return encoded[4:] if encoded[3] == 0x45 else encoded[5 + encoded[4] :]


@given(header=headers(), cut=st.integers(1, 30), flip=st.integers(3, 40), bit=st.integers(0, 7))
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_broken_headers_are_rejected_or_pass(
    ends: tuple[Producer, Consumer],
    header: tuple[dict[str, Any], bytes],
    cut: int,
    flip: int,
    bit: int,
) -> None:
    """Whatever the bytes are, the message has an outcome, and the link goes on."""
    producer, consumer = ends
    encoded = bytearray(header[1])
    if flip < len(encoded):
        encoded[flip] ^= 1 << bit
    sent = producer.send_encoded(bytes(encoded[: max(3, len(encoded) - cut)]), settled=False)
    assert producer.clients.outcome(sent) in (Delivery.ACCEPTED, Delivery.REJECTED)
    consumer.clients.drain_queue(consumer.link.connection, "queue0")
