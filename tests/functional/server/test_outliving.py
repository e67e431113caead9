"""Frames after which one object of a connection would outlive another that it points to.

docs/internals/data-plane.md says which pointers may live how long. Most of these faults show only
in a build with sanitizers; some end a server of any build.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.bystander import Bystander
from support.sections import declare, put
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    Frame,
    composite,
    encode_frame,
    message,
)

WINDOWS = {"next_outgoing_id": 0, "incoming_window": 1000, "outgoing_window": 1000}
UNATTACHED = "amqp:session:unattached-handle"
STREAMING = symbols("qd.streaming-deliveries")


@pytest.fixture
def client(client: FrameClient) -> FrameClient:
    """An open connection; the server and the bystander go on after everything that it does."""
    client.open()
    return client


def begin(channel: int, **fields: object) -> bytes:
    return encode_frame("begin", channel=channel, **{**WINDOWS, **fields})


def end(channel: int) -> bytes:
    return encode_frame("end", channel=channel)


def attach(
    handle: int, name: str, *, channel: int = 0, receives: bool = True, address: str
) -> bytes:
    return encode_frame(
        "attach", channel=channel, name=name, handle=handle, role=receives,
        initial_delivery_count=None if receives else 0,
        source=composite("source", address=address),
        target=composite("target", address=address),
    )  # fmt: skip


def names(client: FrameClient, count: int) -> list[tuple[str, object]]:
    """Read ``count`` frames besides flows; return names, and the remote-channel of a begin."""
    found = read(client, count)
    return [(each.name, each.fields.get("remote_channel")) for each in found]


def read(client: FrameClient, count: int) -> list[Frame]:
    """Read ``count`` frames besides flows."""
    found: list[Frame] = []
    while len(found) < count:
        found += [each for each in [client.read()] if each.name != "flow"]
    return found


# ---- A begin is answered before its end is taken (part 2.7.2)


@pytest.mark.parametrize("pairs", [1, 3, 100])
def test_a_begin_and_its_end_in_one_write(client: FrameClient, pairs: int) -> None:
    client.send_bytes(b"".join(begin(4) + end(4) for _ in range(pairs)))
    assert names(client, 2 * pairs) == [("begin", 4), ("end", None)] * pairs


def test_sessions_of_several_channels_in_one_write(client: FrameClient) -> None:
    client.send_bytes(begin(7) + begin(5) + end(7) + begin(6) + end(5) + end(6))
    found = sorted(names(client, 6), key=str)
    assert found == [("begin", 5), ("begin", 6), ("begin", 7)] + [("end", None)] * 3


def test_a_session_with_links_in_one_write(client: FrameClient, address: str) -> None:
    client.send_bytes(
        begin(4) + attach(0, "l", channel=4, address=address)
        + attach(1, "m", channel=4, receives=False, address=address) + end(4)
    )  # fmt: skip
    begun, *attached = read(client, 3)
    assert begun.fields["remote_channel"] == 4
    assert [each.fields["name"] for each in attached] == ["l", "m"]
    client.until("end")


def test_a_refused_session_and_its_end_in_one_write(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, max_sessions=1) as server,
        FrameClient(server.port) as client,
    ):
        client.open()
        client.send_bytes(begin(0) + begin(1) + end(1))
        found = read(client, 3)
        begun = [each.fields["remote_channel"] for each in found if each.name == "begin"]
        assert sorted(begun) == [0, 1]
        assert [each.condition for each in found if each.name == "end"] == [
            "amqp:resource-limit-exceeded"]  # fmt: skip


def test_a_begin_that_answers_a_session_that_has_its_answer(
    client: FrameClient, address: str
) -> None:
    client.send_bytes(begin(4) + end(4))
    names(client, 2)
    client.send_bytes(begin(3))
    assert names(client, 1) == [("begin", 3)]
    client.send_bytes(begin(100, remote_channel=0))
    client.send_bytes(
        end(100) + attach(0, "l", channel=3, address=address)
        + attach(1, "m", channel=3, address=address)
    )  # fmt: skip
    assert client.until("close").condition == "amqp:invalid-field"


def test_a_begin_that_answers_an_ended_session(client: FrameClient) -> None:
    client.begin(3)
    client.send("transfer", channel=3, handle=9, delivery_id=0, delivery_tag=b"t")
    assert client.expect("end").condition == UNATTACHED
    client.send_bytes(begin(100, remote_channel=0))
    assert client.until("close").condition == "amqp:invalid-field"


# ---- A state of a delivery does not point into the input beyond its frame


def free_input(*clients: FrameClient) -> None:
    """Make the server free the input's buffer that it kept: two connections need one each."""
    frame = encode_frame("flow", **WINDOWS, next_incoming_id=0, echo=True)
    for client in clients:
        client.send_bytes(frame[:-1])
        # The partial frame was read, and its connection holds a buffer.
        Bystander(client.socket.getpeername()[1]).client.socket.close()
    for client in clients:
        client.send_bytes(frame[-1:])
        client.expect("flow")


STATES = {
    "received": composite("received", section_number=0, section_offset=1),
    "unknown transaction": composite(
        "transactional_state", txn_id=b"12345678", outcome=composite("accepted")
    ),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("size", [512, 131072])
def test_a_state_that_is_not_final_and_then_none(tmp_path: Path, state: str, size: int) -> None:
    """The first one lay in a buffer that was freed since; a large one is unmapped then."""
    with (
        running_server(tmp_path, max_frame_size=131072) as server,
        FrameClient(server.port) as client,
        FrameClient(server.port) as one,
        FrameClient(server.port) as other,
    ):
        for each in (client, one, other):
            each.open(max_frame_size=131072)
            each.begin()
        put(server.port, "states", message(b"a" * 100))
        client.attach_receiver("states", handle=1)
        client.give_credit(1, handle=1, next_incoming_id=0)
        number = client.expect("transfer").fields["delivery_id"]
        padding = Value("map", ((Value("symbol", "p"), Value("binary", b"p" * (size - 200))),))
        client.send_bytes(
            encode_frame("flow", **WINDOWS, next_incoming_id=1, properties=padding)
            + encode_frame("disposition", role=True, first=number, settled=False,
                           state=STATES[state])
            + encode_frame("flow", **WINDOWS, next_incoming_id=1, echo=True)
        )  # fmt: skip
        if state == "unknown transaction":
            client.expect("flow")
            assert client.expect("detach").condition == "amqp:transaction:unknown-id"
        else:
            client.expect("flow")
        free_input(one, other)
        client.send("disposition", role=True, first=number, settled=True)
        client.send("flow", **WINDOWS, next_incoming_id=1, echo=True)
        client.expect("flow")


# ---- Runs of outcomes, sessions of refusals


def test_an_outcome_of_a_session_that_we_ended(client: FrameClient, address: str) -> None:
    """Its consumer leaves a stream of the same session's producer, which gets no answer."""
    client.begin(incoming_window=0)
    client.send("attach", name="in", handle=0, role=False, initial_delivery_count=0,
                source=composite("source"),
                target=composite("target", address=address, capabilities=STREAMING))  # fmt: skip
    client.expect("attach")
    client.attach_receiver(address, handle=1)
    client.send("flow", handle=1, delivery_count=0, link_credit=1, **{
        **WINDOWS, "incoming_window": 0}, next_incoming_id=0)  # fmt: skip
    client.wait_for_credit()
    whole = message(b"s" * 1000)
    client.transfer(0, whole[:500], more=True)
    client.send("transfer", handle=0, payload=whole[500:])
    client.send("flow", **{**WINDOWS, "incoming_window": 0}, next_incoming_id=0, echo=True)
    client.expect("flow")
    client.send("transfer", handle=9, delivery_id=1, delivery_tag=b"t")
    assert client.expect("end").condition == UNATTACHED
    client.send("end")
    client.begin()
    client.send_bytes(b"\0\0\0\x0c\x02\0\0\0\0\x53\x15\x45")
    assert client.until("close").condition == "amqp:invalid-field"


def test_a_refusal_after_a_session_was_freed(client: FrameClient, address: str) -> None:
    client.begin()
    client.attach_sender(address)
    client.wait_for_credit()
    client.transfer(0, message(b"x"))
    client.expect("disposition")
    client.send("end")
    client.until("end")
    client.begin(1)
    client.send_bytes(b"\0\0\0\x0c\x02\0\0\x01\0\x53\x15\x45")
    assert client.until("close").condition == "amqp:invalid-field"


# ---- A link, its name, and files that are being made


def subscriber(client: FrameClient) -> bytes:
    source = composite("source", address="topic/news", durable=2, expiry_policy="never",
                       capabilities=symbols("topic"))  # fmt: skip
    return encode_frame(
        "attach", name="sub", handle=0, role=True, source=source, target=composite("target")
    )


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_subscription_that_is_left_and_taken_again(
    tmp_path: Path, closed: bool, times: int
) -> None:
    with (
        running_server(tmp_path, store=tmp_path / "store") as server,
        FrameClient(server.port) as client,
    ):
        client.open(container_id="reader")
        client.begin()
        client.send_bytes(subscriber(client))
        client.expect("attach")
        leave = encode_frame("detach", handle=0, closed=closed)
        client.send_bytes((leave + subscriber(client)) * times)
        found = read(client, 2 * times)
        assert [each.condition for each in found] == [None] * 2 * times
        assert sorted(each.name for each in found) == ["attach"] * times + ["detach"] * times
        client.give_credit(1)
        put(server.port, "topic/news", message(b"hello"))
        assert client.expect("transfer").payload.endswith(b"hello")


def test_attach_detach_attach_before_the_files_are_there(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, store=tmp_path / "store") as server,
        FrameClient(server.port) as client,
    ):
        client.open(container_id="reader")
        client.begin()
        leave = encode_frame("detach", handle=0)
        client.send_bytes(subscriber(client) + leave + subscriber(client))
        found = read(client, 3)
        assert [each.condition for each in found] == [None] * 3
        assert sorted(each.name for each in found) == ["attach", "attach", "detach"]


# ---- After our own detach or end nothing follows


def parts(client: FrameClient, address: str) -> int:
    """Receive the first frames of a message whose rest waits for the session's window."""
    client.attach_sender(address)
    client.wait_for_credit()
    client.transfer(0, message(b"z" * 20000))
    client.expect("disposition")
    client.attach_receiver(address, handle=1)
    client.give_credit(1, handle=1, incoming_window=2)
    first = client.expect("transfer")
    assert first.fields["more"]
    client.expect("transfer")
    return int(first.fields["delivery_id"])


@pytest.mark.parametrize("separate", [True, False])
def test_no_transfer_follows_our_end(server: Server, address: str, separate: bool) -> None:
    with FrameClient(server.port) as client:
        client.open(max_frame_size=512)
        client.begin(incoming_window=2)
        parts(client, address)
        mistake = encode_frame("transfer", handle=9, delivery_id=1, delivery_tag=b"t")
        more = encode_frame("flow", **WINDOWS, next_incoming_id=2)
        if separate:
            client.send_bytes(mistake)
            found = client.until("end")
            client.send_bytes(more)
        else:
            client.send_bytes(mistake + more)
            found = client.until("end")
        assert found.condition == UNATTACHED
        client.send("end")
        client.send_bytes(begin(1))
        assert client.read().name == "begin", "nothing of the ended session follows"


@pytest.mark.parametrize("whole", ["link", "session"])
def test_a_refused_consumer_gives_way_to_others(server: Server, address: str, whole: str) -> None:
    """It never confirms our detach or end."""
    with FrameClient(server.port) as bad, FrameClient(server.port) as good:
        for client in (bad, good):
            client.open()
            client.begin()
            client.attach_receiver(address, handle=1)
        bad.give_credit(10, handle=1)
        if whole == "link":
            bad.send("flow", **WINDOWS, next_incoming_id=0, handle=1, delivery_count=0,
                     link_credit=5, properties=Value("map", (
                         (Value("symbol", "txn-id"), Value("binary", b"12345678")),)))  # fmt: skip
            assert bad.expect("detach").condition == "amqp:not-implemented"
        else:
            bad.send("transfer", handle=9, delivery_id=1, delivery_tag=b"t")
            assert bad.expect("end").condition == UNATTACHED
        good.give_credit(10, handle=1)
        put(server.port, address, *(message(b"%d" % number) for number in range(4)))
        found = [good.expect("transfer").payload[-1:] for _ in range(4)]
        assert found == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("frames", ["transfer", "flow", "begin"])
def test_nothing_follows_our_close(client: FrameClient, address: str, frames: str) -> None:
    """A message that comes after it is not taken (part 2.4.6)."""
    client.begin()
    client.attach_sender(address)
    client.wait_for_credit()
    client.send_bytes(begin(1, remote_channel=77))
    client.until("close")
    if frames == "transfer":
        client.transfer(0, message(b"late"))
    elif frames == "flow":
        client.send("flow", **WINDOWS, next_incoming_id=0, echo=True)
    else:
        client.send_bytes(begin(2) + attach(0, "late", channel=2, address="late") + end(2))
    client.send("close")
    assert client.read_to_end() == []


def test_a_link_that_was_detached_before_a_refused_session_ended(
    client: FrameClient, server: Server
) -> None:
    """A connection that is refused answers no begin, so links of that session have one side."""
    alone = {"desired_capabilities": symbols("sole-connection-for-container")}
    with FrameClient(server.port) as first:
        first.open(container_id="alone", **alone)
        with FrameClient(server.port) as second:
            second.exchange_header()
            second.send("open", container_id="alone", **alone)
            second.send_bytes(begin(0))
            second.until("close")
            second.send_bytes(attach(0, "l", address="a") + attach(1, "m", address="a"))
            second.send_bytes(encode_frame("detach", handle=0, closed=True) + end(0))
            second.send("close")
            second.read_to_end()


@pytest.mark.parametrize("ours", [True, False])
def test_the_name_of_a_refused_link_is_free(client: FrameClient, address: str, ours: bool) -> None:
    """Its peer may attach again before it confirms the detach."""
    client.begin()
    refused = encode_frame("attach", name="again", handle=0, role=True, target=composite("target"))
    client.send_bytes(refused + attach(1, "again", address=address))
    if ours:
        client.send("detach", handle=0, closed=True)
    found = read(client, 3)
    (detached,) = (each for each in found if each.name == "detach")
    assert detached.condition == "amqp:not-found"
    handles = {each.fields["handle"] for each in found if each.name == "attach"}
    (handle,) = handles - {detached.fields["handle"]}
    client.give_credit(1, handle=1)
    put(client.socket.getpeername()[1], address, message(b"hello"))
    assert client.expect("transfer").fields["handle"] == handle


@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS"])
def test_all_of_sasl_and_the_open_in_one_write(tmp_path: Path, mechanism: str) -> None:
    keys = {"user": "user", "password": "pencil"} if mechanism == "PLAIN" else {}
    init = encode_frame("sasl_init", mechanism=mechanism, initial_response=b"\0user\0pencil")
    with (
        running_server(tmp_path, **keys) as server,
        FrameClient(server.port) as client,
    ):
        client.send_bytes(
            SASL_HEADER + init + AMQP_HEADER + encode_frame("open", container_id="quick")
        )
        assert client.read_header() == SASL_HEADER
        client.expect("sasl_mechanisms")
        assert client.expect("sasl_outcome").fields["code"] == 0
        assert client.read_header() == AMQP_HEADER
        client.expect("open")


def test_frames_for_a_refused_link_are_discarded(client: FrameClient) -> None:
    """Part 2.6.5: after our detach they are dropped in silence, until the peer's."""
    client.begin()
    refused = encode_frame("attach", name="no", handle=1, role=False, initial_delivery_count=0)
    client.send_bytes(
        refused + encode_frame("transfer", handle=1, delivery_id=0, delivery_tag=b"t")
    )
    assert client.until("detach").condition == "amqp:invalid-field"
    client.send_bytes(begin(1))
    assert client.until("begin").fields["remote_channel"] == 1


LATE = {
    "detach": encode_frame("detach", handle=55, closed=True),
    "attach": attach(0, "late", address="late"),
    "an attach without its role": encode_frame("attach", name="late", handle=1),
    "a transfer": encode_frame("transfer", handle=7, delivery_id=9, delivery_tag=b"t"),
    "a transfer without a handle": encode_frame("transfer", delivery_id=9, delivery_tag=b"t"),
    "a long tag": encode_frame("transfer", handle=0, delivery_id=9, delivery_tag=b"t" * 33),
    "a flow": encode_frame("flow", **WINDOWS, handle=7, delivery_count=0, link_credit=1),
    "a flow without windows": encode_frame("flow", next_outgoing_id=0),
    "a disposition": encode_frame("disposition", role=True, first=0, settled=True),
    "a range backwards": encode_frame("disposition", role=True, first=5, last=4),
    "a disposition without ids": encode_frame("disposition", role=True),
    "no state": encode_frame("disposition", role=True, first=0, state=composite("open")),
}  # fmt: skip


@pytest.mark.parametrize("late", LATE)
def test_frames_for_an_ended_session_are_discarded(
    client: FrameClient, address: str, late: str
) -> None:
    """Part 2.5.5: after an error they are dropped in silence, until the peer's end."""
    client.begin()
    client.attach_receiver(address)
    client.send("transfer", handle=9, delivery_id=0, delivery_tag=b"t")
    assert client.expect("end").condition == UNATTACHED
    client.send_bytes(LATE[late] + end(0) + begin(1))
    assert client.read().name == "begin"


@pytest.mark.parametrize("second", ["stream", "trunk"])
def test_the_end_of_one_connection_marks_another(tmp_path: Path, second: str) -> None:
    """At the server's end all are freed, whatever their order."""
    with (
        running_server(tmp_path, trunks="*") as server,
        FrameClient(server.port) as reader,
        FrameClient(server.port) as other,
    ):
        reader.open()
        reader.begin()
        target = composite("target", address="queue0", capabilities=STREAMING)
        reader.attach_receiver("queue0")
        reader.give_credit(10)
        if second == "trunk":
            other.open(offered_capabilities=symbols("quiver.trunk"))
            other.until("begin")
        else:
            other.open()
            other.begin()
            other.attach_sender("queue0", target=target)
            other.wait_for_credit()
            other.transfer(0, message(b"s" * 60_000)[:30_000], more=True)
            reader.expect("transfer")
        ended = server.end()
        assert (ended.code, ended.stderr) == (0, "")


# ---- A subscription that only a transaction still needs


def test_a_subscription_whose_consumer_left_before_its_transaction(
    client: FrameClient, address: str
) -> None:
    """Another one replaces it, and the topic still counts its durable subscriptions right."""
    topic = f"topic/{address}"
    client.begin()
    client.attach_sender("", handle=0, target=composite("coordinator"))
    client.wait_for_credit()
    transaction = declare(client, 0)
    shared = composite("source", address=topic, capabilities=symbols("shared"))
    client.attach_receiver(topic, handle=1, name="sub", source=shared)
    client.give_credit(1, handle=1)
    client.attach_sender(topic, handle=2)
    client.wait_for_credit()
    client.transfer(1, message(b"one"), handle=2, settled=True)
    number = client.expect("transfer").fields["delivery_id"]
    state = composite("transactional_state", txn_id=transaction, outcome=composite("accepted"))
    client.send("disposition", role=True, first=number, settled=True, state=state)
    client.send("detach", handle=1, closed=True)
    client.expect("detach")
    other = composite(
        "source",
        address=topic,
        capabilities=symbols("shared", "topic"),
        distribution_mode=Value("symbol", "copy"),
        filter=selector("a = 1"),
    )
    client.attach_receiver(topic, handle=1, name="sub", source=other)
    client.send("detach", handle=1, closed=True)
    client.expect("detach")
    client.attach_receiver(topic, handle=1, name="all")
    client.give_credit(1, handle=1, next_incoming_id=1)
    streams = composite("target", address=topic, capabilities=STREAMING)
    client.attach_sender(topic, handle=3, target=streams)
    client.wait_for_credit()
    # With a durable subscription it would wait for its end.
    client.transfer(2, message(b"the first part"), handle=3, more=True)
    assert client.expect("transfer").fields["more"]


def selector(text: str) -> Value:
    words = Value("described", (Value("ulong", 0x468C00000004), Value("string", text)))
    return Value("map", ((Value("symbol", "selector"), words),))
