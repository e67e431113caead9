"""Whatever clients of two connected servers do to their streams, both servers go on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Delivery, Endpoint, LinkException, Receiver, Sender
from support.engine_client import STREAMING_DELIVERIES, EngineClient
from support.examples import examples
from support.server import Server, running_server
from support.streams import WAYS, head, leave

OUTCOMES = [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED]
ADDRESSES = ["queue", "topic.topic", "dynamic-own"]
SIZES = [0, 1, 100, 20_000, 70_000]
ACTORS = 5


class Actor:
    """A client that does one thing at a time, if it can; values choose among what there is."""

    def __init__(self, number: int, servers: tuple[Server, Server]) -> None:
        self.client = EngineClient(servers[number % 2].port, streaming_links=number > 1)
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self.answered: list[Delivery] = []
        self.gone = False

    def attach_sender(self, value: int) -> None:
        sender = self.client.session().sender(f"sender-{len(self.senders)}-{value}")
        sender.target.address = ADDRESSES[value % 3]
        if value % 4:
            sender.target.capabilities.put_symbol(STREAMING_DELIVERIES)
        sender.open()
        self.senders.append(sender)

    def attach_receiver(self, value: int) -> None:
        receiver = self.client.session().receiver(f"receiver-{len(self.receivers)}-{value}")
        receiver.source.address = ADDRESSES[value % 3]
        receiver.open()
        receiver.flow(value % 4)
        self.receivers.append(receiver)

    def take(self, value: int) -> None:
        for link in self.opened():
            link.flow(value % 3)
            self.receivers.append(link)

    def refuse(self, value: int) -> None:
        for link in self.opened():
            link.close()

    def opened(self) -> list[Receiver]:
        """Open the links that the server attached; return them."""
        # A session that ended before its answer came leaves a shadow here.
        links = [link for link in self.client.attached if isinstance(link, Receiver)]
        self.client.attached.clear()
        for link in links:
            if link.session.state & Endpoint.LOCAL_UNINIT:
                link.session.open()
            link.open()
        return links

    def send(self, value: int) -> None:
        sender = chosen(self.senders, value)
        if sender is None or sender.credit <= 0 or sender.session.outgoing_bytes > 200_000:
            return
        if sender.current is None:
            sender.delivery(f"{value}")
            sender.stream(head(1 << 20))
        sender.stream(os.urandom(SIZES[value % 5]))

    def whole(self, value: int) -> None:
        """Send some small messages."""
        sender = chosen(self.senders, value)
        for _ in range(1 + value % 3):
            if sender is not None and sender.credit > 0 and sender.current is None:
                sender.delivery(f"{value}")
                sender.stream(head(1) + b"x")
                sender.advance()

    def end(self, value: int) -> None:
        sender = chosen(self.senders, value)
        if sender is not None and sender.current is not None:
            sender.advance() if value % 3 else sender.current.settle()

    def abort(self, value: int) -> None:
        sender = chosen(self.senders, value)
        if sender is not None and sender.current is not None:
            sender.current.abort()

    def read(self, value: int) -> None:
        receiver = chosen(self.receivers, value)
        if receiver is None or receiver.current is None:
            return
        if receiver.current.aborted:
            receiver.current.settle()
            return
        with contextlib.suppress(LinkException):
            while receiver.recv(65536):
                pass

    def credit(self, value: int) -> None:
        receiver = chosen(self.receivers, value)
        if receiver is not None:
            receiver.flow(value % 5)

    def answer(self, value: int) -> None:
        """Give outcomes; settle at once, or behind what is framed already."""
        receiver = chosen(self.receivers, value)
        answered = []
        while receiver is not None and receiver.current is not None and len(answered) < value % 4:
            answered.append(receiver.current)
            receiver.current.update(OUTCOMES[value % 4])
            if receiver.current.partial:
                break
            receiver.advance()
        self.client.transport.pending()
        if value % 3:
            for delivery in answered:
                delivery.settle()
        else:
            self.answered += answered

    def settle(self, value: int) -> None:
        for delivery in self.answered:
            delivery.settle()
        self.answered.clear()

    def drop(self, value: int) -> None:
        """Detach a link, or end its session."""
        links = self.senders if value % 2 else self.receivers
        link = chosen(links, value // 2)
        if link is not None:
            leave(self.client, link, WAYS[value % 3 % 2])
            links.remove(link)

    def go(self, value: int) -> None:
        link = chosen([*self.senders, *self.receivers], value)
        if link is not None:
            leave(self.client, link, WAYS[2 + value % 3])
        self.gone = True

    def pump(self, value: int) -> None:
        self.client.pump(0)


def chosen(links: list[Sender] | list[Receiver], value: int) -> Sender | Receiver | None:
    return links[value % len(links)] if links else None


ACTIONS = [
    "attach_sender", "attach_receiver", "take", "refuse", "send", "send", "send", "whole", "whole",
    "end", "abort", "read", "read", "credit", "answer", "settle", "drop", "go", "pump",
]  # fmt: skip
STEPS = st.lists(
    st.tuples(st.integers(0, ACTORS - 1), st.sampled_from(ACTIONS), st.integers(0, 59)),
    min_size=10,
    max_size=80,
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two servers that fill what they free, with two connections between them."""
    folder = tmp_path_factory.mktemp("servers")
    environment = {"MALLOC_PERTURB_": "165"}
    with (
        running_server(folder, environment=environment, trunks="*") as first,
        running_server(
            folder, environment=environment, connect=f"127.0.0.1:{first.port}", connect_count=2
        ) as second,
    ):
        yield first, second


@given(STEPS)
@settings(
    deadline=None,
    max_examples=examples(300),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_streams(servers: tuple[Server, Server], steps: list[tuple[int, str, int]]) -> None:
    actors: dict[int, Actor] = {}
    with contextlib.ExitStack() as stack:
        for number, action, value in steps:
            if number not in actors:
                actors[number] = Actor(number, servers)
                stack.callback(actors[number].client.socket.close)
                # So that there is something to fail.
                actors[number].attach_receiver(value)
                actors[number].attach_sender(value)
            getattr(actors[number], action)(value)
            for actor in actors.values():
                if not actor.gone:
                    actor.client.pump(0)
            if actors[number].gone:
                del actors[number]
    for server in servers:
        # It answers an open frame.
        with EngineClient(server.port):
            pass
