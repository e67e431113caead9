"""Runs of `quiver` through brokers of others: each measures its own messages, and all of them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from support.brokers import ALL, declare, marked
from support.processes import Finished, run
from support.server import Server

SECONDS = 300.0
LEFT = 300
# One that cannot drain, and one that can.
GATE = ("rabbitmq", "artemis")


def tool(name: str, *words: str) -> Finished:
    return run([sys.executable, "-m", f"quiver_fast.cli.{name}.command", *words], SECONDS)


def measure(*words: str) -> dict[str, Any]:
    # A busy machine's broker may be silent for longer than the default.
    end = tool("pair", "--json", "--timeout", "60s", "--drain-timeout", "100s", *words)
    assert end.code == 0, end
    document: dict[str, Any] = json.loads(end.stdout)
    assert document["complete"] is True
    return document


@pytest.mark.parametrize(
    ("broker", "path", "words"),
    [
        ("rabbitmq4", "exchanges/amq.fanout", ()),
        ("rabbitmq4", "/exchanges/amq.topic/a.b", ("--processes", "7")),
        ("rabbitmq4", "copies", ("--declare", "--queue-type", "stream", "--delete")),
        ("artemis", "copies", ("--declare", "--routing", "multicast")),
        ("artemis", "kept", ("--declare", "--routing", "multicast", "--away", "1s")),
        pytest.param("classic", "topic://copies", (), marks=pytest.mark.slow),
        pytest.param("classic", "topic://kept", ("--away", "1s"), marks=pytest.mark.slow),
        pytest.param("broker_j", "amq.topic/kept", ("--away", "1s"), marks=pytest.mark.slow),
        pytest.param("broker_j", "amq.topic/copies", (), marks=pytest.mark.slow),
    ],
)
def test_each_receiver_gets_every_message(
    broker: str, path: str, words: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Of topics, streams and exchanges; the queues of receivers at an exchange do not stay."""
    server: Server = request.getfixturevalue(broker)
    ends = ("--fan-out", "--senders", "2", "--receivers", "4", "--count", "2000")
    found = measure(f"amqp://127.0.0.1:{server.port}/{path}", *ends, *words)
    assert found["delivery"]["received"] == found["delivery"]["copies"] == 8000
    assert [found["delivery"][name] for name in ("lost", "unreceived", "duplicate")] == [0] * 3
    assert found["fan_out"]["lacking"] == 0
    if "exchanges" in path:
        queue = f"amqp://127.0.0.1:{server.port}/quiver-{found['run_id']}-0"
        end = tool("arrow", "receive", queue, "--count", "1")
        assert "amqp:not-found" in end.stderr


@pytest.mark.parametrize("broker", marked(*ALL, gate=GATE))
@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="times"),
        pytest.param(("--record-format", "v2"), id="ids", marks=pytest.mark.slow),
    ],
)
def test_runs_in_a_row_on_one_queue(
    broker: str, words: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(broker)
    url = f"amqp://127.0.0.1:{server.port}/queue0"
    left = tool("arrow", "send", url, "-c", str(LEFT), "--quiet")
    assert left.code == 0, left
    first, second = (measure(url, "--rate", "1k", "-d", "1s", *words) for _ in range(2))
    # Another test may have left more.
    assert first["delivery"]["older"] >= LEFT
    assert second["delivery"]["older"] == 0
    for document in (first, second):
        delivery = document["delivery"]
        assert delivery["received"] == delivery["sent"] > 0
        assert (delivery["unreceived"], delivery["lost"], delivery["foreign"]) == (0, 0, 0)
        assert document["drain"] is not None


def url(broker: str, queue: str, request: pytest.FixtureRequest) -> str:
    """Return where a queue is that is there."""
    server: Server = request.getfixturevalue(broker)
    declare(server, queue)
    return f"amqp://127.0.0.1:{server.port}/{queue}"


@pytest.mark.parametrize("broker", marked(*ALL, gate=GATE))
def test_a_count_is_of_messages_of_the_run(broker: str, request: pytest.FixtureRequest) -> None:
    """Messages of an earlier run are received first, and do not count in this one."""
    where = url(broker, "left", request)
    left = tool("arrow", "send", where, "-c", "2000", "--quiet")
    assert left.code == 0, left
    told = measure(where, "--count", "500")
    assert told["results"]["message_count"] == 500
    counts = ("sent", "received", "older", "foreign", "unreceived", "lost", "duplicate")
    assert [told["delivery"][name] for name in counts] == [500, 500, 2000, 0, 0, 0, 0]
    # Nothing is left behind for the next run.
    again = measure(where, "--count", "50")["delivery"]
    assert (again["older"], again["received"]) == (0, 50)


@pytest.mark.parametrize("broker", marked(*ALL, gate=["artemis"]))
def test_a_flood_is_drained(broker: str, request: pytest.FixtureRequest) -> None:
    """A sender without a rate may fill the queue faster than it empties: all of it comes."""
    words = ("--duration", "1s", "--body-size", "1000")
    delivery = measure(url(broker, "flood", request), *words)["delivery"]
    assert delivery["sent"] == delivery["received"] > 0
    assert (delivery["unreceived"], delivery["lost"], delivery["duplicate"]) == (0, 0, 0)


@pytest.mark.parametrize("broker", marked(*ALL, gate=["artemis"]))
def test_what_is_left_without_a_drain_is_unreceived_and_not_lost(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """With --drain-timeout 0 the backlog stays, is told, and is older to the next run."""
    where = url(broker, "rest", request)
    words = ("--duration", "1s", "--body-size", "1000", "--drain-timeout", "0")
    first = measure(where, *words)["delivery"]
    print(f"{broker}: {first['unreceived']} of {first['sent']} were left")
    assert first["sent"] == first["received"] + first["unreceived"]
    # The server may still have them: nobody can say that they are lost.
    assert first["lost"] == (None if first["unreceived"] else 0)
    second = measure(where, "--count", "50")["delivery"]
    assert (second["received"], second["older"]) == (50, first["unreceived"])
