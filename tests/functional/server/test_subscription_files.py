"""Durable subscriptions are made and ended on a disk whose syncs do not end: all else goes on.

What waits for the disk is answered when it is there, with all that came by its link meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.preload import compile_preload, preloading
from support.processes import wait_until
from support.server import Server, running_server

from quiver_fast.conform.wire.codec import symbols
from quiver_fast.conform.wire.frames import composite
from tests.functional.server.test_subscriptions import LOCKED, NOT_FOUND, Client, bodies, publish


class Disk:
    """A server's disk, whose syncs a test can hold."""

    def __init__(self, server: Server, path: Path, store: Path) -> None:
        self.server, self.path, self.store = server, path, store

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold all syncs until the end of the block."""
        self.path.touch()
        try:
            yield
        finally:
            self.path.unlink()

    def folders(self) -> list[Path]:
        """Return the folders of subscriptions."""
        root = self.store / "%subscriptions"
        return list(root.iterdir()) if root.exists() else []


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    folder = tmp_path_factory.mktemp("held")
    library = compile_preload(Path(__file__).with_name("held_sync.c"), folder)
    path, store = folder / "syncs", folder / "store"
    environment = {"QUIVER_HELD": str(path), **preloading(library)}
    with running_server(folder, store=store, max_queues=40, environment=environment) as server:
        yield Disk(server, path, store)


def ask(client: Client, topic: str, name: str, *capabilities: str, **fields: Any) -> int:
    """Attach a durable subscriber and wait for nothing; return its handle."""
    client.handles += 1
    source = composite(
        "source", address=topic, durable=2, expiry_policy="never",
        capabilities=symbols("topic", *capabilities),
    )  # fmt: skip
    client.send(
        "attach", name=name, handle=client.handles - 1, role=True,
        **{"source": source, "target": composite("target"), **fields},
    )  # fmt: skip
    return client.handles - 1


def is_served(disk: Disk, topic: str) -> bool:
    """Say whether another client publishes and receives; waiting messages have no answer before."""
    with Client(disk.server, "bystander") as client:
        client.subscribe(topic, "passing", expiry="link-detach", durable=0)
        publish(disk.server, topic, 7, durable=False)
        return client.take(1) == bodies(7)


def test_all_others_are_served(disk: Disk, address: str) -> None:
    topic = f"topic/{address}"
    with Client(disk.server) as client:
        with disk.held():
            ask(client, topic, "waits")
            # A flow and a look at it come before there is an answer.
            client.credit(1, 0)
            assert is_served(disk, topic)
        assert client.expect("attach").fields["source"].fields["durable"] == 2
        publish(disk.server, topic, 1)
        found = client.expect("transfer")
        assert found.payload.endswith(bodies(1)[0])
        client.send(
            "disposition", role=True, first=found.fields["delivery_id"], settled=True,
            state=composite("accepted"),
        )  # fmt: skip
        with disk.held():
            client.send("detach", handle=0, closed=True)
            assert is_served(disk, topic)
        assert client.expect("detach").condition is None
        assert client.look_up("waits").fields.get("source") is None
        assert client.refusal() == NOT_FOUND
    wait_until(lambda: disk.folders() == [], "the files are deleted")


@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_comes_before_the_answer(disk: Disk, address: str, closed: bool) -> None:
    topic = f"topic/{address}"
    with Client(disk.server) as client:
        with disk.held():
            ask(client, topic, "hasty")
            client.send("detach", handle=0, closed=closed)
            assert is_served(disk, topic)
        assert client.expect("attach").name == "attach"
        assert client.expect("detach").condition is None
        found = client.look_up("hasty")
        assert (found.fields.get("source") is None) is closed
        if closed:
            assert client.refusal() == NOT_FOUND
        else:
            client.detach(closed=True)


@pytest.mark.parametrize("how", ["session", "connection", "cut"])
def test_its_consumer_goes_before_it_is_there(disk: Disk, address: str, how: str) -> None:
    """As if the answer had been lost: the subscription is there."""
    topic = f"topic/{address}"
    with disk.held(), Client(disk.server) as client:
        ask(client, topic, "gone")
        if how == "session":
            client.send("end")
            client.until("end")
        elif how == "connection":
            client.send("close")
            client.until("close")
        else:
            client.socket.close()
        assert is_served(disk, topic)
    with Client(disk.server) as client:
        ask(client, topic, "gone")
        assert client.expect("attach").fields["source"].fields["durable"] == 2
        publish(disk.server, topic, 1)
        assert client.take(1) == bodies(1)
        client.detach(closed=True)


def test_two_ask_for_the_same(disk: Disk, address: str) -> None:
    """They are answered in their order; who shares it shares it, others take over."""
    topic = f"topic/{address}"
    with Client(disk.server) as one, Client(disk.server) as two:
        with disk.held():
            ask(one, topic, "shared|1", "shared")
            assert is_served(disk, topic)
            ask(two, topic, "shared|2", "shared")
            assert is_served(disk, topic)
        for client in (one, two):
            assert client.expect("attach").fields["source"].fields["durable"] == 2
        one.detach(closed=False)
        publish(disk.server, topic, 1)
        assert two.take(1) == bodies(1)
        two.detach(closed=True)


def test_another_topic_before_the_first_is_there(disk: Disk, address: str) -> None:
    one, two = f"topic/{address}/1", f"topic/{address}/2"
    with Client(disk.server) as client, Client(disk.server) as other:
        with disk.held():
            ask(client, one, "moved")
            assert is_served(disk, one)
            ask(other, two, "moved")
            assert is_served(disk, one)
        # JMS 2.0: one in use is not replaced.
        assert client.expect("attach").fields["source"].fields["address"] == one
        assert other.expect("attach").fields.get("source") is None
        assert other.refusal() == LOCKED
        publish(disk.server, one, 1)
        assert client.take(1) == bodies(1)
        client.detach(closed=True)


@pytest.mark.parametrize("first", [(), ("shared",)], ids=["unshared", "shared"])
def test_shared_and_not_before_the_first_is_there(
    disk: Disk, address: str, first: tuple[str, ...]
) -> None:
    topic, second = f"topic/{address}", () if first else ("shared",)
    with Client(disk.server) as client, Client(disk.server) as other:
        with disk.held():
            ask(client, topic, "one-name", *first)
            assert is_served(disk, topic)
            ask(other, topic, "one-name", *second)
            assert is_served(disk, topic)
        assert client.expect("attach").fields.get("source") is not None
        assert other.expect("attach").fields.get("source") is None
        assert other.refusal() == LOCKED
        client.detach(closed=True)


def test_those_that_are_being_made_count(disk: Disk, address: str) -> None:
    """The limit of queues holds for messages on their way; none is left in the end."""
    topic = f"topic/{address}"
    with Client(disk.server) as client, disk.held():
        for number in range(60):
            ask(client, topic, f"many-{number}")
        # The refused ones' attaches are answered first.
        refused = client.until("detach")
        assert refused.condition == "amqp:resource-limit-exceeded"
        # Those that wait are closed before they are answered.
        client.send("close")
        client.until("close")
    with Client(disk.server) as client:
        client.subscribe(topic, "many-0")
        for number in range(1, 60):
            if client.look_up(f"many-{number}").fields.get("source") is None:
                assert client.refusal() == NOT_FOUND
            else:
                client.detach(closed=True)
        client.detach(closed=True, handle=0)
    wait_until(lambda: disk.folders() == [], "the files are deleted")


def test_files_that_cannot_be_made(tmp_path: Path) -> None:
    """Waiting links get the reason; the next attach tries again."""
    store = tmp_path / "store"
    store.mkdir()
    in_the_way = store / "%subscriptions"
    in_the_way.write_text("")
    says = f"File exists{os.linesep}"
    with running_server(tmp_path, store=store, says=says) as server, Client(server) as client:
        assert client.subscribe("topic/x", "mine").fields.get("source") is None
        assert client.refusal() == "amqp:internal-error"
        in_the_way.unlink()
        source = client.subscribe("topic/x", "mine").fields["source"]
        assert source.fields["durable"] == 2
        server.kill()
    with running_server(tmp_path, store=store) as server, Client(server) as client:
        assert client.look_up("mine").fields.get("source") is not None
