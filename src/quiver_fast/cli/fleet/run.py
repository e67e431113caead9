"""One run of a fleet: from the executors to the document of all ends together."""

from __future__ import annotations

import argparse
import pickle
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from quiver_fast.analysis.export.json_text import json_pieces
from quiver_fast.analysis.figures.run_data import AnalysedRun
from quiver_fast.analysis.read.end_records import EndRecords
from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.fleet.fleet import Fleet, FleetRows, Host
from quiver_fast.cli.fleet.remote import HostJob, RemoteEnd, check_hosts, jobs_of
from quiver_fast.cli.fleet.report import clock_report, clocks_ahead, start_report
from quiver_fast.cli.pair.ends_plan import EndsPlans
from quiver_fast.cli.pair.ends_run import ends_of
from quiver_fast.cli.pair.run import ROLES, RunFrame
from quiver_fast.cli.shared.common import report_warning
from quiver_fast.cli.shared.console import Console
from quiver_fast.errors import QuiverError
from quiver_fast.words import counted

_HOST_PROCESS = "quiver_fast.cli.fleet.host"
_TICK = 0.05
# The time that hosts have to end their arrows in order after their stage has failed.
_END_SECONDS = 30.0
_OF_HOST = ("file", "cpu_ms", "at_fault")


class FleetRun(RunFrame):
    """Runs a fleet. The order of calls is that of :meth:`measure`."""

    command = "quiver-fleet"
    _plans: EndsPlans

    def __init__(
        self,
        spark: ModuleType,
        plans: EndsPlans,
        args: argparse.Namespace,
        output_dir: Path,
        console: Console,
        signals: SignalWatch,
    ) -> None:
        """Prepare a run.

        Args:
            spark: :mod:`spark_analysis.fleet`, or an object with its functions.
            plans: the plans of all ends.
            args: the fleet's options.
            output_dir: where the document goes.
            console: shows the live table.
            signals: a watch on signals, not yet entered.
        """
        super().__init__(plans, output_dir, console, signals)
        self._spark, self._args = spark, args
        self._token = secrets.token_hex(16)
        self._session: Any = None
        self._hosts: list[Host] = []
        self._error: Exception | None = None
        self._tasks: list[dict[str, Any]] = []
        self._corrected = False
        self._kept: list[str] | None = None

    def _queue_plans(self) -> list[ArrowPlan]:
        return self._plans.queue_plans()

    def measure(self) -> dict[str, Any]:
        """Run, analyse, and return the document.

        Raises:
            QuiverError: the cluster is too small, a queue cannot be prepared, or hosts do not
                come.
            OSError: the port is taken.
            The errors of Spark: it does not start, or it fails in the analysis.
        """
        self._session = self._spark.make_fleet_session(self._args.master, dict(self._args.conf))
        try:
            # Before any arrow runs, a signal ends the command at once.
            hosts, seconds = self._args.hosts, self._args.host_time
            self._count = self._spark.wait_for_executors(self._session, hosts, seconds)
            check_hosts(self._plans, self._count)
            with self._signals:
                self.run()
            # The arrows have ended: from here on a signal ends the command at once.
            return self.analyse()
        finally:
            self._session.stop()

    def _run_arrows(self) -> None:
        listener = socket.create_server(("", self._args.port or 0), backlog=max(self._count, 128))
        driver = self._spark.driver_host(self._session), listener.getsockname()[1]
        jobs = jobs_of(self._plans, self._count, self._token, driver, self._args.work_dir)
        self._console.note(
            f"Running {counted(len(jobs), 'host')}; they connect to {driver[0]}:{driver[1]}"
        )
        rows = FleetRows(self._plans.clock)
        fleet = Fleet(self._signals, listener, rows.add)
        with closing(fleet), self._stage(jobs) as stage:
            fleet.expect(jobs, self._plans.drain_timeout)
            self._hosts = fleet.hosts
            self._watch(fleet, stage, rows)

    @contextmanager
    def _stage(self, jobs: list[HostJob]) -> Iterator[threading.Thread]:
        """Run the tasks of all hosts in a thread, and wait for its end at exit."""

        def work() -> None:
            try:
                rows = [pickle.dumps(job) for job in jobs]
                self._tasks = self._spark.run_hosts(self._session, rows, _HOST_PROCESS)
            except Exception as error:  # The command reports any error.
                self._error = error

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            if thread.is_alive():
                # The hosts are gone, or the stage still waits for room on the cluster.
                self._spark.cancel(self._session)
            thread.join(_END_SECONDS)

    def _watch(self, fleet: Fleet, stage: threading.Thread, rows: FleetRows) -> None:
        patience = time.monotonic() + self._args.host_time
        while not fleet.all_ended:
            fleet.poll()
            if row := rows.due():
                self._view.begin()
                self._take(row)
            self._go_on()
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

    def analyse(self) -> dict[str, Any]:
        """Return the document: that of a run of many ends, and ``fleet``."""
        data, unread = self._read_hosts()
        document = self._document(data, self._problems_of_hosts(data))
        return document | ends_of(data) | {
            "fleet": {
                "hosts": [
                    {
                        "number": host.number,
                        "name": host.name,
                        "ends": {end.title: end.count for end in host.ends},
                        "lost": host.lost,
                    }
                    for host in self._hosts
                ],
                "unread": unread,
                "start": start_report(self._hosts, self._tasks),
                "clocks": clock_report(self._tasks, self._ends if self._corrected else None),
                "kept": self._kept,
            },
        }  # fmt: skip

    @property
    def _ends(self) -> list[RemoteEnd]:
        return [end for host in self._hosts for end in host.ends]

    def _outlines(self) -> list[tuple[str, dict[str, Any]]]:
        return [(title.partition(" ")[0], one) for title, one in self._known().items()]

    def _known(self) -> dict[str, dict[str, Any]]:
        """Return how each end ended whose host told it, by its title."""
        return {
            title: outline
            for host in self._hosts
            for title, outline in (host.outlines or {}).items()
        }

    def _read_hosts(self) -> tuple[AnalysedRun | None, list[str]]:
        """Let the hosts read their records; return the run, and the ends without records."""
        known = self._known()
        titles = [end.title for end in sorted(self._ends, key=_order)]
        ends = [_end(title, known[title]) for title in titles if title in known]
        untold = [title for title in titles if title not in known]
        place = self._token, self._args.work_dir
        data, unread = None, [end.title for end in ends]
        name = f"fleet of {counted(len(self._hosts), 'host')}"
        if {end.role for end in ends} == set(ROLES):
            ahead = self._ahead() if self._args.correct_clocks else None
            data, unread = self._spark.analyse_hosts(self._session, name, ends, *place, ahead)
        if self._args.keep_records and data is not None:
            self._keep(data, place)
        if known:
            self._spark.remove_records(self._session, *place)
        return data, [*untold, *unread]

    def _ahead(self) -> dict[str, int] | None:
        """Return how far the clock of each end is ahead; None if not all clocks were compared."""
        offsets = clocks_ahead(self._tasks)
        if offsets is None or len(offsets) < len(self._hosts):
            report_warning(
                self.command, "latencies are not corrected: not all clocks could be compared"
            )
            return None
        self._corrected = True
        return {end.title: offsets[end.host].nanoseconds for end in self._ends}

    def _keep(self, data: AnalysedRun, place: tuple[str, str | None]) -> None:
        """Copy the records, with a summary of each end for `quiver-analyze`."""
        uri = self._args.keep_records
        summaries = {
            f"{end['role']}.{end['number']}-summary.json": "".join(
                json_pieces(end | {"workload": self._args.workload})
            )
            for end in data.ends or []
        }
        self._kept = self._spark.keep_records(self._session, uri, summaries, *place)

    def _problems_of_hosts(self, data: AnalysedRun | None) -> list[str]:
        """Return a line for each host that was lost and each arrow that failed by itself."""
        problems = [f"{host.title}: {host.lost}" for host in self._hosts if host.lost is not None]
        for host in self._hosts:
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
            report_warning(self.command, "the figures cover the time until the failure")
        return problems


def _order(end: Any) -> tuple[bool, int]:
    return end.plan.role != "sender", end.plan.number


def _end(title: str, outline: dict[str, Any]) -> EndRecords:
    role, _, number = title.partition(" ")
    known = {key: value for key, value in outline.items() if key not in _OF_HOST}
    return EndRecords(role, int(number), Path(outline["file"]), known)
