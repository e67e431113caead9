"""One queue, one file, two protocols: what AMQP stores a tailer over csp reads."""

from __future__ import annotations

import threading
from pathlib import Path

from proton import Delivery, Message
from support.engine_client import EngineClient
from support.processes import free_port
from support.server import running_server

from quiver_fast.remote.client import Queue


def test_a_durable_message_is_an_entry(tmp_path: Path) -> None:
    csp_port = free_port()
    with running_server(tmp_path, store=tmp_path / "store", csp_port=csp_port) as server:
        data = bytes(Message(id="one", body=b"content", durable=True).encode())
        with EngineClient(server.port) as client:
            delivery = client.send(client.sender("q"), data)
            client.until(lambda: delivery.remote_state == Delivery.ACCEPTED)
        with Queue(f"csp://127.0.0.1:{csp_port}/q") as queue, queue.tailer() as tailer:
            entry = next(iter(tailer))
            assert entry.value == data


def test_a_waiting_tailer_hears_of_it(tmp_path: Path) -> None:
    csp_port = free_port()
    data = bytes(Message(id="one", body=b"content", durable=True).encode())
    seen: list[bytes] = []
    with running_server(tmp_path, store=tmp_path / "store", csp_port=csp_port) as server:
        waiting = threading.Event()

        def tail() -> None:
            with Queue(f"csp://127.0.0.1:{csp_port}/q") as queue, queue.tailer() as tailer:
                waiting.set()
                seen.append(next(iter(tailer)).value)

        thread = threading.Thread(target=tail, daemon=True)
        thread.start()
        assert waiting.wait(30)
        with EngineClient(server.port) as client:
            client.rest(0.3)
            client.send(client.sender("q"), data)
            thread.join(30)
            assert seen == [data]


def test_entries_of_others_are_no_messages(tmp_path: Path) -> None:
    csp_port = free_port()
    store = tmp_path / "store"
    with (
        running_server(tmp_path, store=store, csp_port=csp_port),
        Queue(f"csp://127.0.0.1:{csp_port}/q") as queue,
        queue.appender() as appender,
    ):
        appender.submit("{ price: 7 }")
    with running_server(tmp_path, store=store) as server, EngineClient(server.port) as client:
        receiver = client.receiver("q")
        client.rest(0.3)
        assert receiver.current is None
