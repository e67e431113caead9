"""Two containers have one link of a name and direction at a time (part 2.6.1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.sections import opened, outcome, put, settle
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite, message

STOLEN = "amqp:link:stolen"


@pytest.fixture
def client(server: Server) -> Iterator[FrameClient]:
    with opened(server.port, container_id="thief") as client:
        yield client


def attach(client: FrameClient, role: str, name: str, address: str, **fields: object) -> None:
    """Attach a link and see the server's attach."""
    ours = {"name": name, "role": role == "receiver", "initial_delivery_count": 0}
    source, target = composite("source", address=address), composite("target", address=address)
    client.send("attach", source=source, target=target, **{"handle": 0, **ours, **fields})
    assert client.expect("attach").fields["name"] == name


def detached(client: FrameClient) -> None:
    """See that the link of handle 0 was stolen, and confirm its end."""
    found = client.expect("detach")
    assert found.condition == STOLEN
    assert found.fields["closed"]
    client.send("detach", handle=0, closed=True)


def assert_works(client: FrameClient, role: str, number: int, *, handle: int = 0) -> None:
    """Send or receive a message on a link."""
    if role == "sender":
        client.transfer(number, message(b"x"), handle=handle)
        assert outcome(client) == "accepted"
        return
    client.give_credit(1, handle=handle)
    assert client.expect("transfer").fields["handle"] == handle
    settle(client, "accepted", number, number)


both_roles = pytest.mark.parametrize("role", ["sender", "receiver"])


@both_roles
def test_in_one_session(server: Server, client: FrameClient, address: str, role: str) -> None:
    put(server.port, address, *[message(b"x")] * 3)
    attach(client, role, "mine", address)
    attach(client, role, "mine", address, handle=1)
    detached(client)
    assert_works(client, role, 0, handle=1)
    # The handle is free again, and the name may be stolen again.
    attach(client, role, "mine", address, handle=0)
    found = client.expect("detach")
    assert (found.condition, found.fields["handle"]) == (STOLEN, 1)
    assert_works(client, role, 1, handle=0)
    client.send("close")
    assert client.read_to_end()[-1].condition is None


def test_what_a_stolen_link_had_is_released(
    server: Server, client: FrameClient, address: str
) -> None:
    put(server.port, address, message(b"x"))
    attach(client, "receiver", "mine", address)
    client.give_credit(1)
    client.expect("transfer")
    client.send(
        "attach", name="mine", handle=1, role=True, source=composite("source", address=address),
        target=composite("target"),
    )  # fmt: skip
    # The server settles its deliveries without an outcome.
    assert client.expect("disposition").fields["settled"]
    client.expect("attach")
    detached(client)
    client.give_credit(1, handle=1)
    assert client.expect("transfer").fields["handle"] == 1


def test_a_message_that_follows_the_theft_is_released(client: FrameClient, address: str) -> None:
    attach(client, "sender", "mine", address)
    attach(client, "sender", "mine", address, handle=1)
    client.transfer(0, message(b"late"))
    found = client.expect("detach")
    assert found.condition == STOLEN
    assert outcome(client) == "released"
    assert_works(client, "sender", 1, handle=1)


def test_others_keep_their_links(server: Server, client: FrameClient, address: str) -> None:
    """Links of another direction, name or container, and without a container's id."""
    attach(client, "sender", "mine", address)
    attach(client, "receiver", "mine", address, handle=1)
    attach(client, "sender", "other", address, handle=2)
    for container in ("another", "", ""):
        other = opened(server.port, container_id=container)
        attach(other, "sender", "mine", address)
    for number, handle in enumerate((0, 2)):
        assert_works(client, "sender", number, handle=handle)


def test_a_refused_attach_takes_no_name(client: FrameClient, address: str) -> None:
    attach(client, "sender", "mine", address)
    client.begin(channel=1)
    client.send(
        "attach", channel=1, name="mine", handle=0, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address="$none"),
    )  # fmt: skip
    assert client.expect("attach").channel == 1
    assert client.expect("detach").channel == 1
    assert_works(client, "sender", 0)
