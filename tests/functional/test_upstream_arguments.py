"""Our arrow and server started with the arguments that upstream's wrappers pass, to the letter.

Upstream's `quiver-arrow` passes every key in one order. A URL without a scheme, such as `q0`
or `//localhost/q0`, has an empty one. `quiver-server` passes four keys, and others if they
have a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.arrows import COMMANDS, run_pair
from support.judgement import assert_clean
from support.processes import REPOSITORY, Finished, Running, free_port, run, wait_until
from support.server import is_ready, running_server

SERVER = (sys.executable, str(REPOSITORY / "impls" / "quiver-server-pyfast"))


def _shared(operation: str, port: int | str, scheme: str, keys: dict[str, object]) -> list[str]:
    role = {"send": "sender", "receive": "receiver"}[operation]
    return [
        f"connection-mode={keys.get('connection_mode', 'client')}",
        f"channel-mode={keys.get('channel_mode', 'active')}",
        f"operation={operation}",
        f"id=quiver-{role}-8a3f",
        f"scheme={scheme}",
        "host=localhost",
        f"port={port}",
        "path=q0",
        f"duration={keys.get('duration', 0)}",
        f"count={keys.get('count', 0)}",
    ]


def third(operation: str, port: int | str, scheme: str = "", **keys: object) -> list[str]:
    """Return what today's upstream passes: it has a rate and message ids."""
    return [
        *_shared(operation, port, scheme, keys),
        f"rate={keys.get('rate', 0)}",
        f"body-size={keys.get('body_size', 100)}",
        f"credit-window={keys.get('credit', 1000)}",
        "transaction-size=0",
        f"durable={keys.get('durable', 0)}",
        f"set-message-id={keys.get('set_message_id', 0)}",
    ]


def second(operation: str, port: int | str, scheme: str = "", **keys: object) -> list[str]:
    """Return what the upstream that tracks settlement passes."""
    return [
        *_shared(operation, port, scheme, keys),
        "body-size=100",
        "credit-window=1000",
        "transaction-size=0",
        "durable=0",
        f"settlement={keys.get('settlement', 0)}",
    ]


def first(operation: str, port: int | str, **keys: object) -> list[str]:
    """Return the nine words of the first contract, in which a listening end is passive."""
    mode = str(keys["connection_mode"])
    return ["/tmp/quiver", mode, operation, "localhost", str(port), "q0", "20", "100", "1000"]


# Who listens, and who opens session and link: the two ends of each show two of eight modes.
MODES = [("send", "client"), ("send", "server"), ("receive", "client"), ("receive", "server")]


@pytest.mark.parametrize("scheme", ["", "amqp"])
@pytest.mark.parametrize("contract", [third, second])
@pytest.mark.parametrize(("server", "active"), MODES)
def test_every_mode(
    server: str, active: str, contract: Callable[..., list[str]], scheme: str
) -> None:
    pair = run_pair(
        "impl", "impl", server=server, active=active, contract=contract, count=20, scheme=scheme
    )
    pair.check(20)


@pytest.mark.parametrize("server", ["send", "receive"])
def test_positions(server: str) -> None:
    pair = run_pair("impl", "impl", server=server, contract=first)
    pair.check(20)
    assert pair.sender.lines[0].split(",")[0] == "1"


@pytest.fixture(name="port", scope="module")
def server_on_a_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port, ready = free_port(), tmp_path_factory.mktemp("server") / "ready"
    # Upstream makes the file first, and looks into it.
    ready.touch()
    words = ["host=localhost", f"port={port}", "path=q0", f"ready-file={ready}", "verbose=1"]
    with Running([*SERVER, *words]) as running:
        wait_until(lambda: is_ready(ready), "the server is ready")
        yield port
        assert running.process.poll() is None


def one_end(operation: str, port: int, **keys: object) -> Finished:
    end = run([*COMMANDS["impl"], *third(operation, port, **keys)])
    assert_clean(end)
    return end


def test_one_message_after_the_other_through_a_server(port: int) -> None:
    sent = one_end("send", port, count=1)
    received = one_end("receive", port, count=1)
    [send_time, reserved] = sent.lines[0].split(",")
    assert (len(send_time), reserved) == (13, "0")
    assert received.lines[0].split(",")[0] == send_time


def test_a_second_at_a_rate_through_a_server(port: int) -> None:
    """The rate is passed to the receiver too, which has nothing to do with it."""
    sent = one_end("send", port, duration=1, rate=100)
    received = one_end("receive", port, duration=1, rate=100)
    assert [line.split(",")[0] for line in received.lines] == [
        line.split(",")[0] for line in sent.lines
    ]
    assert len(sent.lines) > 1


def test_both_at_once_through_a_server(tmp_path: Path) -> None:
    """`quiver URL --duration 1 --body-size 1 --credit 1 --durable --set-message-id`.

    Upstream's receiver ends at its own duration. What a fast sender has sent by then must have
    room in the queue: a full one gives no outcomes, and the sender fails.
    """
    keys = {"duration": 1, "body_size": 1, "credit": 1, "durable": 1, "set_message_id": 1}
    command = COMMANDS["impl"]
    with (
        running_server(tmp_path, path="q0", queue_limit=4 << 30) as server,
        Running([*command, *third("send", server.port, **keys)]) as sender,
    ):
        # The receiver's second begins when it is attached: the sender has to be there by then.
        wait_until(lambda: len(server.process.net_connections("tcp")) > 1, "the sender is there")
        with Running([*command, *third("receive", server.port, **keys)]) as receiver:
            for end in (sender.wait(), receiver.wait()):
                assert_clean(end)
                assert len(end.lines) > 1
