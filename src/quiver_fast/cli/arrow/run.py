"""One arrow from start to summary: its process, its records, and how it ended."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TextIO

from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.figures.summary import unread_sections
from quiver_fast.analysis.read.end_records import EndRecords
from quiver_fast.cli.arrow.control import Control, Flushed
from quiver_fast.cli.arrow.host_use import HostUse
from quiver_fast.cli.arrow.plan import ArrowPlan, contract_arguments, summary_config
from quiver_fast.cli.arrow.snapshot_taker import SnapshotTaker
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.shared.output import ArrowFiles, compress, reserve_space, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.start import start_implementation
from quiver_fast.errors import SIGNAL_DURING, QuiverError
from quiver_fast.process import Child, exit_text
from quiver_fast.schemas import marked
from quiver_fast.wall_clock import StepWatch

# Our own arrow begins its last line so; the rest of the line is also in its report.
_OWN_ERRORS = "quiver-arrow-pyfast: error: "


@dataclass(frozen=True)
class Ending:
    """How an arrow ended.

    Attributes:
        complete: the arrow did all of its task.
        reason: the cause of an incomplete task, or None.
        at_fault: the arrow itself failed; it was not stopped from outside.
    """

    complete: bool
    reason: str | None
    at_fault: bool = False


class Companion(Protocol):
    """The other arrows of the same queue."""

    @property
    def running(self) -> bool:
        """Whether any of them runs."""

    @property
    def silence(self) -> float:
        """Seconds since the last of those that run moved something."""


@contextmanager
def reading(runs: Iterable[ArrowRun], quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how far the records of ``runs`` are read; the hidden files do not outlive an error."""
    try:
        with Progress("Reading records", enabled=not quiet) as progress:
            yield progress.update
    except (QuiverError, OSError):
        for run in runs:
            run.files.remove_hidden()
        raise


def without_file(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary without the name of its file."""
    return {key: value for key, value in summary.items() if key != "file"}


class ArrowRun:
    """Runs one arrow. The order of calls is start, poll until it ends, close, analyse, save."""

    def __init__(self, plan: ArrowPlan, output_dir: Path, errors: TextIO | None = None) -> None:
        """Prepare a run.

        Args:
            plan: the plan of the arrow.
            output_dir: where its files go.
            errors: where lines of its standard error go; None for our own.
        """
        self.plan = plan
        self._errors = errors
        self.files = ArrowFiles(output_dir, plan.file_name)
        self._output_dir = output_dir
        self.control = Control() if plan.controlled else None
        self._child: Child | None = None
        self._taker: SnapshotTaker | None = None
        self._clock = StepWatch(plan.clock_base)
        self._host_use = HostUse()
        self.told: dict[str, Any] = {}
        """Keys of the summary that the wrapper of the run knows."""
        self._stopped: Ending | None = None
        self._tolerant = False
        self._companion: Companion | None = None
        self._flushed: Flushed | None = None
        self._heard: int | None = None
        self._size = 0
        self._moved = 0.0

    def start(self) -> None:
        """Start the arrow's process.

        Raises:
            QuiverError: it cannot be started.
        """
        self.files.remove()
        self._host_use = HostUse()
        plan = self.plan
        reserve_space(self.files.reserve, plan.options.duration)
        try:
            self._child = self._started_child()
        except QuiverError:
            self.files.remove_hidden()
            raise
        if self.control is not None:
            self.control.started()
        self._taker = SnapshotTaker(plan, self.files.transfers, self.files.snapshots)
        self._moved = time.monotonic()

    def _started_child(self) -> Child:
        plan = self.plan
        return start_implementation(
            plan.implementation,
            self._arguments,
            password=plan.options.password if plan.implementation.extensions else None,
            pass_fds=() if self.control is None else (self.control.arrow_fd,),
            prelude=plan.prelude,
            verbose=plan.verbose,
            output=self.files.transfers,
            errors=self._errors,
            withheld=_OWN_ERRORS if plan.implementation.extensions and not self._errors else "",
        )

    @property
    def child(self) -> Child:
        """The started process."""
        if self._child is None:
            raise RuntimeError("the arrow has not been started")
        return self._child

    @property
    def running(self) -> bool:
        """Whether the arrow has been started and has not been seen to end."""
        return self._child is not None and self._child.returncode is None

    @property
    def transferred(self) -> int:
        """Messages of an arrow that has ended: by its own count, else by its records."""
        return int(self._report.get("sent") or self._snapshots.last.count)

    @property
    def rejected(self) -> int:
        """Messages that a controlled receiver rejected; they have no records."""
        return 0 if self.control is None else self.control.rejected()

    @property
    def silence(self) -> float:
        """Seconds since records came, as of the last poll."""
        return time.monotonic() - self._moved

    def accompany(self, other: Companion) -> None:
        """Apply ``--timeout`` to this arrow only where ``other`` moves nothing either.

        A sender with a long queue waits for outcomes while the receiver still receives.
        """
        self._companion = other

    def tolerate_silence(self) -> None:
        """Enforce ``--timeout`` no longer: the drain judges the arrow's silence."""
        self._tolerant = True

    def poll(self) -> bool:
        """Say whether the arrow has ended. Enforces ``--timeout``: stops it when nothing moves."""
        self._clock.look()
        if self.child.poll():
            return True
        self.child.usage.sample_rss()
        self._host_use.find_peer(self.child.usage.pid)
        self._check_timeout()
        return False

    def snapshot(self) -> Snapshot:
        """Take, save and return a snapshot."""
        if self.running:
            self.child.usage.sample()
            self._host_use.follow(self.child.usage.pid)
        else:
            self.hear()
        snapshot = self._snapshots.take(
            self.child.usage, self._flushed, not self.running, self._heard
        )
        if self.plan.meter is not None:
            self.plan.meter.note(self.plan.role, self.plan.number, snapshot)
        return snapshot

    def has_flushed(self, moment: float) -> bool:
        """Say whether the arrow's records reach up to a moment of the monotonic clock.

        True for an arrow that never reports: there is nothing to wait for.
        """
        self.hear()
        return self._flushed is None or self._flushed.time >= moment * 1e9

    def hear(self) -> None:
        """Note the last report of the arrow's control: the next snapshot is of that moment.

        Hear all arrows before reading records: reading takes time, in which another arrow may
        report a later moment.
        """
        self._flushed = None if self.control is None else self.control.flushed()
        self._heard = time.monotonic_ns()

    @property
    def last_snapshot(self) -> Snapshot:
        """The last snapshot that was taken."""
        return self._snapshots.last

    @property
    def _snapshots(self) -> SnapshotTaker:
        if self._taker is None:
            raise RuntimeError("the arrow has not been started")
        return self._taker

    def stop(self, reason: str, signum: int = signal.SIGTERM, at_fault: bool = False) -> None:
        """Have the arrow drain and end, because of ``reason``; only the first call counts."""
        if self.running and self._stopped is None:
            self._stopped = Ending(False, reason, at_fault)
            self.child.stop(signum)

    def kill(self) -> None:
        """End the arrow at once, because its user is impatient."""
        self.child.kill()

    def close(self) -> None:
        """Leave nothing behind: kill the arrow if it still runs."""
        if self.running:
            self.child.kill_and_wait()
        if self._taker is not None:
            self._taker.close()
        if self.control is not None:
            self.control.close()

    def ending(self) -> Ending:
        """Return how the arrow ended."""
        if self._stopped is not None:
            return self._with_work(self._stopped)
        if self.child.returncode == 0 and self._report.get("complete", True):
            problem = self._snapshots.problem
            return Ending(problem is None, problem, at_fault=problem is not None)
        reason = self._report.get("reason") or self.child.last_error_line.removeprefix(_OWN_ERRORS)
        how = exit_text(self.child.returncode)
        return Ending(False, f"{reason} ({how})" if reason else how, at_fault=True)

    def _with_work(self, stopped: Ending) -> Ending:
        """Add the work of a silent arrow to the reason why it was stopped, if the arrow tells."""
        if self.running or not stopped.at_fault:
            return stopped
        work = (self._report.get("reason") or "").partition(SIGNAL_DURING)[2]
        return stopped if not work else replace(stopped, reason=f"{stopped.reason}, while {work}")

    def outline(self) -> dict[str, Any]:
        """Return the keys of the arrow's summary that do not come from its records."""
        ending, report = self.ending(), dict(self._report)
        failures = report.pop("failures", None)
        return {
            "config": summary_config(self.plan, self._output_dir),
            "complete": ending.complete,
            "reason": ending.reason,
            "exit_code": self.child.returncode,
            "clock_step": self._clock_step(),
            "host_use": self._host_use.section(self.child.usage.waited),
            "arrow": report or self._last_words,
            **({} if failures is None else {"failures": failures}),
            **self.told,
        }

    @property
    def _last_words(self) -> dict[str, Any] | None:
        """The count of an arrow that left no report, such as one that was killed."""
        return {"peer": None, "rejected": self.rejected} if self.rejected else None

    def _clock_step(self) -> dict[str, Any] | None:
        """Return how far the wall clock was set, and whether the arrow's times have it."""
        step = self._clock.section()
        if step is None:
            return None
        return {**step, "in_times": not self.plan.implementation.extensions}

    def as_recorded(self) -> EndRecords:
        """Return its records, with the rest of its summary, as they are to be read."""
        plan, known = self.plan, self.outline() | {"environment": environment()}
        path, kind = self.files.transfers, plan.record_format
        return EndRecords(plan.role, plan.number or 0, path, known, kind)

    def unread_summary(self) -> dict[str, Any]:
        """Return the summary of an arrow without reading its records."""
        outline = self.outline() | {"environment": environment()}
        sections = unread_sections(self._snapshots.last.count)
        return {"config": outline.pop("config"), **sections, **outline}

    def leave_unread(self) -> None:
        """Save a summary without reading the records, unless there is one."""
        if not self.files.summary.exists():
            self.save(self.unread_summary())

    def save(self, summary: dict[str, Any]) -> None:
        """Save the summary, in the space that was reserved for it."""
        self.files.remove_hidden()
        made = {} if self.plan.workload is None else {"workload": self.plan.workload}
        write_json(self.files.summary, marked("arrow-summary", summary | made))

    def compress(self, quiet: bool) -> str | None:
        """Compress the records. Return in one line why they are not, or None if they are."""
        source, target = self.files.transfers, self.files.compressed
        try:
            with Progress(f"Compressing {self.plan.title} records", enabled=not quiet) as progress:
                compress(source, target, progress.update)
        except OSError as error:
            return f"cannot compress {source}: {error.strerror}; it stays as it is"
        return None

    def _check_timeout(self) -> None:
        timeout, patience = self.plan.options.timeout, self.plan.options.patience
        size = self.files.transfers.stat().st_size
        if size != self._size:
            self._size, self._moved = size, time.monotonic()
        elif timeout and self._silence_of_all > patience and not self._tolerant:
            self.stop(self.plan.options.silence_text, at_fault=True)

    @property
    def _silence_of_all(self) -> float:
        silence = self.silence
        other = self._companion
        return min(silence, other.silence) if other is not None and other.running else silence

    def _arguments(self, password_fd: int | None) -> list[str]:
        control_fd = None if self.control is None else self.control.arrow_fd
        return contract_arguments(self.plan, password_fd, self.files.report.absolute(), control_fd)

    @cached_property
    def _report(self) -> dict[str, Any]:
        """The arrow's own report at its end; empty if it writes none."""
        try:
            report: dict[str, Any] = json.loads(self.files.report.read_bytes())
        except FileNotFoundError:
            return {}
        return report
