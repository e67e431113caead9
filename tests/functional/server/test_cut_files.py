"""Files that another process cuts short: an error of their queue, and all others go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from proton import Delivery
from support.clients import Clients
from support.server import running_server

from quiver_fast.errors import LinkError, OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.remote.client import Queue


def cut(directory: Path, size: int) -> None:
    """Cut the files of a queue short, as nobody should."""
    for path in directory.glob("*.cq4*"):
        os.truncate(path, min(size, path.stat().st_size))


@pytest.mark.parametrize("size", [0, 4096, 66000])
@pytest.mark.parametrize("durability", ["none", "group"])
def test_a_cut_file_is_its_queues_alone(tmp_path: Path, durability: str, size: int) -> None:
    store = tmp_path / "store"
    running = running_server(
        tmp_path, says="Input/output error", store=store, durability=durability
    )
    with running as server, Clients(server.port) as clients:
        connection = clients.connect()
        cut_off, other = (clients.producer(connection, name) for name in ("cut", "other"))
        for producer in (cut_off, other):
            producer.publish("before", durable=True)
        cut(store / "cut", size)
        outcomes = [clients.outcome(cut_off.send("x" * 9000, durable=True)) for _ in range(20)]
        assert Delivery.MODIFIED in outcomes
        assert outcomes[-1] == Delivery.MODIFIED
        other.publish("after", durable=True)
        assert clients.drain_queue(connection, "other") == ["before", "after"]
        server.kill()
    # Without a head it is no queue's file any more; else recovery tells of the entries behind.
    says = {0: "put aside", 4096: "are dropped", 66000: ""}[size]
    again = running_server(tmp_path, says=says, store=store)
    with again as server, Clients(server.port) as clients:
        clients.producer(clients.connect(), "cut").publish("again", durable=True)


def test_a_cut_file_of_a_remote_queue(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with running_server(tmp_path, scheme="csp", store=store, path="cut") as server:
        url = f"csp://127.0.0.1:{server.port}"
        with Queue(f"{url}/cut") as queue, queue.appender() as appender, queue.tailer() as tailer:
            index = appender.submit("before")
            assert tailer.read()[0].index == index
            cut(store / "cut", 4096)
            with pytest.raises(LinkError, match="IOException"):
                list(appender.submit_all(["x" * 1000] * 100))
        with Queue(f"{url}/other") as queue, queue.appender() as appender:
            appender.submit("served")
        server.kill()


def test_a_writer_and_a_reader_of_a_cut_file(tmp_path: Path) -> None:
    with Appender(tmp_path) as appender:
        append_records(appender, b"x" * 1_000_000, 1000)
        tailer, late = Tailer(tmp_path), Tailer(tmp_path)
        assert late.skip(900) == 900
        cut(tmp_path, 69632)
        with pytest.raises(OutputError, match="Input/output error"):
            tailer.skip(1000)
        with pytest.raises(OutputError, match="Input/output error"):
            late.skip(1)
        with pytest.raises(OutputError, match="Input/output error"):
            append_records(appender, b"x" * 1_000_000, 1000)
        with pytest.raises(OutputError, match="Input/output error"):
            appender.append_text("x")
        with pytest.raises(OutputError):
            appender.close()
    # The next start repairs the rest.
    with Appender(tmp_path) as appender:
        index = appender.append_text("again")
    tailer = Tailer(tmp_path)
    tailer.move_to(index)
    assert tailer.read() == (index, b"again")
