"""One run of a fleet: from the executors to the document of all ends together."""

from __future__ import annotations

import argparse
import pickle
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from quiver_fast.analysis.export.json_text import json_pieces
from quiver_fast.analysis.figures.clock_step import largest_step
from quiver_fast.analysis.figures.latency import latency_of
from quiver_fast.analysis.figures.run_data import AnalysedRun
from quiver_fast.analysis.read.end_records import EndRecords
from quiver_fast.cli.arrow.queue_setup import QueueSetup
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.fleet.fleet import Fleet
from quiver_fast.cli.fleet.job import HostJob, check_hosts, jobs_of
from quiver_fast.cli.fleet.report import clock_report, clocks_ahead, start_report
from quiver_fast.cli.fleet.table import FleetTable
from quiver_fast.cli.pair.ends_plan import EndsPlans
from quiver_fast.cli.shared.common import report_warning
from quiver_fast.cli.shared.console import Console
from quiver_fast.errors import QuiverError
from quiver_fast.words import counted

_HOST_PROCESS = "quiver_fast.cli.fleet.host"
_TICK = 0.05
# The time that hosts have to end their arrows in order after their stage has failed.
_END_SECONDS = 30.0
_ROLES = ("sender", "receiver")
# The document has no series of single ends.
_NOT_SHOWN = ("series", "environment")
_OF_HOST = ("file", "cpu_ms", "at_fault")


class FleetRun:
    """Runs a fleet. The order of calls is that of :meth:`measure`."""

    def __init__(
        self,
        command: str,
        spark: ModuleType,
        plans: EndsPlans,
        args: argparse.Namespace,
        console: Console,
        signals: SignalWatch,
    ) -> None:
        """Prepare a run.

        Args:
            command: the command's name, for warnings.
            spark: :mod:`spark_analysis.fleet`, or an object with its functions.
            plans: the plans of all ends.
            args: the fleet's options.
            console: shows the live table.
            signals: a watch on signals, not yet entered.
        """
        self._command, self._spark, self._plans, self._args = command, spark, plans, args
        self._console, self._signals = console, signals
        self._token = secrets.token_hex(16)
        self._error: Exception | None = None
        self._tasks: list[dict[str, Any]] = []
        self._corrected = False
        self._kept: list[str] | None = None
        self._queues = [self._queue(number) for number in range(plans.queues)]

    def _queue(self, number: int) -> QueueSetup:
        plan = self._plans.queue_plan(number)
        return QueueSetup(self._command, self._plans.queue, plan, self._console, self._signals)

    def measure(self) -> dict[str, Any]:
        """Run, analyse, and return the document.

        Raises:
            QuiverError: the cluster is too small, a queue cannot be prepared, or hosts do not
                come.
            OSError: the port is taken.
            The errors of Spark: it does not start, or it fails in the analysis.
        """
        session = self._spark.make_fleet_session(self._args.master, dict(self._args.conf))
        try:
            # Before any arrow runs, a signal ends the command at once.
            hosts = self._spark.wait_for_executors(session, self._args.hosts, self._args.host_time)
            check_hosts(self._plans, hosts)
            with self._signals, ExitStack() as stack:
                for queue in self._queues:
                    stack.enter_context(closing(queue))
                if not self._plans.peer_to_peer:
                    self._prepare_queues()
                fleet = self._run(session, hosts)
            # The arrows have ended: from here on a signal ends the command at once.
            return self._document(session, fleet)
        finally:
            session.stop()

    def _prepare_queues(self) -> None:
        for number, queue in enumerate(self._queues):
            queue.prepare()
            self._plans.learn_path(number, queue.path)

    def _run(self, session: Any, hosts: int) -> Fleet:
        listener = socket.create_server(("", self._args.port or 0), backlog=max(hosts, 128))
        driver = self._spark.driver_host(session), listener.getsockname()[1]
        jobs = jobs_of(self._plans, hosts, self._token, driver, self._args.work_dir)
        self._console.note(
            f"Running {counted(len(jobs), 'host')}; they connect to {driver[0]}:{driver[1]}"
        )
        with closing(FleetTable(self._console, self._plans)) as table:
            fleet = Fleet(self._signals, listener, table.add)
            with closing(fleet), self._stage(session, jobs) as stage:
                fleet.expect(jobs, self._plans.drain_timeout)
                self._watch(fleet, stage, table)
        return fleet

    @contextmanager
    def _stage(self, session: Any, jobs: list[HostJob]) -> Iterator[threading.Thread]:
        """Run the tasks of all hosts in a thread, and wait for its end at exit."""

        def work() -> None:
            try:
                rows = [pickle.dumps(job) for job in jobs]
                self._tasks = self._spark.run_hosts(session, rows, _HOST_PROCESS)
            except Exception as error:  # The command reports any error.
                self._error = error

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            if thread.is_alive():
                # The hosts are gone, or the stage still waits for room on the cluster.
                self._spark.cancel(session)
            thread.join(_END_SECONDS)

    def _watch(self, fleet: Fleet, stage: threading.Thread, table: FleetTable) -> None:
        patience = time.monotonic() + self._args.host_time
        while not fleet.all_ended:
            fleet.poll()
            table.tick()
            now = time.monotonic()
            if not stage.is_alive():
                self._check_stage(fleet)
            if fleet.connected < len(fleet.hosts) and now > patience and fleet.ending is None:
                hosts, seconds = len(fleet.hosts), self._args.host_time
                why = (
                    f"only {fleet.connected} of {counted(hosts, 'host')} came in "
                    f"{counted(seconds, 'second')}"
                )
                self._error = QuiverError(why)
                fleet.stop_all(why)
            if fleet.ending is not None and (
                not fleet.connected or now > fleet.ending + _END_SECONDS
            ):
                for host in fleet.hosts:
                    fleet.mark_lost(host.number, "it did not say how its arrows ended")
            time.sleep(_TICK)
        stage.join(_END_SECONDS if fleet.connected else 0)
        self._check_stage(fleet)

    def _check_stage(self, fleet: Fleet) -> None:
        """Note which host was lost with its executor, if Spark's error tells it."""
        found = None if self._error is None else self._spark.lost_executor(self._error)
        if found is None:
            # The stage has ended: its hosts have ended too, or will not come.
            if not fleet.all_ended and fleet.ending is None:
                fleet.stop_all("stopped because its Spark tasks ended")
            return
        number, why = found
        if number is None:
            self._error = QuiverError(why)
            fleet.stop_all(f"stopped because {why}")
            return
        host = fleet.hosts[number]
        fleet.mark_lost(number, why)
        host.lost = why
        self._error = None

    def _document(self, session: Any, fleet: Fleet) -> dict[str, Any]:
        data, unread = self._read(session, fleet)
        problems = self._problems(fleet, data)
        purged = [queue.purged for queue in self._queues if queue.purged is not None]
        sections: dict[str, Any] = dict.fromkeys(("results", "drain", "queue_growth", "steps"))
        sections |= {} if data is None else data.sections
        cpu = dict.fromkeys(_ROLES, 0)
        for host in fleet.hosts:
            for title, outline in (host.outlines or {}).items():
                cpu[title.partition(" ")[0]] += outline["cpu_ms"]
        interruption = self._signals.reason
        return {
            "peer_to_peer": self._plans.peer_to_peer,
            "run_id": self._plans.run_id,
            "output_dir": None,
            "purged": sum(purged) if purged else None,
            "complete": not problems and interruption is None,
            "reason": interruption or "; ".join(problems) or None,
            **sections,
            "clock_step": largest_step(data.ends or ()) if data is not None else None,
            "latency": None if data is None else latency_of(data.receiver),
            "delivery": None if data is None else data.delivery,
            "cpu_ms": cpu,
            "sender": None if data is None else data.sender,
            "receiver": None if data is None else data.receiver,
            "fairness": None if data is None else data.fairness,
            "queues": None if data is None else data.queues,
            "ends": [_shown(end) for end in (None if data is None else data.ends) or []],
            "fleet": {
                "hosts": [
                    {
                        "number": host.number,
                        "name": host.name,
                        "ends": {end.title: end.count for end in host.ends},
                        "lost": host.lost,
                    }
                    for host in fleet.hosts
                ],
                "unread": unread,
                "start": start_report(fleet.hosts, self._tasks),
                "clocks": clock_report(self._tasks, fleet.ends if self._corrected else None),
                "kept": self._kept,
            },
        }

    def _read(self, session: Any, fleet: Fleet) -> tuple[AnalysedRun | None, list[str]]:
        """Let the hosts read their records; return the run, and the ends without records."""
        known = {
            title: outline
            for host in fleet.hosts
            for title, outline in (host.outlines or {}).items()
        }
        titles = [end.title for end in sorted(fleet.ends, key=_order)]
        ends = [_end(title, known[title]) for title in titles if title in known]
        untold = [title for title in titles if title not in known]
        place = self._token, self._args.work_dir
        data, unread = None, [end.title for end in ends]
        name = f"fleet of {counted(len(fleet.hosts), 'host')}"
        if {end.role for end in ends} == set(_ROLES):
            ahead = self._ahead(fleet) if self._args.correct_clocks else None
            data, unread = self._spark.analyse_hosts(session, name, ends, *place, ahead)
        if self._args.keep_records and data is not None:
            self._keep(session, data, place)
        if known:
            self._spark.remove_records(session, *place)
        return data, [*untold, *unread]

    def _ahead(self, fleet: Fleet) -> dict[str, int] | None:
        """Return how far the clock of each end is ahead; None if not all clocks were compared."""
        offsets = clocks_ahead(self._tasks)
        if offsets is None or len(offsets) < len(fleet.hosts):
            report_warning(
                self._command, "latencies are not corrected: not all clocks could be compared"
            )
            return None
        self._corrected = True
        return {end.title: offsets[end.host].nanoseconds for end in fleet.ends}

    def _keep(self, session: Any, data: AnalysedRun, place: tuple[str, str | None]) -> None:
        """Copy the records, with a summary of each end for `quiver-analyze`."""
        uri = self._args.keep_records
        summaries = {
            f"{end['role']}.{end['number']}-summary.json": "".join(
                json_pieces(end | {"workload": self._args.workload})
            )
            for end in data.ends or []
        }
        self._kept = self._spark.keep_records(session, uri, summaries, *place)

    def _problems(self, fleet: Fleet, data: AnalysedRun | None) -> list[str]:
        """Return a line for each host that was lost and each arrow that failed by itself."""
        problems = [f"{host.title}: {host.lost}" for host in fleet.hosts if host.lost is not None]
        for host in fleet.hosts:
            for title, outline in (host.outlines or {}).items():
                if outline["at_fault"]:
                    problems.append(f"{title} on {host.title} failed: {outline['reason']}")
            failed = [one["failed"] for one in self._tasks if one["number"] == host.number]
            problems += [f"{host.title}: {why}" for why in failed if why and host.lost is None]
        if self._error is not None and not problems:
            problems.append(self._spark.reason(self._error))
        received = None if data is None else (data.sections["results"] or {}).get("message_count")
        if not problems and not received:
            problems.append("no transfers")
        if problems and data is not None:
            report_warning(self._command, "the figures cover the time until the failure")
        return problems


def _order(end: Any) -> tuple[bool, int]:
    return end.plan.role != "sender", end.plan.number


def _end(title: str, outline: dict[str, Any]) -> EndRecords:
    role, _, number = title.partition(" ")
    known = {key: value for key, value in outline.items() if key not in _OF_HOST}
    return EndRecords(role, int(number), Path(outline["file"]), known)


def _shown(end: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in end.items() if key not in _NOT_SHOWN}
