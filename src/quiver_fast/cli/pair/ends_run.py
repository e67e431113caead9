"""A run of many ends: several senders and receivers, each a process, spread over queues."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.clock_step import largest_step
from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.figures.latency import latency_of
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.read.ends import EndRecords, analyse_ends
from quiver_fast.cli.arrow.queue_setup import QueueSetup
from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.arrow.supervisor import SignalWatch, SnapshotCallback
from quiver_fast.cli.arrow.verdict import judge
from quiver_fast.cli.pair.abort import Abort
from quiver_fast.cli.pair.ends_drain import Crew, QueueDrain
from quiver_fast.cli.pair.ends_plan import EndsPlans, has_ends
from quiver_fast.cli.pair.ends_watch import EndsSupervisor
from quiver_fast.cli.pair.options import measuring_parser
from quiver_fast.cli.pair.receiver_start import ReceiverStart
from quiver_fast.cli.pair.run import ROLES, PairPlans, PairRun, make_view
from quiver_fast.cli.pair.workload import workload_of
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import ArrowFiles, remove_ends
from quiver_fast.cli.shared.progress import Progress

# What a summary in a file has no need of: the file's place tells it.
_NOT_SAVED = ("name", "role", "number", "file")
# Of each end the document has no series: its summary file has.
_NOT_SHOWN = ("series", "environment")


def make_plans(args: argparse.Namespace) -> PairPlans:
    """Return the checked plans of a pair, or of many ends if that is asked for.

    Raises:
        UsageError: an implementation is not there, or cannot do it.
    """
    plans = EndsPlans(args) if has_ends(args) else PairPlans(args)
    plans.workload = workload_of(measuring_parser(), args)
    return plans


def make_run(
    plans: PairPlans,
    output_dir: Path,
    console: Console,
    signals: SignalWatch,
    on_snapshot: SnapshotCallback = lambda _snapshots: None,
) -> PairRun | EndsRun:
    """Return a run of ``plans``; the arguments are those of :class:`PairRun`."""
    if isinstance(plans, EndsPlans):
        return EndsRun(plans, output_dir, console, signals, on_snapshot)
    return PairRun(plans, output_dir, console, signals, on_snapshot)


class EndsRun:
    """One run of many ends, from the start of the receivers to the printed summary."""

    def __init__(
        self,
        plans: EndsPlans,
        output_dir: Path,
        console: Console,
        signals: SignalWatch,
        on_snapshot: SnapshotCallback,
    ) -> None:
        """Prepare a run; see :class:`PairRun`."""
        self._plans = plans
        self._output_dir = output_dir
        self._console = console
        self._signals = signals
        self._view = make_view(console, plans)
        self._on_snapshot = on_snapshot
        self._starting = ReceiverStart(self._look, lambda: bool(signals.count))
        self._supervisor = EndsSupervisor(signals, self._take, self._go_on, plans.time_unit)
        self._senders: list[ArrowRun] = []
        self._receivers: list[ArrowRun] = []
        self._begun = False
        self._abort = Abort(plans.abort_if, plans.warmup)
        self._drains: list[QueueDrain] = []
        self._interruption: str | None = None
        self._queues = [self._queue(number) for number in range(plans.queues)]
        self._data: RunData | None = None

    def _queue(self, number: int) -> QueueSetup:
        plan = self._plans.queue_plan(number)
        return QueueSetup("quiver", self._plans.queue, plan, self._console, self._signals)

    @property
    def _runs(self) -> list[ArrowRun]:
        return [*self._senders, *self._receivers]

    def run(self) -> None:
        """Run until all arrows have ended.

        Raises:
            QuiverError: a queue cannot be prepared, or an arrow cannot be started.
        """
        self._console.note(f"Saving output files to '{self._output_dir}'")
        remove_ends(self._output_dir)
        for role in ROLES:
            ArrowFiles(self._output_dir, role).remove()
        with ExitStack() as stack:
            for queue in self._queues:
                stack.enter_context(closing(queue))
            stack.enter_context(closing(self._view))
            self._view.open()
            if not self._plans.peer_to_peer:
                self._prepare_queues()
            if not self._signals.count:
                self._run_arrows()
        # A signal that comes later does not change a run that is over.
        self._interruption = self._signals.reason or self._abort.reason

    def _prepare_queues(self) -> None:
        for number, queue in enumerate(self._queues):
            queue.prepare()
            if not self._plans.both_extended:
                queue.ask_address()
            self._plans.learn_path(number, queue.path)

    def _run_arrows(self) -> None:
        try:
            if self._start():
                self._view.begin()
            self._supervisor.watch(self._runs)
        finally:
            for run in self._runs:
                run.close()

    def _take(self, snapshots: dict[str, Snapshot]) -> None:
        self._view.add(snapshots)
        self._on_snapshot(snapshots)
        self._abort.look(snapshots, self._runs)

    def _go_on(self) -> None:
        self._release()
        for drain in self._drains:
            drain.advance()
        if self._signals.count or self._abort.reason:
            self._view.state("Stopping")
        elif self._drains and not any(run.running for run in self._senders):
            self._view.state("Draining")
        self._view.tick()

    def _start(self) -> bool:
        """Start all receivers, and the senders once nothing that they send can be missed.

        Returns whether all were started; what was started is to be watched anyway.
        """
        ports = self._start_listeners() if self._plans.peer_to_peer else self._start_receivers()
        if ports is None:
            self._stop_all()
            return False
        for number, port in enumerate(ports):
            self._start_arrow("send", number, port)
        if self._plans.processes.any:
            # A process has ends at several queues.
            self._join(self._senders, self._receivers)
            return True
        for queue in range(self._plans.queues):
            self._join(*(self._at_queue(side, queue) for side in (self._senders, self._receivers)))
        return True

    def _release(self) -> None:
        """Have the senders begin, once all that run are ready: one clock for all."""
        held = [(run, run.control) for run in self._senders if run.control is not None]
        if not self._begun and all(control.is_ready() for run, control in held if run.running):
            self._begun = True
            for _, control in held:
                control.start()

    def _at_queue(self, side: Sequence[ArrowRun], queue: int) -> list[ArrowRun]:
        return [run for run in side if self._plans.queue_of(run.plan.number or 0) == queue]

    def _join(self, senders: Sequence[ArrowRun], receivers: Sequence[ArrowRun]) -> None:
        """Have the ends of one queue wait for each other."""
        crew = Crew([*senders, *receivers])
        for run in (*senders, *receivers):
            run.accompany(crew)
        self._drains.append(QueueDrain(senders, receivers, self._plans.drain_timeout))

    def _stop_all(self) -> None:
        """Stop receivers that wait for senders that will not be."""
        failed = [run for run in self._receivers if not run.running]
        why = f"stopped because {failed[0].plan.title} failed" if failed else "stopped"
        for run in self._receivers:
            run.stop(self._signals.reason or why)

    def _start_arrow(self, operation: str, number: int, port: int = 0) -> ArrowRun:
        plan = self._plans.end(operation, number, port)
        run = ArrowRun(plan, self._output_dir, self._console.errors)
        if operation == "send" and run.control is not None:
            run.control.hold()
        (self._senders if operation == "send" else self._receivers).append(run)
        self._view.state(f"Starting {plan.title}")
        run.start()
        self._console.note(f"Started {plan.title} ({plan.implementation.name})")
        return run

    def _start_receivers(self) -> list[int] | None:
        """Start the receivers of a server, and return once all are ready; None if one is not."""
        for number in range(self._plans.process_count("receive")):
            self._start_arrow("receive", number)
        for run in self._receivers:
            # A foreign one cannot say that it is ready.
            control = run.control
            if control is not None and not self._starting.wait_for(
                run, control.is_ready, "not ready"
            ):
                return None
        return [0] * self._plans.process_count("send")

    def _start_listeners(self) -> list[int] | None:
        """Start the receivers on free ports, and return these once all listen."""
        ports = []
        for number in range(self._plans.process_count("receive")):
            started = self._starting.listen(
                partial(self._start_arrow, "receive", number), self._drop
            )
            if started is None:
                return None
            ports.append(started[1])
        return ports

    def _drop(self, run: ArrowRun, port: int) -> None:
        self._console.note(f"Port {port} is in use; trying another")
        self._receivers.remove(run)

    def _look(self, _run: ArrowRun) -> None:
        self._supervisor.forwarder.forward(self._receivers)
        self._view.tick()

    def analyse(self) -> dict[str, Any]:
        """Summarise and save all ends, and return the document of the whole run.

        Keys: those of :meth:`PairRun.analyse`, whose ``sender`` and ``receiver`` are of all
        senders and all receivers; ``ends``: each one's summary; ``fairness``.

        Raises:
            RecordError: the records are not those of an arrow.
        """
        quiet = not self._console.progress
        outlines = {run: run.outline() for run in self._runs}
        if not self._senders:
            # The run did not begin: there is nothing to read.
            self.leave_unread()
            return self._document(None, self._problems({}))
        data = self._read(outlines, quiet)
        summaries = dict(zip(self._runs, data.ends or [], strict=True))
        problems = self._problems(summaries)
        # Save first: a full disk must not prevent it.
        for run, summary in summaries.items():
            kept = {key: value for key, value in summary.items() if key not in _NOT_SAVED}
            run.save(kept | {"environment": environment()})
        for run in self._runs:
            problems += filter(None, [run.compress(quiet)])
        self._data = data
        return self._document(data, problems)

    def _read(self, outlines: dict[ArrowRun, dict[str, Any]], quiet: bool) -> RunData:
        ends = [
            EndRecords(run.plan.role, run.plan.number or 0, run.files.transfers, outlines[run])
            for run in self._runs
        ]
        with Progress("Reading records", enabled=not quiet) as progress:
            return analyse_ends(str(self._output_dir), ends, progress.update)

    def leave_unread(self) -> None:
        """Save summaries without reading the records, which takes time: they stay as they are."""
        for run in self._runs:
            run.leave_unread()

    def data(self, name: str) -> RunData | None:
        """Return the run, called ``name``; None where it did not begin."""
        return None if self._data is None else replace(self._data, name=name)

    def _document(self, data: RunData | None, problems: list[str]) -> dict[str, Any]:
        purged = [queue.purged for queue in self._queues if queue.purged is not None]
        nothing = dict.fromkeys(("results", "drain", "queue_growth", "steps"))
        sections = nothing if data is None else data.sections
        cpu = {
            role: sum(run.child.usage.cpu_ms for run in self._runs if run.plan.role == role)
            for role in ROLES
        }
        return {
            "peer_to_peer": self._plans.peer_to_peer,
            "run_id": self._plans.run_id,
            "output_dir": str(self._output_dir),
            "purged": sum(purged) if purged else None,
            "complete": not problems and self._interruption is None,
            "reason": self._interruption or "; ".join(problems) or None,
            "results": sections["results"],
            "latency": None if data is None else latency_of(data.receiver),
            "delivery": None if data is None else data.delivery,
            "drain": sections["drain"],
            "queue_growth": sections["queue_growth"],
            "steps": sections["steps"],
            "clock_step": largest_step(run.outline() for run in self._runs),
            "cpu_ms": cpu,
            "sender": None if data is None else data.sender,
            "receiver": None if data is None else data.receiver,
            "fairness": None if data is None else data.fairness,
            "ends": [_shown(end) for end in (data.ends if data is not None else None) or []],
        }

    def _problems(self, summaries: dict[ArrowRun, dict[str, Any]]) -> list[str]:
        """Return a line for each arrow that failed by itself.

        A receiver without messages did not fail: others of its queue may have taken all.
        """
        problems = []
        for run in self._runs:
            ending = run.ending()
            summary = summaries.get(run, {"results": {"message_count": 1}})
            shares = run.plan.role == "receiver" and self._plans.receivers > self._plans.queues
            if shares and ending.complete:
                continue
            problem = judge(run, summary)
            if problem is not None and (ending.at_fault or ending.complete):
                problems.append(problem)
        return problems


def _shown(end: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in end.items() if key not in _NOT_SHOWN}
