"""Queues of other brokers: their addresses, and how they are declared, purged and deleted."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.arrows import COMMANDS, arguments, run_pyfast
from support.brokers import declare, marked
from support.judgement import assert_clean, assert_error
from support.processes import Finished, Running, run, wait_until
from support.server import Server

SECONDS = 90.0

ON_DEMAND = ("rabbitmq", "artemis", "classic", "broker_j")
"""The brokers that make a queue when a link attaches; only Artemis deletes one over AMQP."""


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Server:
    """The broker whose name is the test's parameter."""
    server: Server = request.getfixturevalue(request.param)
    return server


def url(broker: Server, path: str) -> str:
    return f"amqp://localhost:{broker.port}/{path}"


def quiver(*words: str, **environment: str) -> Finished:
    # A busy machine's broker may be silent for longer than the default.
    command = [sys.executable, "-m", "quiver_fast.cli.pair.command", "--timeout", "60s", *words]
    return run(command, SECONDS, env=environment)


def document(end: Finished) -> dict[str, Any]:
    assert end.code == 0, end
    read: dict[str, Any] = json.loads(end.stdout)
    return read


def missing(broker: Server, path: str) -> bool:
    """Say whether RabbitMQ 4 has no such queue."""
    end = run_pyfast(*arguments("receive", broker.port, path=path, count=1))
    return "amqp:not-found" in end.stderr


@pytest.mark.parametrize(
    "broker",
    marked(*ON_DEMAND, "rabbitmq4", gate=("rabbitmq", "artemis", "rabbitmq4")),
    indirect=True,
)
def test_purge(broker: Server) -> None:
    """Old messages are removed; the next run receives none of them."""
    where = url(broker, "queue-to-purge")
    for left in (0, 777):
        if left:
            send = [sys.executable, "-m", "quiver_fast.cli.arrow.command", "send", where]
            assert_clean(run([*send, "--count", str(left), "--declare"], SECONDS))
        summary = document(quiver(where, "--count", "500", "--declare", "--purge", "--json"))
        assert summary["purged"] == left
        assert summary["delivery"]["received"] == 500
        assert summary["delivery"]["older"] == 0


KEPT = tuple(name for name in ON_DEMAND if name != "artemis")


@pytest.mark.parametrize("broker", marked(*KEPT, gate=["rabbitmq"]), indirect=True)
def test_a_unique_queue_is_left_empty_where_it_cannot_be_deleted(broker: Server) -> None:
    end = quiver(url(broker, "lone"), "--count", "500", "--unique-queue", "--json")
    path = document(end)["sender"]["config"]["path"]
    assert path.startswith("lone-")
    assert f"has no way to delete a queue over AMQP: '{path}' stays, empty" in end.stderr


@pytest.mark.parametrize("broker", marked(*KEPT, gate=["rabbitmq"]), indirect=True)
def test_a_broker_without_kinds_of_queues_says_so(broker: Server) -> None:
    end = quiver(url(broker, "kind"), "--count", "10", "--declare", "--durable-queue")
    assert_error(end, "has no way to declare a queue with --durable-queue", within=SECONDS)


@pytest.mark.peer("artemis")
class TestArtemis:
    def test_a_unique_queue_goes(self, artemis: Server) -> None:
        end = quiver(url(artemis, "lone"), "--count", "100", "--unique-queue", "--verbose")
        assert end.code == 0, end
        assert "Deleted 'lone-" in end.stderr

    def test_dead_letters(self, artemis: Server) -> None:
        """Also those that Artemis moved after ten failed attempts."""
        words = ("--count", "500", "--record-format", "v2", "--dead-letter-queue", "DLQ", "--json")
        delivery = document(quiver(url(artemis, "dead"), *words, "--reject", "4%"))["delivery"]
        assert (delivery["dead_lettered"], delivery["rejected"]) == (20, 20), delivery
        summary = document(quiver(url(artemis, "tried"), *words, "--modify", "90%:failed"))
        delivery = summary["delivery"]
        assert delivery["dead_lettered"] == 500 - delivery["received"] > 0
        assert delivery["unreceived"] == delivery["lost"] == 0

    def test_kinds_of_queues(self, artemis: Server) -> None:
        where, run_it = url(artemis, "kind"), ("--count", "100", "--declare")
        ring = ("--queue-argument", "ring-size=1000", "--routing", "anycast", "--durable-queue")
        for _ in range(2):
            assert quiver(where, *run_it, *ring).code == 0
        end = quiver(where, *run_it, "--queue-argument", "ring-size=9")
        assert_error(end, "'kind' is there, but its ring-size is 1000, not 9", within=SECONDS)
        end = quiver(where, *run_it, "--routing", "multicast")
        assert_error(end, "it is anycast, not multicast", within=SECONDS)
        assert quiver(where, *run_it, *ring, "--delete").code == 0
        assert quiver(where, *run_it, "--routing", "multicast", "--delete").code == 0
        end = quiver(where, *run_it, "--queue-argument", "no-such-argument=1")
        assert_error(end, "cannot be declared so: it has no no-such-argument", within=SECONDS)
        end = quiver(where, *run_it, "--queue-type", "quorum")
        assert_error(end, "has no way to declare a queue with --queue-type", within=SECONDS)


@pytest.mark.peer("rabbitmq4")
class TestRabbitMQ4:
    def test_dead_letters(self, rabbitmq4: Server) -> None:
        declare(rabbitmq4, "graves")
        dead = ("x-dead-letter-exchange=", "x-dead-letter-routing-key=graves")
        asked = [word for one in dead for word in ("--queue-argument", one)]
        words = ("--declare", "--queue-type", "classic", *asked, "--record-format", "v2")
        refused = ("--reject", "2%", "--modify", "2%:undeliverable")
        end = quiver(
            url(rabbitmq4, "dying"), *words, *refused, "--count", "1000", "--json",
            "--dead-letter-queue", "graves",
        )  # fmt: skip
        delivery = document(end)["delivery"]
        assert delivery["dead_lettered"] == delivery["rejected"] + delivery["modified"] >= 38
        assert delivery["unreceived"] == 0
        end = quiver(url(rabbitmq4, "dying"), "--count", "100", "--reject", "2%",
                     "--dead-letter-queue", "nowhere")  # fmt: skip
        assert end.code == 1
        assert "cannot read 'nowhere'" in end.stderr.splitlines()[-1]

    @pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
    def test_kinds_of_queues(self, rabbitmq4: Server, kind: str) -> None:
        where, words = url(rabbitmq4, f"kind-{kind}"), ("--count", "100", "--declare", "--json")
        asked = ("--queue-type", kind, "--queue-argument", "x-max-length-bytes=100000000")
        summary = document(quiver(where, *words, *asked, "--durable-queue"))
        assert summary["delivery"]["received"] == 100
        other = "classic" if kind == "quorum" else "quorum"
        end = quiver(where, *words, "--queue-type", other)
        assert_error(end, f"is there, but it is {kind}, not {other}", within=SECONDS)
        end = quiver(where, *words, "--purge", "--delete")
        if kind == "stream":
            assert_error(end, "a stream cannot be purged", within=SECONDS)
        else:
            assert document(end)["purged"] == 0

    def test_a_missing_queue_names_the_option(self, rabbitmq4: Server) -> None:
        end = quiver(url(rabbitmq4, "queues/none"), "--count", "10")
        assert end.code == 1
        last = end.stderr.splitlines()[-1]
        assert "amqp:not-found: no queue 'none'" in last
        assert "create the queue first, or give --declare" in last

    @pytest.mark.parametrize("path", ["declared", "queues/declared", "/queues/declared"])
    def test_every_way_to_write_an_address(self, rabbitmq4: Server, path: str) -> None:
        words = ("--count", "500", "--declare", "--delete", "--json")
        summary = document(quiver(url(rabbitmq4, path), *words))
        for role in ("sender", "receiver"):
            assert summary[role]["arrow"]["address"] == "/queues/declared"
            assert summary[role]["arrow"]["peer"]["product"] == "RabbitMQ"
        assert missing(rabbitmq4, "/queues/declared")

    @pytest.mark.parametrize("name", ["a b", "käse/brot", "100%", "queues/q?x#y"])
    def test_every_name(self, rabbitmq4: Server, name: str) -> None:
        """A path that is no address of RabbitMQ's is the name of a queue, with any characters."""
        words = ("--count", "50", "--declare", "--delete")
        end = quiver(url(rabbitmq4, name), *words)
        if name.startswith("queues/"):
            assert_error(end, "is no queue's address", within=SECONDS)
        else:
            assert end.code == 0, end

    def test_the_arrow_maps_by_itself(self, rabbitmq4: Server) -> None:
        """Also under a wrapper that knows nothing of it."""
        declare(rabbitmq4, "by-itself")
        for operation in ("send", "receive"):
            words = arguments(operation, rabbitmq4.port, path="by-itself")
            assert_clean(run_pyfast(*words))

    @pytest.mark.peer("proton")
    @pytest.mark.parametrize("path", ["foreign", "queues/foreign"])
    def test_foreign_arrows_get_the_address(
        self, rabbitmq4: Server, tmp_path: Path, path: str
    ) -> None:
        file = tmp_path / "quiver-arrow-other"
        file.write_text(f'#!/bin/sh\nexec {shlex.join(COMMANDS["proton"])} "$@"\n')
        file.chmod(0o755)
        declare(rabbitmq4, "foreign")
        words = ("--impl", "other", "--durable", "--count", "300", "--json")
        environment = {**os.environ, "QUIVER_IMPL_PATH": str(tmp_path)}
        summary = document(quiver(url(rabbitmq4, path), *words, **environment))
        assert summary["sender"]["config"]["path"] == "/queues/foreign"

    def test_a_queue_that_is_there_is_declared(self, rabbitmq4: Server) -> None:
        """Whatever its properties are: the first kind of address makes one that is not durable."""
        words = arguments("send", rabbitmq4.port, path="x", address="transient", count=1)
        assert_clean(run_pyfast(*words))
        declare(rabbitmq4, "transient")
        words = arguments("receive", rabbitmq4.port, path="transient", count=1)
        assert_clean(run_pyfast(*words))

    def test_a_unique_queue_goes(self, rabbitmq4: Server) -> None:
        end = quiver(url(rabbitmq4, "lone"), "--count", "100", "--unique-queue", "--json")
        path = document(end)["sender"]["config"]["path"]
        assert path.startswith("/queues/lone-")
        assert "warning" not in end.stderr
        assert missing(rabbitmq4, path)

    @pytest.mark.parametrize(
        "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
    )
    def test_a_unique_queue_goes_after_a_signal(
        self, rabbitmq4: Server, tmp_path: Path, number: signal.Signals
    ) -> None:
        words = [url(rabbitmq4, "lone"), "--unique-queue", "--output", str(tmp_path / "out")]
        with Running([sys.executable, "-m", "quiver_fast.cli.pair.command", *words]) as running:
            wait_until(has_records(tmp_path / "out"), "messages pass", SECONDS)
            running.send_signal(number)
            end = running.wait(SECONDS)
        assert end.code == 128 + number, end
        summary = json.loads((tmp_path / "out" / "sender-summary.json").read_text())
        assert missing(rabbitmq4, summary["config"]["path"])


def has_records(directory: Path) -> Callable[[], bool]:
    def look() -> bool:
        return any(file.stat().st_size for file in directory.glob("receiver-transfers.csv"))

    return look
