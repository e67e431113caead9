"""One run of a pair: a sender and a receiver, against each other or through a server."""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.figures.clock_step import largest_step
from quiver_fast.analysis.figures.latency import latency_of
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.model.bounds import undeliverable
from quiver_fast.analysis.read.sources import analyse_pair
from quiver_fast.cli.analyze.document import run_sections
from quiver_fast.cli.arrow.options import ArrowOptions
from quiver_fast.cli.arrow.plan import ArrowPlan, new_id
from quiver_fast.cli.arrow.progress import Limits
from quiver_fast.cli.arrow.queue_setup import QueueOptions, QueueSetup
from quiver_fast.cli.arrow.run import ArrowRun, reading, without_file
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.arrow.supervisor import SignalWatch, SnapshotCallback, Supervisor
from quiver_fast.cli.arrow.verdict import judge
from quiver_fast.cli.pair.abort import Abort
from quiver_fast.cli.pair.ends_drain import QueueDrain
from quiver_fast.cli.pair.fault_text import OF_NETWORK, check_faults
from quiver_fast.cli.pair.receiver_start import ReceiverStart
from quiver_fast.cli.pair.table import UpstreamView, View
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.implementations import DEFAULT_IMPLEMENTATION, find_arrow
from quiver_fast.cli.shared.thresholds import Threshold
from quiver_fast.cli.shared.url import AddressUrl
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.wall_clock import WallClock

if TYPE_CHECKING:
    from quiver_fast.cli.pair.faults import Faults
    from quiver_fast.cli.server.plan import ServerPlan

ROLES = ("sender", "receiver")
# The interval in seconds at which a sender is looked at while it fills the queue.
_FILL_LOOK = 0.1
# The begin of the sending is looked for so long, and so often (seconds), at each look at the run.
_BEGIN_LOOK = 0.1
_BEGIN_TICK = 0.001
# Keys that a summary file does not have: the name of the file tells them.
_NOT_SAVED = ("name", "role", "number", "file")


class PairPlans:
    """The checked plans of both arrows; peer-to-peer ones can be made for several ports."""

    asked: tuple[str, ...] = ()
    """Names for the rules of options, besides those of options."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Check the options.

        Args:
            args: the options of :func:`quiver_fast.cli.shared.common.add_arrow_options`,
                ``add_tls_options`` and ``add_queue_options``, and ``url`` (None for
                peer-to-peer), ``impl``, ``sender``, ``receiver``, ``drain_timeout``,
                ``unique_queue`` and ``verbose``.

        Raises:
            UsageError: an implementation is not there, or does not support an option.
        """
        self._args = args
        self._implementations = {
            "send": find_arrow(args.sender or args.impl),
            "receive": find_arrow(args.receiver or args.impl),
        }
        self.both_extended = all(impl.extensions for impl in self._implementations.values())
        self.peer_to_peer: bool = args.url is None
        implied = vars(args).get("reconnect") or vars(args).get("request_reply")
        self.settlement: bool = args.settlement or bool(implied)
        self.drain_timeout: float = args.drain_timeout
        # `quiver-bench` has none.
        self.backlog: int | None = vars(args).get("backlog") or None
        self.warmup: float = args.warmup
        self.faults = check_faults(args)
        self.asked = (*self.asked, *(f"fault={fault.kind}" for fault in self.faults))
        for fault in self.faults:
            if fault.kind in OF_NETWORK and not self.both_extended:
                raise UsageError(
                    f"--fault {fault.kind} needs two arrows of {DEFAULT_IMPLEMENTATION}"
                )
        self.fault_pid: str | None = vars(args).get("fault_pid")
        self.server: ServerPlan | None = None
        # The relay's places, one for each of the arrow's; the run sets them.
        self.relay: list[str] = []
        self.dead_letters: str | None = vars(args).get("dead_letter_queue")
        self.abort_if: list[Threshold] = vars(args).get("abort_if") or []
        receiver = self._implementations["receive"]
        if vars(args).get("exit_when") and not receiver.extensions:
            raise UsageError(f"implementation '{receiver.name}' does not support --exit-when")
        # An arrow without extensions does not send the id, and would be refused.
        self.run_id = secrets.token_hex(8) if self.both_extended else None
        self.queue = QueueOptions.from_arguments(args)
        self._suffix = self.run_id or secrets.token_hex(8)
        self._path: str | None = None
        # The options of the measurement, for the summaries of the ends; `make_plans` sets them.
        self.workload: dict[str, Any] | None = None
        self.clock = WallClock()
        # No queue lies between peers, so there are no messages from before the run.
        self.run_start = None if self.peer_to_peer else self.clock.now_ms()
        self._ids = {operation: new_id(operation) for operation in self._implementations}
        plans = [self.plan(operation) for operation in self._implementations]
        self.time_unit = plans[0].options.time_unit or "ms"
        if vars(args).get("server"):
            # Only runs with a server of their own pay for the import.
            from quiver_fast.cli.pair.faults import asked_server

            self.server = asked_server(args)

    def plan(self, operation: str, port: int = 0) -> ArrowPlan:
        """Return the plan of one arrow; ``port`` is for peer-to-peer runs."""
        args = self._args
        url = self._url(port)
        options = ArrowOptions.from_arguments(args, url, self.asked)
        if self.both_extended:
            # Most latencies are fractions of a millisecond, the only unit of other arrows.
            options = options.in_fine_units()
        listening = self.peer_to_peer and operation == "receive"
        return ArrowPlan(
            operation=operation,
            implementation=self._implementations[operation],
            url=url,
            options=options,
            id=self._ids[operation],
            server=listening,
            passive=listening,
            tail_from="end" if url.scheme == "csp" and operation == "receive" else None,
            run_id=self.run_id,
            run_start=self.run_start,
            clock_base=self.clock.base,
            drain_timeout=self.drain_timeout,
            verbose=args.verbose,
            # `quiver-bench` has none.
            meter=vars(args).get("meter"),
            backlog=self.backlog,
            via=",".join(self.relay) or None,
            workload=self.workload,
        )

    @property
    def shown_url(self) -> str | None:
        """The URL without its password; None peer-to-peer."""
        return None if self.peer_to_peer else self._url(0).shown

    def _url(self, port: int) -> AddressUrl:
        text = f"amqp://localhost:{port}/quiver" if self.peer_to_peer else self._args.url
        url = self.queue.url(text, self._suffix)
        return url if self._path is None else replace(url, path=self._path)

    def prepare_queues(self, queues: Sequence[QueueSetup]) -> None:
        """Prepare the queues, and note their addresses for all plans that follow.

        Raises:
            QuiverError: the broker cannot be reached, or refuses.
        """
        for number, queue in enumerate(queues):
            queue.prepare()
            queue.tell_messages_stay()
            if not self.both_extended:
                queue.ask_address()
            self.learn_path(number, queue.path)

    def learn_path(self, _queue: int, path: str) -> None:
        """Note the address that the broker has for a queue."""
        self._path = path


class RunFrame:
    """The frame of one run, from its queues to its document; subclasses start and read arrows."""

    command = "quiver"
    """The name that messages begin with."""

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
            plans: the plans of the arrows.
            output_dir: where the files of all arrows go.
            console: where the table, the notes and the arrows' own errors go.
            signals: the watch on signals, entered.
            on_snapshot: called besides the table, as :class:`Supervisor` does.
        """
        self._plans = plans
        self._output_dir = output_dir
        self._console = console
        self._view = make_view(console, plans)
        self._signals = signals
        self._on_snapshot = on_snapshot
        self._supervisor = self._make_supervisor()
        self._starting = ReceiverStart(self._look, lambda: bool(signals.count))
        self._senders: list[ArrowRun] = []
        self._receivers: list[ArrowRun] = []
        self._drains: list[QueueDrain] = []
        self._abort = Abort(plans.abort_if, plans.warmup)
        self._interruption: str | None = None
        self._data: RunData | None = None
        self._faults: Faults | None = None
        self._dead_problem: str | None = None
        if plans.faults or plans.server is not None:
            # Only runs with faults pay for the import.
            from quiver_fast.cli.pair.faults import Faults

            arrow = plans.plan("receive")
            self._faults = Faults(plans.faults, arrow, plans.server, plans.fault_pid, signals)
        self._queues = [
            QueueSetup(self.command, plans.queue, plan, console, signals)
            for plan in self._queue_plans()
        ]

    def _make_supervisor(self) -> Supervisor:
        return Supervisor(self._signals, self._take, self._go_on)

    def _queue_plans(self) -> list[ArrowPlan]:
        """Return a plan of an arrow at each queue."""
        return [self._plans.plan("receive")]

    @property
    def _runs(self) -> list[ArrowRun]:
        return [*self._receivers, *self._senders]

    def run(self) -> None:
        """Run until all arrows have ended.

        Raises:
            QuiverError: a queue cannot be prepared, or an arrow cannot be started.
        """
        self._console.note(f"Saving output files to '{self._output_dir}'")
        with ExitStack() as stack:
            for queue in self._queues:
                stack.enter_context(closing(queue))
            stack.enter_context(closing(self._view))
            self._view.open()
            if self._faults is not None:
                self._plans.relay = stack.enter_context(self._faults.running())
                self._tell_faults(self._faults)
            if not self._plans.peer_to_peer and not self._signals.count:
                self._plans.prepare_queues(self._queues)
            if not self._signals.count:
                self._run_arrows()
        # A signal that comes later does not change a run that is over.
        self._interruption = self._signals.reason or self._abort.reason

    def _run_arrows(self) -> None:
        try:
            self._start()
            self._supervisor.watch(self._runs)
        finally:
            if self._faults is not None:
                self._faults.end()
                self._tell_faults(self._faults)
            for run in self._runs:
                run.close()

    def _start(self) -> None:
        """Start all receivers, and the senders once nothing that they send can be missed."""
        raise NotImplementedError

    def _take(self, snapshots: dict[str, Snapshot]) -> None:
        self._view.add(snapshots)
        self._on_snapshot(snapshots)
        self._abort.look(snapshots, sending=all(run.running for run in self._senders))
        if self._abort.reason is not None:
            self._supervisor.stop(self._abort.reason)

    def _go_on(self) -> None:
        if self._faults is not None:
            self._attend(self._faults)
        # A broker that comes back gets its receivers.
        lasts = self._faults is not None and self._faults.active
        for drain in () if lasts else self._drains:
            drain.advance()
        if self._signals.count or self._abort.reason:
            self._view.state("Stopping")
        elif self._drains and not any(run.running for run in self._senders):
            self._view.state("Draining")
        self._view.tick()

    def _attend(self, faults: Faults) -> None:
        """Begin the faults with the sending, and undo them before the arrows end early."""
        if self._signals.count or self._abort.reason:
            faults.end()
        elif self._senders and holds_soon(self._has_begun):
            faults.begin()
        self._tell_faults(faults)

    def _has_begun(self) -> bool:
        """Say whether the sending has begun."""
        return all(run.control is None or run.control.is_ready() for run in self._senders)

    def _tell_faults(self, faults: Faults) -> None:
        for line in faults.told():
            self._view.tell(line)

    def _launch(self, plan: ArrowPlan, title: str, *, held: bool = False) -> ArrowRun:
        """Start an arrow; one that is held begins when its control says so."""
        run = ArrowRun(plan, self._output_dir, self._console.errors)
        if held and run.control is not None:
            run.control.hold()
        (self._senders if plan.operation == "send" else self._receivers).append(run)
        self._view.state(f"Starting {title}")
        run.start()
        self._console.note(f"Started {title} ({plan.implementation.name})")
        return run

    def _drop(self, receiver: ArrowRun, port: int) -> None:
        self._console.note(f"Port {port} is in use; trying another")
        self._receivers.remove(receiver)

    def _look(self, _run: ArrowRun) -> None:
        self._supervisor.obey(self._runs)
        self._view.tick()

    def analyse(self) -> dict[str, Any]:
        """Summarise and save all ends, and return the document of the whole run.

        Keys: ``peer_to_peer``, ``run_id``, ``output_dir``, ``purged`` (messages; None without
        a purge), ``complete``, ``reason``, ``results``, ``delivery``, ``drain``,
        ``queue_growth``, ``steps``, ``clock_step``, ``cpu_ms`` by role, and the summaries
        ``sender`` and ``receiver``, None for one that was not started.

        Raises:
            RecordError: the records are not those of an arrow.
        """
        if self._faults is not None:
            for run in self._senders:
                run.told = self._faults.sections()
        if self._plans.dead_letters and self._receivers:
            self._read_dead_letters(self._plans.dead_letters)
        data = self._data = self._read()
        summaries = {} if data is None else self._summaries(data)
        problems = self._save(summaries)
        for run, summary in summaries.items():
            # Saving has compressed the records.
            summary["file"] = str(run.files.records)
        return self._document(data, problems)

    def _read_dead_letters(self, queue: str) -> None:
        # Few runs have them.
        from quiver_fast.cli.pair.dead_letters import DeadLetters, problem_of

        ends = [run.outline() for run in self._receivers]
        rejected = sum((one["arrow"] or {}).get("rejected") or 0 for one in ends)
        first = self._receivers[0]
        letters = DeadLetters(queue, first.plan, self._console, self._signals)
        try:
            section = letters.read(rejected, rejected + sum(map(undeliverable, ends)))
        except QuiverError as error:
            self._dead_problem = str(error)
            return
        first.told = {"dead_letters": section}
        self._dead_problem = problem_of(section)

    def data(self, name: str) -> RunData | None:
        """Return the run, called ``name``, as `quiver-analyze` would read it.

        Call :meth:`analyse` first. None where an arrow was not started.
        """
        data = self._data
        if data is None or data.sender is None or data.receiver is None:
            return None
        return replace(data, name=name)

    def _read(self) -> RunData | None:
        """Read the records of all ends; return None where there is nothing to read."""
        raise NotImplementedError

    def _summaries(self, data: RunData) -> dict[ArrowRun, dict[str, Any]]:
        """Return the summary of each end in ``data``."""
        raise NotImplementedError

    def leave_unread(self) -> None:
        """Save summaries without reading the records, which takes time: they stay as they are."""
        for run in self._runs:
            run.leave_unread()

    def _save(self, summaries: Mapping[ArrowRun, dict[str, Any]]) -> list[str]:
        """Save the summaries and compress the records; return a line for each problem."""
        problems = self._problems(summaries)
        # Save first: a full disk must not prevent it.
        for run, summary in summaries.items():
            run.save({key: value for key, value in summary.items() if key not in _NOT_SAVED})
        for run in self._runs:
            problems += filter(None, [run.compress(not self._console.progress)])
        return problems

    def _problems(self, summaries: Mapping[ArrowRun, dict[str, Any]]) -> list[str]:
        """Return a line for each arrow that failed by itself."""
        problems = []
        for run in self._runs:
            ending = run.ending()
            if ending.complete and self._may_get_nothing(run):
                continue
            problem = judge(run, summaries.get(run, {"results": {"message_count": 1}}))
            if problem is not None and (ending.at_fault or ending.complete):
                problems.append(problem)
        problems += filter(None, [self._dead_problem])
        return problems + (self._faults.problems() if self._faults is not None else [])

    def _may_get_nothing(self, _run: ArrowRun) -> bool:
        """Say whether an arrow may end without a message."""
        return False

    def _document(self, data: RunData | None, problems: list[str]) -> dict[str, Any]:
        """Return the document of the run."""
        purged = [queue.purged for queue in self._queues if queue.purged is not None]
        outlines, cpu = self._outlines(), dict[str, int]()
        for role, outline in outlines:
            cpu[role] = cpu.get(role, 0) + outline["cpu_ms"]
        sender, receiver = (None, None) if data is None else (data.sender, data.receiver)
        both = sender is not None and receiver is not None
        return {
            "peer_to_peer": self._plans.peer_to_peer,
            "run_id": self._plans.run_id,
            "output_dir": str(self._output_dir),
            "purged": sum(purged) if purged else None,
            "complete": not problems and self._interruption is None,
            "reason": self._interruption or "; ".join(problems) or None,
            **(run_sections(data if both else None) | {"latency": latency_of(receiver)}),
            "clock_step": largest_step(outline for _, outline in outlines),
            "cpu_ms": cpu,
            "sender": sender and without_file(sender),
            "receiver": receiver and without_file(receiver),
        }

    def _outlines(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the role of each arrow, and how it ended, with ``cpu_ms``."""
        return [
            (run.plan.role, run.outline() | {"cpu_ms": run.child.usage.cpu_ms})
            for run in self._runs
        ]


class PairRun(RunFrame):
    """One run of a pair."""

    def _start(self) -> None:
        """Start the receiver, and the sender as soon as nothing that it sends can be missed."""
        filling = None
        if self._plans.backlog:
            filling = self._start_arrow("send")
            if not self._fill(filling, self._plans.backlog):
                return
        if self._plans.peer_to_peer:
            started = self._starting.listen(partial(self._start_arrow, "receive"), self._drop)
        else:
            receiver = self._start_arrow("receive")
            started = (receiver, 0) if self._starting.await_ready(receiver) else None
        if started is not None:
            receiver, port = started
            sender = filling or self._start_arrow("send", port)
            sender.accompany(receiver)
            timeout = self._plans.drain_timeout
            self._drains.append(QueueDrain([sender], [receiver], timeout, only_complete=True))
            self._view.begin()

    def _fill(self, sender: ArrowRun, backlog: int) -> bool:
        """Wait until a sender has filled the queue; return whether the run goes on."""
        self._view.state("Filling the queue")
        while not sender.poll():
            self._look(sender)
            if self._signals.count:
                return False
            sender.snapshot()
            if sender.last_snapshot.count >= backlog:
                return True
            time.sleep(_FILL_LOOK)
        return False

    def _start_arrow(self, operation: str, port: int = 0) -> ArrowRun:
        plan = self._plans.plan(operation, port)
        return self._launch(plan, f"the {plan.role}")

    def _read(self) -> RunData | None:
        if not self._runs:
            return None
        ends = [run.as_recorded() for run in self._runs]
        with reading(self._runs, quiet=not self._console.progress) as progress:
            return analyse_pair(str(self._output_dir), ends, progress)

    def _summaries(self, data: RunData) -> dict[ArrowRun, dict[str, Any]]:
        return {run: getattr(data, run.plan.role) for run in self._runs}


def holds_soon(condition: Callable[[], bool]) -> bool:
    """Say whether a condition holds, or does so soon: faults count from the moment itself."""
    until = time.monotonic() + _BEGIN_LOOK
    while not (holds := condition()) and time.monotonic() < until:
        time.sleep(_BEGIN_TICK)
    return holds


def make_view(console: Console, plans: PairPlans) -> View:
    """Return a view for the terminal, or upstream's table where there is none."""
    terminal = console.terminal
    if terminal is None:
        start = plans.clock.now_ms()
        return UpstreamView(console.show, plans.time_unit, plans.settlement, start)
    # Only terminals pay for the import.
    from rich.console import Console as Terminal

    from quiver_fast.cli.pair.live_table import LiveView

    options = plans.plan("send").options
    return LiveView(
        Terminal(file=terminal, highlight=False, markup=False, emoji=False),
        plans.time_unit,
        Limits(options.count, options.duration),
        rate=options.rate or 0,
        peer_to_peer=plans.peer_to_peer,
        settlement=plans.settlement,
    )
