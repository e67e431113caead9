"""One run of a pair: a sender and a receiver, against each other or through a server."""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quiver_fast.analysis.bounds import RunBounds
from quiver_fast.analysis.local import PairAnalysis
from quiver_fast.cli.console import Console
from quiver_fast.cli.implementations import find_arrow
from quiver_fast.cli.plan import ArrowOptions, ArrowPlan, new_id
from quiver_fast.cli.run import ArrowRun
from quiver_fast.cli.snapshots import Snapshot, now_ms
from quiver_fast.cli.supervisor import SignalWatch, SnapshotCallback, Supervisor
from quiver_fast.cli.table import ROWS_PER_HEADING, heading, table_row
from quiver_fast.cli.url import parse_url
from quiver_fast.cli.verdict import failure
from quiver_fast.engine.sockets import free_port
from quiver_fast.errors import UsageError

__all__ = ["ROLES", "PairPlans", "PairRun"]

ROLES = ("sender", "receiver")

_PORT_ATTEMPTS = 5
_LISTEN_PATIENCE = 30.0
_LISTEN_TICK = 0.01


class PairPlans:
    """The checked plans of both arrows; peer-to-peer ones can be made for several ports."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Check what is asked for.

        Args:
            args: the options of :func:`quiver_fast.cli.common.add_arrow_options` and
                ``add_tls_options``, and ``url`` (None for peer-to-peer), ``impl``, ``sender``,
                ``receiver`` and ``verbose``.

        Raises:
            UsageError: an implementation is not there, or cannot do it.
        """
        self._args = args
        self._implementations = {
            "send": find_arrow(args.sender or args.impl),
            "receive": find_arrow(args.receiver or args.impl),
        }
        both_extended = all(impl.extensions for impl in self._implementations.values())
        self.peer_to_peer: bool = args.url is None
        if self.peer_to_peer and args.transaction_size:
            raise UsageError("--transaction-size needs a URL: only servers coordinate transactions")
        # An arrow without extensions does not send the id, and would be refused.
        self.run_id = secrets.token_hex(8) if both_extended else None
        self._ids = {operation: new_id(operation) for operation in self._implementations}
        plans = [self.plan(operation) for operation in self._implementations]
        self.time_unit = plans[0].options.time_unit or "ms"

    def plan(self, operation: str, port: int = 0) -> ArrowPlan:
        """Return the plan of one arrow; ``port`` is for peer-to-peer runs."""
        args = self._args
        url = parse_url(args.url or f"amqp://localhost:{port}/quiver")
        listening = self.peer_to_peer and operation == "receive"
        return ArrowPlan(
            operation=operation,
            implementation=self._implementations[operation],
            url=url,
            options=ArrowOptions.from_arguments(args, url),
            id=self._ids[operation],
            server=listening,
            passive=listening,
            run_id=self.run_id,
            verbose=args.verbose,
        )


class PairRun:
    """One run of a pair, from the start of the receiver to the printed summary."""

    def __init__(
        self,
        plans: PairPlans,
        output_dir: Path,
        console: Console,
        signals: SignalWatch,
        on_snapshot: SnapshotCallback = lambda _snapshots: None,
    ) -> None:
        """Prepare a run.

        Args:
            plans: what the arrows are to do.
            output_dir: where the files of both go.
            console: where the table, the notes and the arrows' own errors go.
            signals: the watch on signals, entered.
            on_snapshot: called besides the table, as :class:`Supervisor` does.
        """
        self._plans = plans
        self._output_dir = output_dir
        self._console = console
        self._table = _Table(console.show, plans.time_unit)
        self._signals = signals
        self._on_snapshot = on_snapshot
        self._supervisor = Supervisor(signals, self._take)
        self._runs: list[ArrowRun] = []

    def run(self) -> None:
        """Run the pair until both arrows have ended.

        Raises:
            QuiverError: an arrow cannot be started.
        """
        self._console.note(f"Saving output files to '{self._output_dir}'")
        try:
            self._start()
            self._supervisor.watch(self._runs)
        finally:
            for run in self._runs:
                run.close()

    def _take(self, snapshots: dict[str, Snapshot]) -> None:
        self._table.add(snapshots)
        self._on_snapshot(snapshots)

    def _start(self) -> None:
        if not self._plans.peer_to_peer:
            self._start_arrow("receive")
            self._start_arrow("send")
            return
        port = self._start_listener()
        if port is not None:
            self._start_arrow("send", port)

    def _start_arrow(self, operation: str, port: int = 0) -> ArrowRun:
        run = ArrowRun(self._plans.plan(operation, port), self._output_dir, self._console.errors)
        self._runs.append(run)
        run.start()
        self._console.note(f"Started the {run.plan.role} ({run.plan.implementation.name})")
        return run

    def _start_listener(self) -> int | None:
        """Start the receiver on a free port and return the port once it listens there.

        Between our finding of a free port and the receiver's taking of it another process
        may take it: then the next one is tried. None if the receiver ended or must end.
        """
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            port = free_port()
            receiver = self._start_arrow("receive", port)
            if self._wait_for_listener(receiver, port):
                return port
            in_use = "in use" in receiver.child.last_error_line.lower()
            if not in_use or attempt == _PORT_ATTEMPTS:
                return None
            self._console.note(f"Port {port} is in use; trying another")
            receiver.close()
            self._runs.remove(receiver)
        return None

    def _wait_for_listener(self, receiver: ArrowRun, port: int) -> bool:
        # Connecting to the port to see would be taken for the one sender that it waits for.
        deadline = time.monotonic() + _LISTEN_PATIENCE
        while not receiver.poll():
            self._supervisor.forwarder.forward([receiver])
            if receiver.child.listens_on(port):
                return not self._signals.count
            if time.monotonic() > deadline:
                reason = f"not listening on port {port} after {_LISTEN_PATIENCE:.0f} seconds"
                receiver.stop(reason, at_fault=True)
            time.sleep(_LISTEN_TICK)
        return False

    def analyse(self) -> dict[str, Any]:
        """Summarise and save both ends, and return the document of the whole run.

        Keys: ``peer_to_peer``, ``run_id``, ``output_dir``, ``complete``, ``reason``,
        ``results``, ``delivery``, ``drain``, ``queue_growth``, ``cpu_ms`` by role, and the
        summaries ``sender`` and ``receiver``, None for one that was not started.

        Raises:
            RecordError: the records are not those of an arrow.
        """
        summaries = {}
        sender, both = None, None
        outlines = {run.plan.role: run.outline() for run in self._runs}
        bounds = RunBounds.of(*(outlines.get(role) for role in ROLES))
        # The receiver's records are compared with the sender's as they are read.
        for run in sorted(self._runs, key=lambda run: run.plan.role, reverse=True):
            summaries[run.plan.role] = run.analyse(not self._console.progress, sender, bounds)
            sender, both = run.records, run.both
        for run in self._runs:
            run.save(summaries[run.plan.role], not self._console.progress)
        return self._document(summaries, both)

    def _document(
        self, summaries: dict[str, dict[str, Any]], both: PairAnalysis | None
    ) -> dict[str, Any]:
        sender, receiver = (summaries.get(role) for role in ROLES)
        problems = self._problems(summaries)
        nothing = dict.fromkeys(("results", "drain", "queue_growth"))
        sections = nothing if both is None else both.sections
        return {
            "peer_to_peer": self._plans.peer_to_peer,
            "run_id": self._plans.run_id,
            "output_dir": str(self._output_dir),
            "complete": not problems and not self._signals.count,
            "reason": self._signals.reason or "; ".join(problems) or None,
            "results": sections["results"],
            "delivery": None if both is None else both.delivery,
            "drain": sections["drain"],
            "queue_growth": sections["queue_growth"],
            "cpu_ms": {run.plan.role: run.child.usage.cpu_ms for run in self._runs},
            "sender": sender,
            "receiver": receiver,
        }

    def _problems(self, summaries: dict[str, dict[str, Any]]) -> list[str]:
        """Return a line for each arrow that failed by itself."""
        problems = []
        for run in self._runs:
            problem = failure(run, summaries[run.plan.role])
            ending = run.ending()
            if problem is not None and (ending.at_fault or ending.complete):
                problems.append(problem)
        return problems


class _Table:
    """Prints the live table, one row for each snapshot of the receiver."""

    def __init__(self, show: Callable[[str], None], unit: str) -> None:
        self._show = show
        self._unit = unit
        self._start = now_ms()
        self._sender: Snapshot | None = None
        self._rows = 0

    def add(self, snapshots: dict[str, Snapshot]) -> None:
        """Print a row, if the receiver is among ``snapshots``."""
        self._sender = snapshots.get("sender", self._sender)
        receiver = snapshots.get("receiver")
        if receiver is None:
            return
        if self._rows % ROWS_PER_HEADING == 0:
            self._show(heading(self._unit, receiver.period_bytes is not None))
        self._show(table_row(self._start, self._unit, self._sender, receiver))
        self._sender = None
        self._rows += 1
