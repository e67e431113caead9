"""`quiver --churn` and `--hold`: connections that come and go at a rate, or stay idle."""

from __future__ import annotations

import argparse
import ipaddress
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from quiver_fast import sockets
from quiver_fast.analysis.model.ranks import BENCH_KEYS
from quiver_fast.analysis.read.set_layout import CHURN_DOCUMENT, HOLD_DOCUMENT
from quiver_fast.arguments import endpoint
from quiver_fast.arrow.amqp.attempts import STEPS
from quiver_fast.arrow.amqp.churn import MOST_PENDING, Churn
from quiver_fast.arrow.amqp.ends import allow_files
from quiver_fast.arrow.amqp.hold import Hold
from quiver_fast.arrow.contract import parse
from quiver_fast.arrow.main import address_at, make_connection, security_of
from quiver_fast.arrow.messages import make_template
from quiver_fast.arrow.run.control import Control
from quiver_fast.cli.arrow.options import ArrowOptions
from quiver_fast.cli.arrow.plan import ArrowPlan, contract_arguments, new_id
from quiver_fast.cli.arrow.queue_setup import QueueOptions, QueueSetup
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.pair.campaign import Campaign
from quiver_fast.cli.shared.common import report_error
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.implementations import DEFAULT_IMPLEMENTATION, find_arrow
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK
from quiver_fast.process import Usage
from quiver_fast.words import counted

if TYPE_CHECKING:
    import socket

    from quiver_fast.arrow.amqp.connection import Connection
    from quiver_fast.arrow.run.delays import DelayHistogram

# Each contains the next; their order is that of the steps of a hold.
_PARTS = ("connection", "session", "link")
# --timeout 0 means no limit, but the engine takes a number of seconds.
_FOR_EVER = 10**9


class Target:
    """A server, and connections to it as an arrow of ours makes them."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Check the options of `quiver`.

        Raises:
            UsageError: an option has a value that this run cannot have.
        """
        self.queue = QueueOptions.from_arguments(args)
        identity = new_id("send")
        url = self.queue.url(args.url, identity)
        self.plan = ArrowPlan(
            operation="send",
            implementation=find_arrow(DEFAULT_IMPLEMENTATION),
            url=url,
            options=ArrowOptions.from_arguments(args, url),
            id=identity,
        )
        self.config = parse(contract_arguments(self.plan))
        self.config.password = self.plan.options.password
        self._security = security_of(self.config)
        self._place = endpoint(self.config.host, self.config.port)
        self._control = Control()
        self._made = 0

    @property
    def attempt(self) -> tuple[str, int, float, Callable[[socket.socket], Connection]]:
        """Where an attempt connects, the seconds that it may take, and its connection."""
        timeout = self.plan.options.timeout or _FOR_EVER
        return self.config.host, self.config.port, timeout, self.connect

    @contextmanager
    def opened(self) -> Iterator[Connection]:
        """Open a connection, and close it at the end of the block.

        Raises:
            QuiverError: the server cannot be reached, or refuses.
        """
        host, port, timeout, connect = self.attempt
        connection = connect(sockets.connect(host, port, timeout))
        try:
            connection.open(timeout)
            yield connection
        finally:
            connection.close()

    def connect(self, sock: socket.socket) -> Connection:
        """Return the connection of a connected socket."""
        self._made += 1
        name = f"{self.config.id}-{self._made}"
        return make_connection(self.config, sock, self._place, name, self._security, self._control)


class ConnectingRun(Campaign):
    """One run, from the queue's preparation to the report; subclasses measure."""

    def __init__(self, command: str, args: argparse.Namespace, console: Console) -> None:
        """See :class:`.campaign.Campaign`."""
        super().__init__(command, args, console)
        self._target = Target(args)
        self._measured: dict[str, Any] = {}

    def measure(
        self, directory: Path, signals: SignalWatch, progress: Progress | None = None
    ) -> None:
        """See :meth:`.campaign.Campaign.measure`.

        Raises:
            QuiverError: the host does not resolve, the queue cannot be prepared, or the system
                allows fewer connections.
        """
        self._directory, self._signals = directory, signals
        self._clear(())
        allow_files(self._connections())
        target = self._target
        queue = QueueSetup(self._command, target.queue, target.plan, self._console, signals)
        queue.prepare()
        with closing(queue):
            self._measured = self._measure()

    def _document(self) -> dict[str, Any]:
        target = self._target.plan.url.shown
        return {"target": target, **self._measured, "reason": self._stopped}

    def _verdict(self, document: dict[str, Any]) -> int:
        problems = [*self.problems(document)]
        for problem in problems:
            report_error(self._command, problem)
        return EXIT_FAILURE if problems else EXIT_OK

    def _connections(self) -> int:
        """Return how many connections are open at a time."""
        raise NotImplementedError

    def _measure(self) -> dict[str, Any]:
        """Return the keys of the document that are the run's own."""
        raise NotImplementedError

    def problems(self, document: dict[str, Any]) -> Iterator[str]:
        """Yield the failures of the run, a line each."""
        raise NotImplementedError


class Process:
    """A process, with its memory and CPU time at marks in time."""

    def __init__(self, pid: int) -> None:
        """Begin with a mark."""
        self.pid = pid
        self._usage = Usage(pid)
        self.memory: list[int] = []
        """Resident bytes at each mark, with those of its children."""
        self.cpu_seconds: list[float] = []
        """CPU time from each mark to the next."""
        self._cpu_ms = 0
        self.mark()
        self.cpu_seconds.clear()

    def mark(self) -> None:
        """Note its memory and CPU time."""
        before = self._cpu_ms
        self._usage.sample()
        self._cpu_ms = self._usage.cpu_ms
        self.memory.append(self._usage.rss)
        self.cpu_seconds.append((self._cpu_ms - before) / 1000)


def server_at(address: str, port: int) -> Process | None:
    """Return the process that listens there; None if it runs elsewhere, or cannot be seen."""
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return None
    try:
        found = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        # There may be no /proc.
        return None
    listening = [one for one in found if one.status == psutil.CONN_LISTEN and one.laddr]
    pids = {one.pid for one in listening if one.laddr[1:] == (port,) and one.pid}
    return Process(pids.pop()) if len(pids) == 1 else None


def failures(reasons: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the reasons of failures and their counts, the commonest first."""
    return [{"reason": one, "count": count} for one, count in Counter(reasons).most_common()]


def _problem(text: str, found: list[dict[str, Any]]) -> str:
    """Return the text about failures with the commonest reason."""
    return f"{text}, {found[0]['count']:,} of them so: {found[0]['reason']}"


def latency_of(found: DelayHistogram) -> dict[str, Any] | None:
    """Return the percentiles of latencies in microseconds; None without any."""
    if not found.total:
        return None
    figures = {key: found.percentile(rank) / 1000 for key, rank in BENCH_KEYS.items()}
    return {"count": found.total, **figures}


class ChurnRun(ConnectingRun):
    """Opens connections, sessions or links at a rate."""

    schema, file = "churn", CHURN_DOCUMENT
    unfinished = "the churn was not over"

    def _connections(self) -> int:
        return MOST_PENDING

    def _measure(self) -> dict[str, Any]:
        target, args = self._target, self._args
        template = make_template(target.config)
        with Progress(f"churn {args.churn:,}/s", enabled=not args.quiet) as progress:

            def is_stopped() -> bool:
                progress.update(churn.due, args.churn * args.duration)
                return self._signals.count > 0

            with self._signals.raising():
                churn = Churn(
                    *target.attempt,
                    is_stopped,
                    kind=args.churn_of,
                    rate=args.churn,
                    duration=args.duration,
                    address_at=lambda connection: address_at(target.config, connection),
                    make_message=lambda: template.encode(time.time_ns() // 1_000_000),
                    name=target.config.id,
                )
            server = server_at(*churn.peer_address)
            churn.run()
        return self._counts(churn) | {"server": server and _churn_cost(server)}

    def _counts(self, churn: Churn) -> dict[str, Any]:
        """Return the counts of the engine; docs/limits.md has the keys."""
        seconds = churn.elapsed_ns / 1e9
        if not self._signals.count:
            seconds = max(seconds, self._args.duration)
        return {
            "of": self._args.churn_of,
            "rate": self._args.churn,
            "duration": self._args.duration,
            "elapsed_seconds": seconds,
            "attempts": {
                "due": churn.due,
                "begun": churn.begun,
                "succeeded": churn.succeeded,
                "failed": churn.failed,
            },
            "achieved_rate": churn.succeeded / seconds if seconds else 0.0,
            "latency": latency_of(churn.latency),
            "steps": [
                {"step": step, "latency": latency_of(found)}
                for step, found in zip(STEPS, churn.steps, strict=True)
                if found.total
            ],
            "failures": failures(churn.reasons),
        }

    def problems(self, document: dict[str, Any]) -> Iterator[str]:
        """See :meth:`ConnectingRun.problems`."""
        due, failed = document["attempts"]["due"], document["attempts"]["failed"]
        if failed:
            yield _problem(f"{failed:,} of {due:,} attempts failed", document["failures"])


def _churn_cost(server: Process) -> dict[str, Any]:
    server.mark()
    return {
        "pid": server.pid,
        "memory_begin": server.memory[0],
        "memory_end": server.memory[-1],
        "cpu_seconds": sum(server.cpu_seconds),
    }


class HoldRun(ConnectingRun):
    """Opens connections, and keeps them."""

    schema, file = "hold", HOLD_DOCUMENT
    unfinished = "the connections were not kept"

    def _connections(self) -> int:
        return int(self._args.hold)

    def _measure(self) -> dict[str, Any]:
        target, args = self._target, self._args
        with self._signals.raising():
            hold = Hold(
                *target.attempt,
                lambda: self._signals.count > 0,
                count=args.hold,
                address_at=lambda connection: address_at(target.config, connection),
                name=target.config.id,
            )
        server, own = server_at(*hold.peer_address), Process(os.getpid())
        marked_ones = [one for one in (server, own) if one]
        times, opened = [time.monotonic()], []
        try:
            for step in self._steps(hold):
                opened.append(step())
                times.append(time.monotonic())
                for one in marked_ones:
                    one.mark()
        finally:
            hold.close()
        spans = [end - begin for begin, end in pairwise(times)]
        return {
            "connections": args.hold,
            "duration": args.duration,
            "opening": {
                "seconds": spans[0],
                "opened": hold.opened,
                "failed": hold.failed,
                "latency": latency_of(hold.latency),
            },
            "holding": {"seconds": spans[-1], "lost": hold.lost},
            "parts": [
                {"of": _PARTS[at], "opened": count, "seconds": spans[at]}
                | _cost_of_part(server, at, count)
                for at, count in enumerate(opened[:-1])
            ],
            "failures": failures(hold.reasons),
            "losses": failures(hold.losses),
            "server": server and cost_of(server, hold.opened),
            "own": cost_of(own, hold.opened),
        }

    def _steps(self, hold: Hold) -> Iterator[Callable[[], int]]:
        """Yield what is done one after the other; each returns how many it opened."""

        def opened() -> int:
            hold.open()
            return hold.opened

        def kept() -> int:
            hold.keep(self._args.duration)
            return 0

        yield opened
        for name, each in zip(_PARTS[1:], (self._args.sessions, self._args.links), strict=True):
            if each:
                yield partial(hold.open_parts, name, each)
        yield kept

    def problems(self, document: dict[str, Any]) -> Iterator[str]:
        """See :meth:`ConnectingRun.problems`."""
        failed, lost = document["opening"]["failed"], document["holding"]["lost"]
        for count, word, key in ((failed, "not opened", "failures"), (lost, "lost", "losses")):
            if count:
                asked = counted(self._args.hold, "connection", ("was", "were"))
                yield _problem(f"{count:,} of {asked} {word}", document[key])


def cost_of(process: Process, connections: int) -> dict[str, Any]:
    """Return the memory and the CPU time of a process, while opening and while holding."""
    begin, opened, *_, end = process.memory
    return {
        "pid": process.pid,
        "memory_begin": begin,
        "memory_end": end,
        "memory_each": (opened - begin) / connections if connections else None,
        "cpu_opening": process.cpu_seconds[0],
        "cpu_holding": process.cpu_seconds[-1],
    }


def _cost_of_part(server: Process | None, step: int, count: int) -> dict[str, float | None]:
    """Return the memory and the CPU time of the server for each part that a step opened."""
    if server is None or not count:
        return {"memory_each": None, "cpu_each_us": None}
    grown = server.memory[step + 1] - server.memory[step]
    return {
        "memory_each": grown / count,
        "cpu_each_us": server.cpu_seconds[step] / count * 1e6,
    }
