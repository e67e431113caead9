"""A peer's requests in open, attach and dispositions, and the server's answers (raw frames)."""

from __future__ import annotations

import pytest
from support.sections import opened
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import Frame, composite

SOLE = "sole-connection-for-container"


# -- addresses of other servers' own


@pytest.mark.parametrize("address", ["$management", "$cbs", "$", "$anything/else"])
def test_addresses_that_begin_with_a_dollar(server: Server, address: str) -> None:
    with opened(server.port) as client:
        assert client.attach_sender(address).fields.get("target") is None
        assert client.expect("detach").condition == "amqp:not-found"
        assert client.attach_receiver(address, handle=1).fields.get("source") is None
        assert client.expect("detach").condition == "amqp:not-found"


def test_a_dollar_that_was_configured(start: object) -> None:
    server = start(addresses="$mine")  # type: ignore[operator]
    with opened(server.port) as client:
        assert client.attach_sender("$mine").fields["target"].fields["address"] == "$mine"


# -- settlement


# -- container ids


def wants(container: str) -> dict[str, object]:
    return {"container_id": container, "desired_capabilities": symbols(SOLE)}


def test_a_container_id_of_which_there_is_one(server: Server) -> None:
    with FrameClient(server.port) as first:
        assert SOLE in first.open(**wants("only-me")).fields["offered_capabilities"]
        with FrameClient(server.port) as second:
            opening = second.open(**wants("only-me"))
            assert opening.fields["properties"]["amqp:connection-establishment-failed"]
            closing = second.expect("close")
            assert closing.condition == "amqp:invalid-field"
            info = closing.fields["error"].fields["info"]
            assert info == {"invalid-field": "container-id"}
            second.send("close")
            assert second.read_to_end() == []
        # Neither another id nor one that did not ask is in the way.
        with opened(server.port, **wants("somebody")), opened(server.port, container_id="only-me"):
            pass
        first.send("close")
        first.expect("close")
        with opened(server.port, **wants("only-me")) as again:
            again.attach_sender("free-again")


def test_a_container_id_is_free_when_its_connection_is_cut(server: Server) -> None:
    with opened(server.port, **wants("cut")):
        pass
    with opened(server.port, **wants("cut")) as again:
        again.attach_sender("after-the-cut")


# -- capabilities: an answer names only those that the node has


NODE_WORDS = ["queue", "topic", "temporary-queue", "temporary-topic", "shared", "global", "x-any"]


def told(client: FrameClient, frame: Frame, side: str) -> set[str]:
    found = frame.fields[side].fields.get("capabilities", [])
    return {found} if isinstance(found, str) else set(found)


@pytest.mark.parametrize("first", ["sender", "receiver"])
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("node", ["queue", "topic", "named topic", "dynamic", "dynamic topic"])
def test_capabilities_of_a_node(
    server: Server, address: str, node: str, side: str, first: str
) -> None:
    """Parts 2.6.3, 3.5.3: our terminus tells what is there, also where the peer asked for else."""
    name = f"topic-{address}" if node == "named topic" else address
    topic = node in ("topic", "named topic", "dynamic topic")
    here = (
        {"topic", "shared", "global"}
        if topic and side == "source"
        else {"topic" if topic else "queue"}
    )
    with opened(server.port) as client:
        made: dict[str, object] = {"address": name}
        if node == "topic":
            made["capabilities"] = Value("symbol", "topic")
        if "dynamic" in node:
            made = {"dynamic": True}
            made |= {"capabilities": Value("symbol", "topic")} if topic else {}
            here |= {"temporary-topic" if topic else "temporary-queue"}
        if first == "sender":
            frame = client.attach_sender("", target=composite("target", **made))
            name = frame.fields["target"].fields["address"]
        else:
            frame = client.attach_receiver("", source=composite("source", **made))
            name = frame.fields["source"].fields["address"]
        words = [Value("symbol", word) for word in NODE_WORDS]
        for handle, asked in enumerate([*words, symbols(*NODE_WORDS), symbols(), None], 1):
            fields = {side: composite(side, address=name, capabilities=asked)}
            attach = client.attach_receiver if side == "source" else client.attach_sender
            wanted = set(NODE_WORDS) if handle == len(words) + 1 else set()
            if handle <= len(words):
                wanted = {NODE_WORDS[handle - 1]}
            frame = attach("", handle=handle, **fields)
            assert told(client, frame, side) == wanted & here, asked


def test_capabilities_of_the_anonymous_terminus(server: Server) -> None:
    with opened(server.port) as client:
        asked = symbols("queue", "topic", "qd.streaming-deliveries")
        target = composite("target", capabilities=asked)
        frame = client.attach_sender("", target=target)
        assert told(client, frame, "target") == {"qd.streaming-deliveries"}
