"""Whatever was accepted, in whatever state: the next start finds it, under the same limits.

Addresses of all kinds on a small disk and with few descriptors, things of others in the
queues' folders, and ends in order or by a kill.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from proton import Delivery
from support.addresses import ADDRESSES
from support.clients import Clients
from support.server import running_server

DISK = "12m"
FOREIGN = ["20200101F.cq4", "20991231F.cq4", "note.txt", "metadata.cq4t.partial.d"]


class Store(RuleBasedStateMachine):
    """A server, its store and the messages that it accepted."""

    @initialize(
        durability=st.sampled_from(["none", "group"]), descriptors=st.sampled_from([0, 60, 100])
    )
    def begin(self, durability: str, descriptors: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="quiver-restarts-"))
        self.disk = self.directory / "disk"
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(self.disk)]
        # Where no small disk can be mounted it is a large one.
        self.mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        self.keys: dict[str, object] = {
            "store": self.disk / "store", "durability": durability, "descriptors": descriptors,
            "roll_size": 65536, "addresses": None, "path": "first",
        }  # fmt: skip
        self.accepted: dict[str, list[int]] = {}
        self.sent = 0
        self.start()

    def start(self) -> None:
        self.stack = ExitStack()
        self.server = self.stack.enter_context(
            running_server(self.directory, **self.keys)  # type: ignore[arg-type]
        )
        self.clients = self.stack.enter_context(Clients(self.server.port))
        self.connection = self.clients.connect()

    def end(self, *, kill: bool) -> None:
        if kill:
            self.server.kill()
        # In order it ends when its clients have gone: it would wait for them.
        self.stack.close()

    @rule(address=ADDRESSES, count=st.integers(1, 3), size=st.sampled_from([10, 1000, 300_000]))
    def send(self, address: str, count: int, size: int) -> None:
        # The last one is not created on demand (docs/server.md).
        if address.startswith(("topic", "dynamic-", "$")):
            return
        producer = self.clients.producer(self.connection, address)
        for _ in range(count):
            self.sent += 1
            body = b"%08d" % self.sent + b"x" * size
            delivery = producer.send(body, durable=True)
            if self.clients.outcome(delivery) == Delivery.ACCEPTED:
                self.accepted.setdefault(address, []).append(self.sent)
        producer.close()

    @precondition(lambda self: self.accepted)
    @rule(data=st.data(), name=st.sampled_from(FOREIGN))
    def put_something_beside_the_files(self, data: st.DataObject, name: str) -> None:
        tables = sorted((self.disk / "store").rglob("metadata.cq4t"))
        folder = data.draw(st.sampled_from(tables)).parent
        with contextlib.suppress(OSError):
            (folder / name).mkdir(exist_ok=True)

    @rule(count=st.integers(1, 100))
    def take_descriptors(self, count: int) -> None:
        for _ in range(count):
            self.stack.enter_context(socket.create_connection(("127.0.0.1", self.server.port)))

    @rule(kill=st.booleans())
    def restart(self, kill: bool) -> None:
        self.end(kill=kill)
        self.start()

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        try:
            self.end(kill=True)
            self.start()
            for address, numbers in self.accepted.items():
                bodies = self.clients.drain_queue(self.connection, address)
                assert [int(bytes(body[:8])) for body in bodies] == numbers, address
            self.end(kill=True)
        finally:
            self.stack.close()
            if self.mounted:
                subprocess.run(["umount", "-l", str(self.disk)], check=True)
            shutil.rmtree(self.directory, ignore_errors=True)


CHECKS = list(HealthCheck)
Store.TestCase.settings = settings(
    max_examples=2, stateful_step_count=8, deadline=None, suppress_health_check=CHECKS
)
TestShort = Store.TestCase


class LongStore(Store):
    """The same for longer."""


LongStore.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=CHECKS
)
TestLong = pytest.mark.slow(pytest.mark.timeout(3600)(LongStore.TestCase))
