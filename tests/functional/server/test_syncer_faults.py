"""A call that fails on the way to a sync: nothing was synced wrongly, so nothing is broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from proton import Delivery
from support.durable_client import DurableClient, LostError, encoded
from support.faults import Faults, Kind
from support.preload import compile_preload
from support.server import Server, running_server

from quiver_fast.queuefile.appender import Appender

QUEUE = "q"
NTH_CALL = Path(__file__).parents[2] / "faults" / "nth_call.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_preload(NTH_CALL, tmp_path_factory.mktemp("faults"))


@contextmanager
def faulty_server(folder: Path, library: Path) -> Iterator[tuple[Server, Faults]]:
    """Run a server under `group` whose queue has its file, and calls of which may fail."""
    folder.mkdir(exist_ok=True)
    faults = Faults(folder, library)
    Appender(folder / "store" / QUEUE).close()
    running = running_server(
        folder, environment=faults.environment, store=folder / "store", durability="group",
        path=QUEUE,
    )  # fmt: skip
    with running as server:
        yield server, faults
        # Its lines about a failed call are not judged here.
        server.kill()
    faults.close()


def outcome(port: int, number: int) -> int:
    """Send a durable message on a new connection; return its outcome, 0 for none."""
    try:
        with DurableClient(port) as client:
            return int(client.outcome(client.send(client.sender(QUEUE), encoded(number))))
    except LostError:
        return 0


def test_no_descriptor_is_needed(tmp_path: Path, library: Path) -> None:
    """Each call that makes one fails: messages are synced and accepted, and none is leaked."""
    with faulty_server(tmp_path, library) as (server, faults), DurableClient(server.port) as client:
        sender = client.sender(QUEUE)
        assert client.outcome(client.send(sender, encoded(0))) == Delivery.ACCEPTED
        before = server.process.num_fds()
        faults.arm(Kind.OPEN, 1, lasting=True)
        for number in range(1, 50):
            assert client.outcome(client.send(sender, encoded(number))) == Delivery.ACCEPTED
        faults.disarm()
        assert server.process.num_fds() == before
    running = running_server(tmp_path, store=tmp_path / "store")
    with running as again, DurableClient(again.port) as client:
        assert client.drain(QUEUE) == list(range(50))


def test_memory_fails_before_a_sync(tmp_path: Path, library: Path) -> None:
    """Whichever call for memory it is: the next message is accepted, the queue is not broken."""
    with faulty_server(tmp_path / "count", library) as (server, faults):
        faults.arm(Kind.MEMORY, 0)
        assert outcome(server.port, 1) == Delivery.ACCEPTED
        calls = faults.seen
        faults.disarm()
    print(f"{calls} calls for memory")
    for number in range(1, calls + 1):
        with faulty_server(tmp_path / f"server{number}", library) as (server, faults):
            faults.arm(Kind.MEMORY, number)
            outcome(server.port, 1)
            faults.disarm()
            assert outcome(server.port, 2) == Delivery.ACCEPTED, number
