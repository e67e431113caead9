"""The frame of `quiver --churn` and `--hold`: the target, one run, and its cost."""

from __future__ import annotations

import argparse
import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psutil

from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.model.ranks import BENCH_KEYS
from quiver_fast.arguments import endpoint
from quiver_fast.arrow.amqp.ends import allow_files
from quiver_fast.arrow.contract import parse
from quiver_fast.arrow.main import make_connection, security_of
from quiver_fast.arrow.run.control import Control
from quiver_fast.cli.arrow.plan import ArrowOptions, ArrowPlan, contract_arguments, new_id
from quiver_fast.cli.arrow.queue_setup import QueueOptions, QueueSetup
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import exit_code
from quiver_fast.cli.pair.run_set import remove_set
from quiver_fast.cli.shared.common import report_error
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.implementations import DEFAULT_IMPLEMENTATION, find_arrow
from quiver_fast.cli.shared.output import make_output_dir, write_json
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK, UsageError
from quiver_fast.process import Usage
from quiver_fast.schemas import marked

if TYPE_CHECKING:
    import socket

    from quiver_fast.arrow.amqp.connection import Connection
    from quiver_fast.arrow.run.delays import DelayHistogram

# --timeout 0 means no limit, but the engine takes a number of seconds.
_FOR_EVER = 10**9


class Target:
    """A server, and connections to it as an arrow of ours makes them."""

    def __init__(self, args: argparse.Namespace, flag: str) -> None:
        """Check the options.

        Args:
            args: the options of `quiver`.
            flag: the option that messages name.

        Raises:
            UsageError: an option has a value that this run cannot have.
        """
        self.queue = QueueOptions.from_arguments(args)
        identity = new_id("send")
        url = self.queue.url(args.url, identity)
        if url.scheme == "csp":
            raise UsageError(f"{flag} needs an amqp or amqps URL")
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
    def timeout(self) -> float:
        """Seconds that an attempt may take."""
        return self.plan.options.timeout or _FOR_EVER

    def connect(self, sock: socket.socket) -> Connection:
        """Return the connection of a connected socket."""
        self._made += 1
        name = f"{self.config.id}-{self._made}"
        return make_connection(self.config, sock, self._place, name, self._security, self._control)


class ConnectingRun:
    """One run, from the queue's preparation to the report; subclasses measure."""

    name: str
    """The name of its option, document and schema: ``churn`` or ``hold``."""
    unfinished: str
    """The report of a run that a signal ended."""

    def __init__(self, command: str, args: argparse.Namespace, console: Console) -> None:
        """Prepare a run.

        Args:
            command: the name that messages begin with.
            args: the options of `quiver`, checked.
            console: where the report goes.

        Raises:
            UsageError: the target does not allow it.
        """
        self._command, self._args, self._console = command, args, console
        self._target = Target(args, f"--{self.name}")
        self._signals = SignalWatch()
        queue, plan = self._target.queue, self._target.plan
        self._queue = QueueSetup(command, queue, plan, console, self._signals)

    def run(self) -> int:
        """Measure and report; return the exit code.

        Raises:
            QuiverError: the host does not resolve, the queue cannot be prepared, or the system
                allows fewer connections.
        """
        directory = make_output_dir(self._args.output)
        self._console.note(f"Saving output files to '{directory}'")
        remove_set(directory)
        allow_files(self._connections())
        with self._signals:
            self._queue.prepare()
            with closing(self._queue):
                measured = self._measure()
        document = marked(self.name, {
            "output_dir": str(directory),
            "workload": self._args.workload,
            "target": self._target.plan.url.shown,
            **measured,
            "reason": self._signals.reason,
            "environment": environment(),
        })  # fmt: skip
        write_json(directory / f"{self.name}.json", document)
        self._console.document(document)
        self._console.show(self._text(document).rstrip("\n"))
        problems = [*self._problems(document)]
        for problem in problems:
            report_error(self._command, problem)
        ended = exit_code(self._command, self._signals, self.unfinished, None)
        return ended or (EXIT_FAILURE if problems else EXIT_OK)

    def _connections(self) -> int:
        """Return how many connections are open at a time."""
        raise NotImplementedError

    def _measure(self) -> dict[str, Any]:
        """Return the keys of the document that are the run's own."""
        raise NotImplementedError

    def _problems(self, document: dict[str, Any]) -> Iterator[str]:
        """Yield the failures of the run, a line each."""
        raise NotImplementedError

    def _text(self, document: dict[str, Any]) -> str:
        """Return the printed report."""
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


def latency_of(found: DelayHistogram) -> dict[str, Any] | None:
    """Return the percentiles of latencies in microseconds; None without any."""
    if not found.total:
        return None
    figures = {key: found.percentile(rank) / 1000 for key, rank in BENCH_KEYS.items()}
    return {"count": found.total, **figures}
