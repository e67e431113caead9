"""Dynamic nodes and their lifetime policies, frame by frame: AMQP 1.0 parts 3.5.9 to 3.5.13."""

from __future__ import annotations

from typing import Any

import pytest
from support.sections import opened, properties_to, settle
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import Frame, composite, message

ON_CLOSE, ON_NO_LINKS, ON_NO_MESSAGES = 0x2B, 0x2C, 0x2D
DELETED = "amqp:resource-deleted"


def policy(code: int | str) -> Value:
    """Return node properties that ask for a lifetime policy."""
    descriptor = Value("ulong", code) if isinstance(code, int) else Value("symbol", code)
    described = Value("described", (descriptor, Value("list", ())))
    return Value("map", ((Value("symbol", "lifetime-policy"), described),))


def make(client: FrameClient, code: int | str | None, *capabilities: str) -> str:
    """Make a node by a sending link of handle 0; check its description in the answer."""
    fields: dict[str, Any] = {"dynamic": True, "capabilities": symbols(*capabilities)}
    if code is not None:
        fields["dynamic_node_properties"] = policy(code)
    target = client.attach_sender("", target=composite("target", **fields)).fields["target"].fields
    assert target["dynamic"]
    granted = target["dynamic_node_properties"]["lifetime-policy"]
    asked = {None: ON_NO_LINKS, "amqp:delete-on-close:list": ON_CLOSE}.get(code, code)
    assert granted.value[0].value == asked
    return str(target["address"])


def refusal(client: FrameClient, answer: Frame, terminus: str) -> str | None:
    """Return why an attach was refused; None if it was not."""
    if answer.fields.get(terminus) is not None:
        return None
    return client.expect("detach").condition


def exists(client: FrameClient, address: str, handle: int = 50) -> bool:
    """Say whether an address is there, on a server that makes none on demand."""
    answer = client.attach_receiver(address, handle=handle)
    return refusal(client, answer, "source") is None


def detach(client: FrameClient, handle: int = 0) -> None:
    client.send("detach", handle=handle, closed=True)
    client.expect("detach")


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Make a server whose only addresses are `queue0` and dynamic ones."""
    with running_server(tmp_path_factory.mktemp("pinned"), addresses=",") as server:
        yield server


@pytest.mark.parametrize("code", [ON_CLOSE, "amqp:delete-on-close:list"])
def test_delete_on_close_detaches_who_is_left(pinned: Server, code: int | str) -> None:
    with opened(pinned.port) as maker, opened(pinned.port) as user:
        address = make(maker, code)
        user.attach_receiver(address, handle=0)
        user.attach_sender(address, handle=1)
        detach(maker)
        gone = [user.expect("detach"), user.expect("detach")]
        assert {frame.fields["handle"] for frame in gone} == {0, 1}
        assert {frame.condition for frame in gone} == {DELETED}
        # Its name is free although its users have not answered yet.
        assert not exists(maker, address)


def test_delete_on_close_by_the_connections_end(pinned: Server) -> None:
    with opened(pinned.port) as maker, opened(pinned.port) as user:
        address = make(maker, ON_CLOSE, "temporary-queue")
        user.attach_receiver(address)
        maker.socket.close()
        assert user.expect("detach").condition == DELETED


def test_others_do_not_end_a_node_of_delete_on_close(pinned: Server) -> None:
    with opened(pinned.port) as maker, opened(pinned.port) as user:
        address = make(maker, ON_CLOSE)
        user.attach_receiver(address)
        detach(user)
        assert exists(user, address, handle=1)


def test_delete_on_no_messages(pinned: Server) -> None:
    with opened(pinned.port) as maker, opened(pinned.port) as user:
        address = make(maker, ON_NO_MESSAGES)
        maker.wait_for_credit()
        maker.transfer(0, message(b"x"))
        maker.expect("disposition")
        detach(maker)
        user.attach_receiver(address)
        user.give_credit(1)
        number = user.expect("transfer").fields["delivery_id"]
        settle(user, "accepted", number, number)
        assert user.expect("detach").condition == DELETED
        assert not exists(maker, address, handle=1)


def test_an_empty_node_of_delete_on_no_messages_goes_with_its_maker(pinned: Server) -> None:
    with opened(pinned.port) as maker, opened(pinned.port) as user:
        address = make(maker, ON_NO_MESSAGES)
        user.attach_receiver(address)
        detach(maker)
        assert user.expect("detach").condition == DELETED


@pytest.mark.parametrize("capability", ["topic", "temporary-topic"])
def test_a_temporary_topic_gives_each_consumer_all(pinned: Server, capability: str) -> None:
    with opened(pinned.port) as maker, opened(pinned.port) as one, opened(pinned.port) as two:
        address = make(maker, ON_CLOSE, capability)
        for client in (one, two):
            client.attach_receiver(address)
            client.give_credit(10)
        maker.wait_for_credit()
        for number in range(3):
            maker.transfer(number, message(b"%d" % number), settled=True)
        for client in (one, two):
            got = [client.expect("transfer").payload for _ in range(3)]
            assert got == [message(b"0"), message(b"1"), message(b"2")]
        detach(maker)
        for client in (one, two):
            assert client.expect("detach").condition == DELETED


def test_a_temporary_queue_shares_among_its_consumers(pinned: Server) -> None:
    with opened(pinned.port) as maker, opened(pinned.port) as one, opened(pinned.port) as two:
        address = make(maker, ON_CLOSE, "temporary-queue")
        for client in (one, two):
            client.attach_receiver(address)
            client.give_credit(1)
        maker.wait_for_credit()
        for number in range(2):
            maker.transfer(number, message(b"%d" % number), settled=True)
        got = {client.expect("transfer").payload for client in (one, two)}
        assert got == {message(b"0"), message(b"1")}


def test_what_waits_for_a_deleted_node(pinned: Server) -> None:
    """A message by the anonymous terminus finds it no more."""
    with opened(pinned.port) as maker, opened(pinned.port) as user:
        address = make(maker, ON_CLOSE)
        user.attach_sender("", handle=0, target=composite("target"))
        user.wait_for_credit()
        user.transfer(0, properties_to(address, 60_000) + message(b"1"))
        assert user.expect("disposition").fields["state"].name == "accepted"
        detach(maker)
        user.transfer(1, properties_to(address, 60_000) + message(b"2"))
        state = user.expect("disposition").fields["state"]
        assert state.name == "rejected"
        assert state.fields["error"].fields["condition"] == "amqp:not-found"


def test_a_deleted_nodes_name_may_be_anothers(server: Server) -> None:
    """The end of a node that was deleted does not take its name from the one that has it now."""
    with opened(server.port) as maker, opened(server.port) as user, opened(server.port) as other:
        address = make(maker, ON_CLOSE)
        user.attach_receiver(address, handle=0)
        detach(maker)
        assert user.expect("detach").condition == DELETED
        # The node stays until its last link is gone; a new one has its name meanwhile.
        other.attach_sender(address, handle=0)
        other.wait_for_credit()
        other.transfer(0, message(b"new"))
        assert other.expect("disposition").fields["state"].name == "accepted"
        user.send("detach", handle=0, closed=True)
        for handle in (1, 2):
            # The second answer is of a later turn than the end of the link.
            user.attach_receiver("elsewhere", handle=handle)
        user.attach_receiver(address, handle=3)
        user.give_credit(1, handle=3)
        assert user.expect("transfer").payload == message(b"new")
