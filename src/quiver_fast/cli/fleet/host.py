"""The process that runs the arrows of one host: a task starts it, and the command controls it.

Spark kills a Python task without warning, and arrows below the task would go on. This process
ends all arrows in order when the task or the command is gone.
"""

from __future__ import annotations

import pickle
import signal
import socket
import sys
import tempfile
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.supervisor import sides_of
from quiver_fast.cli.fleet.remote import Channel, HostJob
from quiver_fast.cli.pair.receiver_start import ReceiverStart
from quiver_fast.cli.shared.implementations import find_arrow
from quiver_fast.errors import QuiverError
from quiver_fast.sockets import connect
from quiver_fast.wall_clock import WallClock
from spark_analysis.task_line import TaskLine, folder_name

_TICK = 0.02
_STATUS_SECONDS = 0.25
_SNAPSHOT_SECONDS = 2.0
_CONNECT_SECONDS = 20.0
# The time that the command has to read a host's last document.
_LAST_SECONDS = 20.0
_TASK_GONE = "stopped because its Spark task ended"
_COMMAND_GONE = "stopped because quiver-fleet is gone"


class HostRun:
    """Runs the arrows of one host."""

    def __init__(self, job: HostJob, channel: Channel, task: TaskLine, clock: WallClock) -> None:
        """Prepare to run.

        Args:
            job: the work of this host.
            channel: the connection to the command.
            task: the pipes to the task that started this process.
            clock: the clock of this host, shared with the task.
        """
        self._job, self._channel, self._task = job, channel, task
        self._clock = clock
        top = Path(job.work_dir or tempfile.gettempdir(), folder_name(job.token))
        self._folder = top / f"host.{job.number}"
        self._runs: list[ArrowRun] = []
        self._ended: set[ArrowRun] = set()
        self._stopped: str | None = None
        self._starting = ReceiverStart(lambda _run: self._poll(), lambda: self._stopped is not None)
        self._snapshots_always = False
        self._next_status = self._next_snapshot = 0.0

    def run(self) -> None:
        """Run until all arrows have ended, and report how they ended."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=False)
            self._run()
        except (QuiverError, OSError) as error:
            self._task.send(failed=str(error))
            self._channel.send(kind="failed", reason=str(error))
        finally:
            for run in self._runs:
                run.close()

    def _run(self) -> None:
        plans = [self._local_plan(plan) for plan in self._job.plans]
        receivers = [plan for plan in plans if plan.operation == "receive"]
        ports = {str(plan.number): self._start_receiver(plan) for plan in receivers}
        if self._stopped is None and all(port is not None for port in ports.values()):
            self._task.send(ready=True, ports=ports, now=self._clock.now_ns())
            start = self._task.wait("start", self._still_waits)
            if start is not None and self._stopped is None:
                self._start_senders(plans, start)
            elif self._stopped is None:
                self._stop_all("stopped because another host is not ready")
        elif self._stopped is None:
            failed = next(run for run in self._runs if not run.running)
            self._task.send(failed=f"{failed.plan.title} failed: {failed.ending().reason}")
            self._stop_all(f"stopped because {failed.plan.title} failed")
        self._watch()
        self._finish()

    def _local_plan(self, plan: ArrowPlan) -> ArrowPlan:
        """Return the plan with this host's own implementation of the same name, and its clock."""
        implementation = find_arrow(plan.implementation.name)
        return replace(plan, implementation=implementation, clock_base=self._clock.base)

    def _start(self, plan: ArrowPlan) -> ArrowRun:
        run = ArrowRun(plan, self._folder)
        # Only the command can judge silence: it sees all ends of a queue.
        run.tolerate_silence()
        self._runs.append(run)
        run.start()
        return run

    def _start_receiver(self, plan: ArrowPlan) -> int | None:
        """Start a receiver and return its port (0 for a client); None if it is not ready."""
        if self._job.peer_to_peer:
            started = self._starting.listen(partial(self._listen, plan), self._forget)
            return None if started is None else started[1]
        return 0 if self._starting.await_ready(self._start(plan)) else None

    def _listen(self, plan: ArrowPlan, port: int) -> ArrowRun:
        url = replace(plan.url, host="0.0.0.0", port=port)  # noqa: S104 (others connect)
        return self._start(replace(plan, url=url))

    def _forget(self, run: ArrowRun, _port: int) -> None:
        self._runs.remove(run)

    def _start_senders(self, plans: list[ArrowPlan], start: dict[str, Any]) -> None:
        while (left := start["at"] - self._clock.now_ns()) > 0 and self._stopped is None:
            self._poll()
            time.sleep(min(left / 1e9, _TICK))
        peers = start.get("peers") or {}
        self._channel.send(kind="started", at=self._clock.now_ns())
        for plan in plans:
            if plan.operation == "send" and self._stopped is None:
                if self._job.peer_to_peer:
                    host, port = peers[str(plan.number)]
                    plan = replace(plan, url=replace(plan.url, host=host, port=port))
                self._start(plan)

    def _still_waits(self) -> bool:
        """Say whether to go on waiting for the task; report arrows that end meanwhile."""
        self._poll()
        return self._stopped is None

    def _watch(self) -> None:
        while any(run.running for run in self._runs):
            self._poll()
            time.sleep(_TICK)

    def _poll(self) -> None:
        """Check the arrows, obey the command, and report progress."""
        for run in self._runs:
            if run not in self._ended and run.poll():
                run.snapshot()
                self._ended.add(run)
                self._next_status = 0.0
        if self._stopped is None and self._task.has_ended():
            self._stop_all(_TASK_GONE)
        for document in self._channel.received():
            self._handle(document)
        if self._channel.closed and self._stopped is None:
            self._stop_all(_COMMAND_GONE)
        now = time.monotonic()
        if now >= self._next_status:
            self._next_status = now + _STATUS_SECONDS
            self._report()

    def _handle(self, document: dict[str, Any]) -> None:
        kind, chosen = document.get("kind"), document.get("ends")
        runs = [run for run in self._runs if chosen is None or run.plan.title in chosen]
        if kind == "stop" and chosen is None:
            self._stop_all(document["reason"])
        self._snapshots_always |= kind == "look"
        for run in runs:
            if kind == "stop":
                run.stop(document["reason"], at_fault=bool(document.get("at_fault")))
            elif kind == "kill":
                run.kill()
            elif kind == "sent" and run.control is not None:
                run.control.sent(document["count"])
            elif kind == "drained" and run.control is not None:
                run.control.stop()

    def _stop_all(self, reason: str) -> None:
        self._stopped = self._stopped or reason
        for run in self._runs:
            run.stop(reason)

    def _report(self) -> None:
        """Report the progress of each end, and every two seconds the figures of the live table."""
        now = time.monotonic()
        due = now >= self._next_snapshot
        if due or self._snapshots_always:
            for run in self._runs:
                if run not in self._ended:
                    run.snapshot()
        ends = {
            run.plan.title: {
                "count": run.transferred if run in self._ended else run.last_snapshot.count,
                "rejected": run.rejected,
                "running": run.running,
                "silence": run.silence,
                "failed": self._failure(run),
            }
            for run in self._runs
        }
        sides = {}
        if due:
            self._next_snapshot = now + _SNAPSHOT_SECONDS
            sides = self._sides()
        self._channel.send(kind="status", ends=ends, sides=sides)

    def _failure(self, run: ArrowRun) -> str | None:
        """Return why an end failed by itself; None if it did not."""
        if run not in self._ended:
            return None
        ending = run.ending()
        return None if ending.complete or not ending.at_fault else ending.reason

    def _sides(self) -> dict[str, dict[str, Any]]:
        """Return one snapshot for each running side, over all its arrows, for the command."""
        sides = sides_of(
            [run for run in self._runs if run not in self._ended],
            [run for run in self._runs if run in self._ended],
        )
        return {role: asdict(replace(side, latencies=None)) for role, side in sides.items()}

    def _finish(self) -> None:
        """Report how each arrow ended, and wait until the command has read the report."""
        self._report()
        outlines = {
            run.plan.title: run.outline()
            | {
                "file": str(run.files.transfers.absolute()),
                "cpu_ms": run.child.usage.cpu_ms,
                "at_fault": run.ending().at_fault,
            }
            for run in self._runs
        }
        for run in self._runs:
            run.files.remove_hidden()
        self._channel.send(kind="ended", outlines=outlines, stopped=self._stopped)
        self._task.send(done=True, folder=str(self._folder))
        deadline = time.monotonic() + _LAST_SECONDS
        while not self._channel.closed and time.monotonic() < deadline:
            if any(document.get("kind") == "thanks" for document in self._channel.received()):
                break
            time.sleep(_TICK)


def main() -> int:
    """Run the job from standard input, and return the exit code.

    The only argument is the base of the host's clock (:class:`WallClock`).
    """
    task = TaskLine(sys.stdin.buffer, sys.stdout.buffer)
    job: HostJob = pickle.loads(task.read_job())  # noqa: S301 (our own task wrote it)
    try:
        connection = connect(*job.driver, _CONNECT_SECONDS)
    except QuiverError as error:
        task.send(failed=f"quiver-fleet: {error}")
        return 1
    channel = Channel(connection)
    channel.send(kind="hello", token=job.token, number=job.number, name=socket.gethostname())
    for word in (signal.SIGINT, signal.SIGHUP):
        signal.signal(word, signal.SIG_IGN)
    HostRun(job, channel, task, WallClock(int(sys.argv[1]))).run()
    channel.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
