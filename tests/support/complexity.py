"""What an operation costs a server when it is done N times, and when 4 N times.

A `Bench` runs one server in a process of its own, a bystander in another, and drives the
operation from here. Costs are those of the server's CPU, in nanoseconds of its threads,
so that they do not depend on what else the machine does.
"""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from support.amqp_frames import FrameClient, composite, decode_frame, encode_frame
from support.processes import free_port
from support.remote import END_OF_STREAM
from support.server import Server, running_server
from support.watcher import cpu_seconds

__all__ = ["MIB", "Bench", "Cost", "Flood", "Operation", "TextFlood", "measure"]

MIB = 1 << 20
# Descriptors of performatives, part 2.7.
NAMES = {
    0x10: "open", 0x11: "begin", 0x12: "attach", 0x13: "flow", 0x14: "transfer",
    0x15: "disposition", 0x16: "detach", 0x17: "end", 0x18: "close",
}  # fmt: skip
DISPOSITION, TRANSFER, FLOW = 0x15, 0x14, 0x13
READ_SIZE = 1 << 18
ECHO_HANDLE = 9
WAIT_SECONDS = 100.0
# A server that does less than this share of the time is idle: timers may fire.
QUIET_SECONDS, QUIET_SHARE = 0.1, 0.02


class Flood(FrameClient):
    """A client that sends very many frames, and counts what it is answered.

    Attributes:
        seen: how many frames of each performative have come.
        settled: deliveries that dispositions have told of.
        frames: those that came, as bytes, of the performatives in `kept`.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port, timeout=WAIT_SECONDS)
        self.seen: Counter[str] = Counter()
        self.settled = 0
        self.kept: set[str] = set()
        self.frames: list[bytes] = []
        self.input = b""
        self.ended = False
        self.last = b""

    def start(self, *, sessions: int = 1, window: int = 2**31 - 1, **opened: Any) -> Flood:
        """Open the connection and begin sessions with a window that never ends."""
        self.open(**opened)
        for channel in range(sessions):
            self.begin(channel=channel, incoming_window=window, outgoing_window=window)
        return self

    def take(self, data: bytes) -> None:
        """Count the frames in what came."""
        data = self.input + data
        at, end = 0, len(data)
        while end - at >= 8:
            size = int.from_bytes(data[at : at + 4], "big")
            if end - at < size:
                break
            if size > 10:
                code = data[at + 10]
                name = NAMES.get(code, "other")
                self.seen[name] += 1
                if code == DISPOSITION:
                    told = decode_frame(data[at : at + size]).fields
                    self.settled += told.get("last", told["first"]) - told["first"] + 1
                if name == "close":
                    self.last = bytes(data[at : at + size])
                if name in self.kept:
                    self.frames.append(data[at : at + size])
            at += size
        self.input = data[at:]

    def pump(self, data: bytes, until: Callable[[], bool] = lambda: True) -> None:
        """Send all of ``data`` and read meanwhile, and then until a condition holds.

        Raises:
            TimeoutError: it never does.
        """
        self.socket.setblocking(False)
        view, deadline = memoryview(data), time.monotonic() + WAIT_SECONDS
        try:
            while view or not until():
                if self.ended:
                    raise EOFError(f"the server closed: {self.last!r}")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"saw {dict(self.seen)}, {self.settled} settled")
                wanted = [self.socket] if view else []
                readable, writable, _ = select.select([self.socket], wanted, [], 1.0)
                if readable:
                    self.read_some()
                if writable and not self.ended:
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        view = view[self.socket.send(view[:READ_SIZE]) :]
        finally:
            self.socket.settimeout(WAIT_SECONDS)

    def read_some(self) -> None:
        """Take what has come, if anything has."""
        try:
            data = self.socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        self.ended |= not data
        self.take(data)

    def pour(self, data: bytes, seconds: float = 3.0) -> int:
        """Send without ever reading, for as long as anything is taken; return how much was."""
        self.socket.setblocking(False)
        view, deadline = memoryview(data), time.monotonic() + seconds
        while view and time.monotonic() < deadline:
            if not select.select([], [self.socket], [], 0.5)[1]:
                break
            try:
                view = view[self.socket.send(view[:READ_SIZE]) :]
            except BlockingIOError:
                continue
            except ConnectionError:
                break
        self.socket.settimeout(WAIT_SECONDS)
        return len(data) - len(view)

    def echo(self) -> None:
        """Wait until all that was sent has been taken: the server answers in order."""
        before = self.seen["detach"]
        attach = encode_frame(
            "attach", name="echo", handle=ECHO_HANDLE, role=False, initial_delivery_count=0,
            source=composite("source"), target=composite("target"),
        )  # fmt: skip
        detach = encode_frame("detach", handle=ECHO_HANDLE, closed=True)
        self.pump(attach + detach, lambda: self.seen["detach"] > before)


class TextFlood:
    """A client of the queue protocol that sends much, and counts the bytes of its answers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        self.received = 0
        self.tail = b""

    def pump(self, data: bytes, until: bytes) -> None:
        """Send all and read until an answer holds ``until``."""
        self.socket.setblocking(False)
        view, deadline = memoryview(data), time.monotonic() + WAIT_SECONDS
        while until not in self.tail:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{until!r} did not come, {self.tail[-200:]!r} did")
            wanted = [self.socket] if view else []
            readable, writable, _ = select.select([self.socket], wanted, [], 1.0)
            if readable:
                found = self.socket.recv(READ_SIZE)
                if not found:
                    raise EOFError(f"the server closed: {self.tail[-200:]!r}")
                self.received += len(found)
                self.tail = (self.tail + found)[-4096:]
            if writable:
                with contextlib.suppress(BlockingIOError):
                    view = view[self.socket.send(view[:READ_SIZE]) :]
        self.socket.settimeout(WAIT_SECONDS)
        self.tail = b""

    def close(self) -> None:
        """Say that no more comes, and go."""
        with contextlib.suppress(OSError):
            self.socket.sendall(END_OF_STREAM)
        self.socket.close()


@dataclass
class Bench:
    """One server, and the clients of the operation that is being measured."""

    server: Server
    csp_port: int = 0
    clients: list[Any] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The server's process."""
        return self.server.running.process.pid

    def cpu(self) -> float:
        """Return the seconds of CPU that the server has used."""
        return cpu_seconds(self.pid)

    def memory(self) -> int:
        """Return the server's resident memory, in bytes."""
        return int(self.server.process.memory_info().rss)

    def client(self, **how: Any) -> Flood:
        """Return a client with a session, which `close` closes."""
        client = Flood(self.server.port)
        self.clients.append(client)
        return client.start(**how)

    def text_client(self) -> TextFlood:
        """Return a client of the queue protocol."""
        client = TextFlood(self.csp_port)
        self.clients.append(client)
        return client

    def wait_until_quiet(self, seconds: float = WAIT_SECONDS) -> float:
        """Wait until the server does next to nothing; return when that began (monotonic)."""
        deadline = time.monotonic() + seconds
        while True:
            began, before = time.monotonic(), self.cpu()
            time.sleep(QUIET_SECONDS)
            if self.cpu() - before < QUIET_SECONDS * QUIET_SHARE:
                return began
            if began > deadline:
                raise TimeoutError("the server is never idle")

    def close(self) -> None:
        """Cut the operation's connections."""
        for client in self.clients:
            client.socket.close()
        self.clients.clear()


class Operation(NamedTuple):
    """Something that a client can repeat.

    Attributes:
        name: what the table calls it.
        run: does it so many times, and returns when the server has done all of it.
        count: N in the short form.
        scale: how many times N the long form does.
        keys: of the server.
        waits: whether what the server does after `run` belongs to it as well.
        stays: whether the server has to keep what it made, when its clients are gone.
    """

    name: str
    run: Callable[[Bench, int], None]
    count: int
    scale: int = 8
    keys: dict[str, object] | None = None
    waits: bool = False
    stays: bool = False


class Cost(NamedTuple):
    """What it cost.

    Attributes:
        small, large: seconds of the server's CPU, for N and for 4 N.
        idle: share of a core that the server used when all was done and still held.
        trips: the bystander's round trips: milliseconds, and those of the server's CPU.
        kept: bytes of memory that the server had more when all was over.
        peak: bytes that it had more while it was held.
        to_idle: seconds from the clients' end to an idle server.
    """

    small: float
    large: float
    idle: float
    trips: list[tuple[float, float]]
    kept: int
    peak: int
    to_idle: float

    @property
    def ratio(self) -> float:
        """How many times more 4 N cost."""
        return self.large / self.small

    def worst(self, which: int) -> float:
        """Return the longest round trip but for one in a thousand: of the clock 0, of CPU 1."""
        ordered = sorted(trip[which] for trip in self.trips)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.999))] if ordered else 0.0


@contextlib.contextmanager
def watching(bench: Bench) -> Iterator[list[tuple[float, float]]]:
    """Have a bystander watch; its round trips are there afterwards."""
    trips: list[tuple[float, float]] = []
    words = [sys.executable, "-m", "support.watcher", str(bench.server.port), str(bench.pid)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        yield trips
        said, _ = process.communicate("", timeout=WAIT_SECONDS)
        assert process.returncode == 0, "the bystander noticed"
        for line in said.splitlines():
            wall, cpu = line.split()
            trips.append((float(wall), float(cpu)))


def _do(bench: Bench, operation: Operation, count: int) -> float:
    before = bench.cpu()
    operation.run(bench, count)
    if operation.waits:
        bench.wait_until_quiet()
    return bench.cpu() - before


def measure(directory: Path, operation: Operation, count: int) -> Cost:
    """Run an operation ``count`` times and four times that, on one server."""
    keys = {"queue_limit": 4096 * MIB, **(operation.keys or {})}
    if keys.get("store") is True:
        keys["store"] = directory / "store"
    if keys.get("csp_port") is True:
        keys["csp_port"] = free_port()
    with running_server(directory, end_seconds=60, **keys) as server:
        bench = Bench(server, int(str(keys.get("csp_port", 0))))
        with watching(bench) as trips:
            small = _do(bench, operation, count)
            bench.close()
            bench.wait_until_quiet()
            before = bench.memory()
            large = _do(bench, operation, 4 * count)
            bench.wait_until_quiet()
            peak = bench.memory() - before
        began, cpu = time.monotonic(), bench.cpu()
        time.sleep(0.3)
        idle = (bench.cpu() - cpu) / (time.monotonic() - began)
        began = time.monotonic()
        bench.close()
        to_idle = max(bench.wait_until_quiet() - began, 0.0)
        # The server gives memory back when it has had no use for it for half a second.
        deadline = time.monotonic() + 2
        while bench.memory() - before > 4 * MIB and time.monotonic() < deadline:
            time.sleep(0.1)
        kept = bench.memory() - before
    return Cost(small, large, idle, trips, kept, peak, to_idle)
