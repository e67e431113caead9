"""A sender that is faster than its receiver: the report says that the queue was full."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.arrows import arguments, run_pyfast
from support.server import running_server

from quiver_fast.arrow.amqp.outcome_text import without_outcome


@pytest.mark.parametrize("connections", [1, 3])
def test_our_server_names_its_limit(tmp_path: Path, connections: int) -> None:
    """Nobody receives. The end of the run waits for outcomes, within the arrow's patience."""
    with running_server(tmp_path, queue_limit=70_000) as server:
        many = {} if connections == 1 else {"connections": connections}
        words = arguments("send", server.port, duration=1, count=0, body_size=1000, **many)
        done = run_pyfast(*words, timeout=60)
    assert done.code == 1
    assert "messages have no outcome: the queue is full" in done.stderr
    assert "up to 70000 bytes in a queue (--queue-limit)" in done.stderr
    assert "silent" not in done.stderr


class Other:
    """A connection to a peer with these properties."""

    peer = "broker:5672"

    def __init__(self, **properties: str) -> None:
        self.properties = properties

    def remote_property(self, wanted: bytes) -> str:
        return self.properties.get(wanted.decode(), "")


def test_of_other_peers_it_is_only_probable() -> None:
    text = without_outcome(Other(product="Other Broker"), 2, 10, True)
    assert text.startswith("broker:5672: 2 of 10 messages have no outcome, and Other Broker sends")
    assert "Perhaps the queue is full" in text
    assert "--queue-limit" in text
    assert "the peer sends none" in without_outcome(Other(), 2, 10, True)


def test_a_server_that_would_take_more_is_not_said_to_be_full() -> None:
    ours = {"product": "quiver-fast", "queue-limit": "70000"}
    assert "Perhaps" in without_outcome(Other(**ours), 2, 10, False)
    assert "the queue is full" in without_outcome(Other(**ours), 2, 10, True)
