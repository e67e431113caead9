"""The memory of the selectors of subscriptions, which may outlive their connections, is bounded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.server import Server

from quiver_fast.conform.wire.codec import Value
from tests.functional.server.test_subscriptions import Client

LIMIT = 4 << 20
# A compiled selector of 4,000 steps, in bytes; so many of them take more than the limit.
MEMORY = 400_000
MANY = LIMIT // MEMORY + 1


def selecting(steps: int) -> dict[str, Value]:
    """Return a filter set whose selector has so many steps."""
    key = Value("symbol", "apache.org:selector-filter:string")
    text = Value("string", "+".join("a" * (steps // 2)) + " = 1")
    return {"filter": Value("map", ((key, Value("described", (key, text))),))}


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("wanted", [(), ("shared",)])
def test_no_more_are_made(
    start: Callable[..., Server], tmp_path: Path, stored: bool, wanted: tuple[str, ...]
) -> None:
    server = start(memory_limit=LIMIT, **({"store": tmp_path / "store"} if stored else {}))
    made = []
    with Client(server) as client:
        for number in range(MANY):
            answer = client.subscribe("topic/t", f"s{number}", *wanted, **selecting(4000))
            if answer.fields.get("source") is None:
                assert client.refusal() == "amqp:resource-limit-exceeded"
                break
            made.append(f"s{number}")
            client.detach(closed=False)
    assert 0 < len(made) < MANY
    with Client(server) as client:
        # Those that are there go on, and make room when they end.
        client.subscribe("topic/t", made[0], *wanted, **selecting(4000))
        client.detach(closed=True)
        client.look_up(made[1])
        client.detach(closed=True)
        answer = client.subscribe("topic/t", "again", *wanted, **selecting(4000))
        assert answer.fields.get("source") is not None
