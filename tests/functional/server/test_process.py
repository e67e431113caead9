"""The server as a process: contract, ready file, signals and errors."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Delivery, Endpoint
from support.arrows import arguments, run_pyfast
from support.clients import Clients
from support.judgement import assert_clean, assert_error
from support.processes import Finished, Running, free_port, run, wait_until
from support.server import Server, command, is_ready, running_server

Connect = Callable[..., tuple[Server, Clients]]


def test_without_arguments_it_says_what_it_is() -> None:
    end = run([sys.executable, "-m", "quiver_fast.server.main"])
    assert (end.code, end.stderr) == (0, "")
    assert end.lines[0].startswith("quiver-server-pyfast ")
    assert "transactions" in end.stdout


def test_help() -> None:
    end = run([sys.executable, "-m", "quiver_fast.server.main", "--help"])
    assert (end.code, end.stderr) == (0, "")
    assert end.stdout.startswith("Usage: quiver-server-pyfast")


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_error(run(command(port)), str(port), "in use")


def test_a_failed_restart_does_not_look_ready(tmp_path: Path) -> None:
    """The ready file of a server that was killed is still there."""
    ready = tmp_path / "ready"
    ready.write_text("ready\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert_error(run(command(taken.getsockname()[1], ready)), "in use")
    assert not ready.exists()


def test_a_host_that_does_not_exist() -> None:
    assert_error(run(command(free_port(), host="no.such.host.invalid")), "no.such.host.invalid")


def test_a_ready_file_that_cannot_be(tmp_path: Path) -> None:
    assert_error(run(command(free_port(), tmp_path / "missing" / "ready")), "missing")


@pytest.mark.parametrize(
    ("keys", "fragments"),
    [
        ({"port": "many"}, ["port"]),
        ({"queue_limit": 1}, ["queue-limit"]),
        ({"scheme": "http"}, ["scheme"]),
        ({"scheme": "amqps"}, ["cert"]),
        ({"cert": "x", "key": "y"}, ["amqps"]),
        ({"user": "me"}, ["password"]),
        ({"host": None}, ["host"]),
        ({"max_frame_size": 100}, ["max-frame-size"]),
    ],
)
def test_arguments_that_are_wrong(keys: dict[str, object], fragments: list[str]) -> None:
    words = command(**{"port": 1, **keys})
    assert_error(run(words), *fragments, code=2)


def test_unknown_keys_are_named_once_and_it_serves(tmp_path: Path) -> None:
    told = "quiver-server-pyfast: warning: unknown arguments ignored: nonsense, key-password\n"
    keys = {"nonsense": 1, "key_password": "secret", "idle_timeout": ""}
    with running_server(tmp_path, says=told, **keys) as server:
        socket.create_connection(("127.0.0.1", server.port), 5).close()


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    words = command(free_port(), scheme="amqps", cert=tmp_path / "cert", key=tmp_path / "key")
    assert_error(run(words), "cert", code=2)


def test_the_ready_file_tells_the_truth(tmp_path: Path) -> None:
    """Several may wait for it; once it is there, connections are accepted."""
    port, ready = free_port(), tmp_path / "ready"
    ready.write_text("stale")
    with Running(command(port, ready)) as running:
        wait_until(lambda: is_ready(ready), "the server is ready")
        socket.create_connection(("127.0.0.1", port), 5).close()
        assert ready.read_text() == "ready\n"
        running.send_signal(signal.SIGTERM)
        assert_clean(running.wait())
    assert list(tmp_path.iterdir()) == []


def test_it_says_where_it_listens(tmp_path: Path) -> None:
    port, ready = free_port(), tmp_path / "ready"
    with Running(command(port, ready, quiet=0)) as running:
        wait_until(lambda: is_ready(ready), "the server is ready")
        running.send_signal(signal.SIGTERM)
        end = running.wait()
    assert end.code == 0
    assert end.stderr == f"quiver-server-pyfast: listening on amqp://127.0.0.1:{port}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_close_every_connection_in_order(connect: Connect, number: signal.Signals) -> None:
    """A close with amqp:connection:forced (part 2.8.16), exit 0, nothing on stderr."""
    server, clients = connect()
    connections = [clients.connect() for _ in range(3)]
    producer = clients.producer(connections[0], "queue0")
    consumer = clients.consumer(connections[1], "queue0", credit=10)
    producer.publish("x")
    consumer.take_one()
    server.running.send_signal(number)
    for connection in connections:
        clients.wait(
            lambda c=connection: bool(c.state & Endpoint.REMOTE_CLOSED), "the server closes"
        )
        assert connection.remote_condition.name == "amqp:connection:forced"
    assert_clean(farewell(server, clients))


def farewell(server: Server, clients: Clients) -> Finished:
    """Answer the server's close, for which it waits, and return how it ended."""
    for connection in clients.connections:
        connection.close()
    clients.wait(lambda: server.running.process.poll() is not None, "the server ends")
    return server.running.wait()


def test_sigterm_under_load(connect: Connect) -> None:
    """Messages before the close are accepted, in order; the rest has no outcome."""
    server, clients = connect()
    producer = clients.producer(clients.connect(), "queue0")
    producer.publish("first")
    deliveries = [producer.send("x" * 1000) for _ in range(1000)]
    server.running.send_signal(signal.SIGTERM)
    clients.wait(lambda: producer.link.connection.transport is None or producer.is_closed
                 or bool(producer.link.connection.state & Endpoint.REMOTE_CLOSED),
                 "the server closes")  # fmt: skip
    states = [each.remote_state for each in deliveries]
    accepted = states.count(Delivery.ACCEPTED)
    assert states == [Delivery.ACCEPTED] * accepted + [0] * (len(states) - accepted)
    assert_clean(farewell(server, clients))


def test_a_peer_that_does_not_answer_cannot_delay_the_end(connect: Connect) -> None:
    server, _ = connect()
    with socket.create_connection(("127.0.0.1", server.port), 5):
        server.running.send_signal(signal.SIGTERM)
        end = server.running.wait()
    assert_clean(end)


def test_the_port_is_free_again(tmp_path: Path) -> None:
    """Connections in TIME_WAIT do not keep the next server from the port."""
    port = free_port()
    for number in range(2):
        ready = tmp_path / str(number)
        with Running(command(port, ready)) as running:
            wait_until(lambda r=ready: is_ready(r), "the server is ready")
            assert_clean(run_pyfast(*arguments("send", port, count=10)))
            running.send_signal(signal.SIGTERM)
            assert_clean(running.wait())
