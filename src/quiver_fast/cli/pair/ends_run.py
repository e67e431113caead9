"""A run of many ends: several senders and receivers, each a process, spread over queues."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.read.ends import analyse_ends
from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.run import ArrowRun, reading
from quiver_fast.cli.arrow.supervisor import SignalWatch, SnapshotCallback, Supervisor
from quiver_fast.cli.pair.ends_drain import Crew, QueueDrain
from quiver_fast.cli.pair.ends_plan import EndsPlans, has_ends
from quiver_fast.cli.pair.options import measuring_parser
from quiver_fast.cli.pair.run import ROLES, PairPlans, PairRun, RunFrame
from quiver_fast.cli.pair.workload import workload_of
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import ArrowFiles, remove_ends

_TICK = 0.01
# Keys that only the summary file of an end has, and the document of the run has not.
_NOT_SHOWN = ("series", "environment", "faults", "relay")


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


class _EndsSupervisor(Supervisor):
    """Ends the sending when an arrow fails.

    Receivers that we can tell when to end go on: they take all messages in the queues, also those
    that a failed receiver had not accepted.
    """

    def _stop_others(self, failed: ArrowRun) -> None:
        for run in self._runs:
            if run.plan.role == "sender" or run.control is None:
                run.stop(f"stopped because {failed.plan.title} failed")


class EndsRun(RunFrame):
    """One run of many ends."""

    _plans: EndsPlans
    _begun = False
    # The id of the receiver that is away, and when it comes back (monotonic seconds).
    _left: str | None = None
    _back_at: float | None = None

    def _make_supervisor(self) -> Supervisor:
        return _EndsSupervisor(self._signals, self._take, self._go_on)

    def _queue_plans(self) -> list[ArrowPlan]:
        return self._plans.queue_plans()

    @property
    def _runs(self) -> list[ArrowRun]:
        return [*self._senders, *self._receivers]

    def run(self) -> None:
        """See :meth:`RunFrame.run`."""
        remove_ends(self._output_dir)
        for role in ROLES:
            ArrowFiles(self._output_dir, role).remove()
        super().run()

    def _go_on(self) -> None:
        self._release()
        super()._go_on()
        if self._plans.away and self._begun:
            self._come_back()

    def _start(self) -> None:
        ports = self._start_listeners() if self._plans.peer_to_peer else self._start_receivers()
        if ports is None:
            self._stop_all()
            return
        for number, port in enumerate(ports):
            self._start_arrow("send", number, port)
        if self._plans.processes.any:
            # A process has ends at several queues.
            self._join(self._senders, self._receivers)
        else:
            for queue in range(self._plans.queues):
                sides = (self._at_queue(side, queue) for side in (self._senders, self._receivers))
                self._join(*sides)
        self._view.begin()

    def _release(self) -> None:
        """Have the senders begin, once all that run are ready: one clock for all."""
        held = [(run, run.control) for run in self._senders if run.control is not None]
        if not self._begun and all(control.is_ready() for run, control in held if run.running):
            self._begun = True
            for _, control in held:
                control.start()

    def _has_begun(self) -> bool:
        self._release()
        return self._begun

    def _at_queue(self, side: Sequence[ArrowRun], queue: int) -> list[ArrowRun]:
        return [run for run in side if self._plans.queue_of(run.plan.number or 0) == queue]

    def _join(self, senders: Sequence[ArrowRun], receivers: Sequence[ArrowRun]) -> None:
        """Have the ends of one queue wait for each other."""
        crew = self._crew = Crew([*senders, *receivers])
        for run in (*senders, *receivers):
            run.accompany(crew)
        timeout = self._plans.drain_timeout
        if not self._plans.fan_out:
            self._drains.append(QueueDrain(senders, receivers, timeout))
            return
        for one in receivers:
            copies = 1 if one.plan.part is None else one.plan.part.count
            self._drains.append(QueueDrain(senders, [one], timeout, copies=copies))

    def _leave(self) -> bool:
        """Have the last receiver go and leave its subscription; return whether the run goes on."""
        run = self._receivers[-1]
        if run.control is not None:
            run.control.stop()
        while not run.poll():
            self._look(run)
            time.sleep(_TICK)
        if self._signals.count or not run.ending().complete:
            return False
        run.close()
        self._receivers.remove(run)
        self._left = run.plan.id
        return True

    def _come_back(self) -> None:
        """Start the receiver that is away, when its time is over or no sender runs."""
        now = time.monotonic()
        self._back_at = self._back_at or now + self._plans.away
        if len(self._receivers) == self._plans.receivers:
            return
        if now >= self._back_at or not any(run.running for run in self._senders):
            run = self._start_arrow("receive", self._plans.receivers - 1)
            run.accompany(self._crew)
            timeout = self._plans.drain_timeout
            self._drains.append(QueueDrain(self._senders, [run], timeout))
            self._supervisor.add(run)

    def _stop_all(self) -> None:
        """Stop receivers whose senders will not be started."""
        failed = [run for run in self._receivers if not run.running]
        why = f"stopped because {failed[0].plan.title} failed" if failed else "stopped"
        for run in self._receivers:
            run.stop(self._signals.reason or why)

    def _start_arrow(self, operation: str, number: int, port: int = 0) -> ArrowRun:
        plan = self._plans.end(operation, number, port)
        if self._plans.away and plan.role == "receiver" and number + 1 == self._plans.receivers:
            how = "keep" if self._left is None else "end"
            plan = dataclasses.replace(plan, id=self._left or plan.id, subscription=how)
        return self._launch(plan, plan.title, held=operation == "send")

    def _start_receivers(self) -> list[int] | None:
        """Start the receivers of a server, and return once all are ready; None if one is not."""
        for number in range(self._plans.process_count("receive")):
            self._start_arrow("receive", number)
        ready = all(map(self._starting.await_ready, self._receivers))
        if not ready or (self._plans.away and not self._leave()):
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

    def _read(self) -> RunData | None:
        if not self._senders:
            # The run did not begin.
            self.leave_unread()
            return None
        ends = [run.as_recorded() for run in self._runs]
        with reading(self._runs, quiet=not self._console.progress) as progress:
            return analyse_ends(str(self._output_dir), ends, progress)

    def _summaries(self, data: RunData) -> dict[ArrowRun, dict[str, Any]]:
        return dict(zip(self._runs, data.ends or [], strict=True))

    def _document(self, data: RunData | None, problems: list[str]) -> dict[str, Any]:
        """Return that of a pair, whose ends are all senders and all receivers, and each end."""
        return super()._document(data, problems) | ends_of(data)

    def _problems(self, summaries: Mapping[ArrowRun, dict[str, Any]]) -> list[str]:
        return super()._problems(summaries) + shared_instead(self._data)

    def _may_get_nothing(self, run: ArrowRun) -> bool:
        # Other receivers of its queue may take all messages.
        shares = self._plans.receivers > self._plans.queues and not self._plans.fan_out
        return run.plan.role == "receiver" and shares


def shared_instead(data: RunData | None) -> list[str]:
    """Return a line if receivers that were each to get every message shared the messages."""
    delivery = (None if data is None else data.delivery) or {}
    fan_out = None if data is None else data.fan_out
    if fan_out is None or fan_out["receivers"] == 1 or not delivery["sent"]:
        return []
    if delivery["received"] - delivery["duplicate"] != delivery["sent"]:
        return []
    return [
        f"--fan-out: each message came once, not to each of {fan_out['receivers']:,} receivers: "
        "the address shares messages, as a queue does; give one that copies them, as a topic does"
    ]


def ends_of(data: RunData | None) -> dict[str, Any]:
    """Return the keys of a document that are about single ends and queues."""
    ends = (None if data is None else data.ends) or []
    return {
        "fairness": None if data is None else data.fairness,
        "queues": None if data is None else data.queues,
        **({} if data is None or data.fan_out is None else {"fan_out": data.fan_out}),
        "ends": [{key: end[key] for key in end if key not in _NOT_SHOWN} for end in ends],
    }
