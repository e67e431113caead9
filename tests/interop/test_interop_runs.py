"""Runs of `quiver` through brokers of others: each measures its own messages, and all of them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from support.brokers import ALL, marked
from support.processes import Finished, run
from support.server import Server

SECONDS = 90.0
LEFT = 300


def tool(name: str, *words: str) -> Finished:
    return run([sys.executable, "-m", f"quiver_fast.cli.{name}", *words], SECONDS)


def measure(*words: str) -> dict[str, Any]:
    end = tool("pair", "--json", *words)
    assert end.code == 0, end
    document: dict[str, Any] = json.loads(end.stdout)
    assert document["complete"] is True
    return document


@pytest.mark.parametrize("broker", marked(*ALL))
@pytest.mark.parametrize("words", [(), ("--record-format", "v2")], ids=["times", "ids"])
def test_runs_in_a_row_on_one_queue(
    broker: str, words: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(broker)
    url = f"amqp://127.0.0.1:{server.port}/queue0"
    left = tool("arrow", "send", url, "-c", str(LEFT), "--quiet")
    assert left.code == 0, left
    first, second = (measure(url, "--rate", "1k", "-d", "2s", *words) for _ in range(2))
    # Another test may have left more.
    assert first["delivery"]["older"] >= LEFT
    assert second["delivery"]["older"] == 0
    for document in (first, second):
        delivery = document["delivery"]
        assert delivery["received"] == delivery["sent"] > 0
        assert (delivery["unreceived"], delivery["lost"], delivery["foreign"]) == (0, 0, 0)
        assert document["drain"] is not None
