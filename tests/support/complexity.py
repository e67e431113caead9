"""The cost of an operation for a server, done N times and 4 N times.

A `Bench` runs one server in a process of its own, a bystander in another, and drives the
operation from here. Costs are those of the server's CPU, in nanoseconds of its threads,
so that they do not depend on other work on the machine.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from support.floods import WAIT_SECONDS, Flood, TextFlood
from support.processes import free_port
from support.server import running_server
from support.watcher import cpu_seconds

MIB = 1 << 20
# A server that does less than this share of the time is idle: timers may fire.
QUIET_SECONDS, QUIET_SHARE = 0.05, 0.02
IDLE_TIMES = 20
# Runs of N; an operation that takes less CPU than this in total is run more often.
ROUNDS, MOST_ROUNDS, ENOUGH_SECONDS = 2, 6, 0.02
# Runs more of both before a ratio that is near the limit is believed.
AGAIN, NEAR = 3, 4.8

# Four times as many cost four times as much, and a half more for caches and noise.
RATIO = 6.0
# A bystander's longest round trip but for one in a thousand, in ms of the server's CPU.
TRIP = 50.0
# Share of a core that a server uses when it only holds something.
IDLE = 0.01
# Memory that is kept for later objects, and by the allocator and Python.
KEPT = 24 * MIB
TO_IDLE_SECONDS = 5.0


class Watch:
    """A bystander in a process of its own (support.watcher), which times its round trips."""

    def __init__(self, port: int, pid: int) -> None:
        words = [sys.executable, "-m", "support.watcher", str(port), str(pid)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parent.parent,
        )  # fmt: skip
        assert self.read() == "watching\n"

    def read(self) -> str:
        """Return the next line; its end means that something was wrong."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the bystander noticed"
        return line

    def start(self) -> None:
        """Have it begin, and wait until it has."""
        self.tell()
        assert self.read() == "begun\n"

    def stop(self) -> list[tuple[float, float]]:
        """Have it stop; return its round trips: milliseconds, and those of CPU."""
        self.tell()
        found = []
        while (line := self.read()) != ".\n":
            wall, cpu = line.split()
            found.append((float(wall), float(cpu)))
        return found

    def tell(self) -> None:
        """Write it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """End it."""
        self.process.communicate("", timeout=WAIT_SECONDS)
        assert self.process.returncode == 0, "the bystander noticed"


@dataclass
class Bench:
    """The server's process, and the clients of the measured operation.

    Attributes:
        pid: of the process.
        port: its port for AMQP.
        csp_port: its port for the queue protocol.
        watch: its bystander, or None.
        runs: number of runs of operations so far, which makes names unique.
    """

    pid: int
    port: int = 0
    csp_port: int = 0
    watch: Watch | None = None
    runs: int = 0
    clients: list[Any] = field(default_factory=list)

    def fresh(self, name: str) -> str:
        """Return an address that no earlier run has used."""
        return f"{name}-{self.runs}"

    def cpu(self) -> float:
        """Return the seconds of CPU that the server has used."""
        return cpu_seconds(self.pid)

    def memory(self) -> int:
        """Return the server's resident memory, in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def client(self, **how: Any) -> Flood:
        """Return a client with a session, which `close` closes."""
        client = Flood(self.port)
        self.clients.append(client)
        return client.start(**how)

    def text_client(self) -> TextFlood:
        """Return a client of the queue protocol."""
        client = TextFlood(self.csp_port)
        self.clients.append(client)
        return client

    def now(self) -> float:
        """Return the time by a clock that only goes forward."""
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def wait_until_quiet(self, seconds: float = WAIT_SECONDS) -> float:
        """Wait until the server is idle; return when that began."""
        deadline = self.now() + seconds
        while True:
            began, before = self.now(), self.cpu()
            self.rest(QUIET_SECONDS)
            if self.cpu() - before < QUIET_SECONDS * QUIET_SHARE:
                return began
            if began > deadline:
                raise TimeoutError("the server is never idle")

    def idle_share(self) -> float:
        """Return the share of a core that the server uses: the least of several short times.

        Work that it does once, such as freeing memory, is not in all of them.
        """
        least = 1.0
        for _ in range(IDLE_TIMES):
            began, cpu = self.now(), self.cpu()
            self.rest(QUIET_SECONDS)
            least = min(least, (self.cpu() - cpu) / (self.now() - began))
            if least <= IDLE:
                break
        return least

    def close(self) -> None:
        """Cut the operation's connections."""
        for client in self.clients:
            client.socket.close()
        self.clients.clear()


class Operation(NamedTuple):
    """Something that a client can repeat.

    Attributes:
        name: its name in the table.
        run: does it so many times, and returns when the server has finished.
        count: N in the short form.
        scale: the factor of N in the long form; 1 if a limit of the server is near.
        keys: of the server.
        waits: whether the server's work after `run` counts too.
        leaves: messages stay behind, so that the server is used for nothing else.
    """

    name: str
    run: Callable[[Bench, int], None]
    count: int
    scale: int = 8
    keys: dict[str, object] | None = None
    waits: bool = False
    leaves: bool = False


class Limited(NamedTuple):
    """A figure of an operation's cost, and its limit."""

    name: str
    value: float
    at_most: float
    unit: str = ""


class Cost(NamedTuple):
    """The cost of an operation.

    Attributes:
        small, large: seconds of the server's CPU, for N and for 4 N: the least of several.
        larger: those for 16 N if the other two left a doubt; else 0.
        idle: share of a core of the idle server that still held everything.
        trips: the bystander's round trips: milliseconds, and those of the server's CPU.
        kept: growth of the server's memory in bytes at the end.
        peak: growth of its memory in bytes while it held everything.
        to_idle: seconds from the clients' end to an idle server.
    """

    small: float
    large: float
    idle: float
    trips: list[tuple[float, float]]
    kept: int
    peak: int
    to_idle: float
    larger: float = 0.0

    @property
    def ratio(self) -> float:
        """The cost of 4 N divided by that of N.

        If N just fits into the caches it costs less than its share. A cost that grows with N also
        grows from 4 N to 16 N, and more.
        """
        ratio = self.large / self.small
        return min(ratio, self.larger / self.large) if self.larger else ratio

    def worst(self, which: int) -> float:
        """Return the longest round trip but for one in a thousand: of the clock 0, of CPU 1."""
        return longest(self.trips, which)

    def figures(self) -> list[Limited]:
        """Return its judged figures."""
        return [
            Limited("cost of 4 N / cost of N", self.ratio, RATIO),
            Limited("a bystander's wait, of CPU", self.worst(1), TRIP, "ms"),
            Limited("share of a core for nothing", self.idle, IDLE),
            Limited("bytes that are kept", self.kept, may_keep(self.peak), "B"),
            Limited("time until it rests", self.to_idle, TO_IDLE_SECONDS, "s"),
        ]

    def faults(self) -> list[str]:
        """Return the names of the figures that are beyond their limits."""
        return [each.name for each in self.figures() if each.value > each.at_most]


def longest(trips: list[tuple[float, float]], which: int) -> float:
    """Return the longest round trip but for one in a thousand: of the clock 0, of CPU 1."""
    ordered = sorted(trip[which] for trip in trips)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.999))] if ordered else 0.0


def may_keep(peak: int) -> int:
    """Return how many of so many bytes may stay, for later objects and for the allocator."""
    return max(KEPT, peak // 4)


@contextlib.contextmanager
def serving(directory: Path, keys: dict[str, object] | None) -> Iterator[Bench]:
    """Run a server for operations, and its bystander."""
    # Clients that are held, and a bystander between two runs, send no heartbeats.
    keys = {"queue_limit": 4096 * MIB, "idle_timeout": 600, **(keys or {})}
    if keys.get("store") is True:
        keys["store"] = directory / "store"
    if keys.get("csp_port") is True:
        keys["csp_port"] = free_port()
    with running_server(directory, end_seconds=60, trunks="*", **keys) as server:
        watch = Watch(server.port, server.running.process.pid)
        csp_port = int(str(keys.get("csp_port", 0)))
        try:
            yield Bench(server.running.process.pid, server.port, csp_port, watch)
        finally:
            watch.close()


class Servers:
    """Servers for operations one after the other; operations with equal keys share one.

    Args:
        folder: returns a new one for each.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        self.folder = folder
        self.running: dict[str, tuple[Bench, contextlib.ExitStack]] = {}

    @contextlib.contextmanager
    def use(self, operation: Operation) -> Iterator[Bench]:
        """Give an operation its server, which ends if messages are left there or it failed."""
        keys = repr(operation.keys)
        if keys not in self.running:
            stack = contextlib.ExitStack()
            bench = stack.enter_context(serving(self.folder(), operation.keys))
            self.running[keys] = bench, stack
        good = False
        try:
            yield self.running[keys][0]
            good = not operation.leaves
        finally:
            if not good:
                self.running.pop(keys)[1].close()

    def close(self) -> None:
        """End what still runs."""
        for _, stack in self.running.values():
            stack.close()
        self.running.clear()


def cost_of(bench: Bench, operation: Operation, count: int) -> float:
    """Return the seconds of CPU of one run."""
    bench.runs += 1
    before = bench.cpu()
    operation.run(bench, count)
    if operation.waits:
        bench.wait_until_quiet()
    return bench.cpu() - before


def least(bench: Bench, operation: Operation, count: int, rounds: int) -> float:
    """Return the least cost of some runs, each with new clients; cheap ones run more often.

    Other work takes caches and time away, so it makes single runs more expensive, never cheaper.
    A cost that grows with N is in each of them.
    """
    costs: list[float] = []
    while len(costs) < rounds or (len(costs) < MOST_ROUNDS and sum(costs) < ENOUGH_SECONDS):
        bench.close()
        bench.wait_until_quiet()
        costs.append(cost_of(bench, operation, count))
    return min(costs)


def watched(
    bench: Bench, operation: Operation, count: int
) -> tuple[float, list[tuple[float, float]]]:
    """Return the cost of a run, and the round trips of its bystander, if there is one."""
    if bench.watch is None:
        return cost_of(bench, operation, count), []
    bench.watch.start()
    cost = cost_of(bench, operation, count)
    return cost, bench.watch.stop()


def measure(bench: Bench, operation: Operation, count: int) -> Cost:
    """Run an operation ``count`` times and four times that, on one server."""
    small = least(bench, operation, count, ROUNDS)
    bench.close()
    bench.wait_until_quiet()
    before = bench.memory()
    large, trips = watched(bench, operation, 4 * count)
    bench.wait_until_quiet()
    peak = bench.memory() - before
    idle = bench.idle_share()
    began = bench.now()
    bench.close()
    to_idle = max(bench.wait_until_quiet() - began, 0.0)
    # The server returns memory when it was unused for half a second.
    deadline = bench.now() + 2
    while bench.memory() - before > may_keep(peak) and bench.now() < deadline:
        bench.rest(0.1)
    # Messages in queues are meant to be there.
    kept = 0 if operation.leaves else bench.memory() - before
    for _ in range(AGAIN):
        if large / small <= NEAR:
            break
        small = min(small, least(bench, operation, count, 1))
        large = min(large, least(bench, operation, 4 * count, 1))
    for _ in range(AGAIN):
        if longest(trips, 1) <= TRIP:
            break
        # A bystander without a core did not wait for the server. If it has to wait for the
        # server, it waits in each run.
        bench.close()
        bench.wait_until_quiet()
        trips = min(
            trips, watched(bench, operation, 4 * count)[1], key=lambda each: longest(each, 1)
        )
    larger = 0.0
    if large / small > RATIO and operation.scale > 1:
        larger = larger_cost(bench, operation, 16 * count, NEAR * large)
    bench.close()
    return Cost(small, large, idle, trips, kept, peak, to_idle, larger)


def larger_cost(bench: Bench, operation: Operation, count: int, good: float) -> float:
    """Return the least cost of a few runs, fewer when one is ``good`` already."""
    cost = least(bench, operation, count, 1)
    for _ in range(AGAIN):
        if cost <= good:
            break
        cost = min(cost, least(bench, operation, count, 1))
    return cost
