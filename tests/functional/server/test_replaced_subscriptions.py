"""Which attaches replace a durable subscription, frame by frame, and over restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.server import Server

from quiver_fast.conform.wire.codec import Value
from tests.functional.server.test_subscriptions import (
    LOCKED,
    Client,
    bodies,
    either,
    publish,
    selecting,
    stored,
)

__all__ = ["either", "stored"]

Start = Callable[..., Server]
PRECONDITION = "amqp:precondition-failed"


@pytest.mark.parametrize("first", [(), ("shared",)], ids=["unshared", "shared"])
def test_shared_and_unshared_do_not_replace_each_other(
    start: Start, tmp_path: Path, either: Server, address: str, first: tuple[str, ...]
) -> None:
    """JMS 2.0, 6.11: they may not have one name; in use or not, and with another topic too."""
    topic, second = f"topic/{address}", () if first else ("shared",)

    def is_refused(server: Server, why: str) -> None:
        for other in (topic, f"{topic}/other"):
            with Client(server) as client:
                name = "sub|1" if second and not first else "sub"
                assert client.subscribe(other, name, *second).fields.get("source") is None
                assert client.refusal() == why

    def are_kept(server: Server) -> None:
        with Client(server) as client:
            client.subscribe(topic, "sub", *first)
            publish(server, topic, 1, 2, 3)
            is_refused(server, LOCKED)
            client.detach(closed=False)
        is_refused(server, PRECONDITION)

    are_kept(either)
    with Client(either) as client:
        # A shared subscription that is not kept is another one.
        client.subscribe(topic, "sub", "shared", expiry="link-detach", durable=0)
        client.detach(closed=True)
        client.subscribe(topic, "sub", *first)
        assert client.take(3) == bodies(1, 2, 3)
        client.detach(closed=True)
    server = start(store=tmp_path / "store")
    are_kept(server)
    server.kill()
    server = start(store=tmp_path / "store")
    is_refused(server, PRECONDITION)
    with Client(server) as client:
        client.subscribe(topic, "sub", *first)
        assert client.take(3) == bodies(1, 2, 3)


@pytest.mark.parametrize("asked", ["topic", "filter"])
def test_one_in_use_is_not_replaced(either: Server, address: str, asked: str) -> None:
    """JMS 2.0: with another topic or selector only an unused one is replaced."""
    topic, changed = f"topic/{address}", {"filter": selecting("n > 2")}
    other = f"{topic}/other" if asked == "topic" else topic
    with Client(either) as user, Client(either) as second:
        user.subscribe(topic, "used", filter=selecting("n > 1"))
        assert second.subscribe(other, "used", **changed).fields.get("source") is None
        assert second.refusal() == LOCKED
        user.detach(closed=True)


@pytest.mark.parametrize("way", ["key", "code"])
def test_the_same_filters_in_another_form(either: Server, address: str, way: str) -> None:
    """A filter's key is its client's choice, and its descriptor is a symbol or a code."""
    topic = f"topic/{address}"
    form: dict[str, Any] = {"key": "selector"} if way == "key" else {
        "descriptor": Value("ulong", 0x468C00000004)
    }  # fmt: skip
    with Client(either) as client:
        client.subscribe(topic, "formed", filter=selecting("TRUE"))
        client.detach(closed=False)
        publish(either, topic, 1)
        client.subscribe(topic, "formed", filter=selecting("TRUE", **form))
        assert client.take(1) == bodies(1)
        client.detach(closed=True)
