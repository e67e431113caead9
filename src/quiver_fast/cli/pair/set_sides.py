"""The two sides of a set of runs: a pair of this program, or another program."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shlex
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TextIO

import psutil

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import ending
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.set_layout import BASELINE, CANDIDATE
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.cli.arrow.progress import Limits, RunProgress
from quiver_fast.cli.arrow.summary_text import pair_summary_text
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import pair_warnings
from quiver_fast.cli.pair.baseline import Baseline
from quiver_fast.cli.pair.ends_run import make_plans, make_run
from quiver_fast.cli.pair.run import PairPlans
from quiver_fast.cli.shared.common import error_text
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.errors import QuiverError, RecordError, UsageError
from quiver_fast.process import STOP_GRACE, Child

LOG = ".txt"
_TICK = 0.02


@dataclass(frozen=True)
class Place:
    """Where one run of a set goes.

    Attributes:
        name: the name of the run.
        directory: for its files; not there yet.
    """

    name: str
    directory: Path

    @property
    def log(self) -> Path:
        """The file that gets the output of the run."""
        return self.directory.with_suffix(LOG)


@dataclass(frozen=True)
class Measured:
    """One run that was measured.

    Attributes:
        data: its records; None where there is nothing to analyse.
        reason: why it is incomplete; None where it did all that was asked.
        warnings: reasons to doubt its figures, a line each.
        known: figures that a side knows besides.
    """

    data: RunData | None
    reason: str | None
    warnings: tuple[str, ...] = ()
    known: dict[str, Any] = field(default_factory=dict)


class Side(Protocol):
    """What a campaign measures; its ``label`` is for people and has no password."""

    label: str

    def measure(self, place: Place, signals: SignalWatch, progress: Progress) -> Measured:
        """Measure once; see :func:`measured`.

        Raises:
            QuiverError: nothing could be measured.
        """


def measured(side: Side, place: Place, signals: SignalWatch, progress: Progress) -> Measured:
    """Measure a side once; an error becomes the reason of the result.

    So runs that were measured before are still reported.

    Args:
        side: what is measured.
        place: where the run goes.
        signals: the watch on signals, entered.
        progress: where it is shown.
    """
    try:
        place.log.write_text("", encoding="utf-8")
        return side.measure(place, signals, progress)
    except QuiverError as error:
        return Measured(None, signals.reason or str(error))
    except OSError as error:
        return Measured(None, error_text(error))


def recorded(place: Place, progress: Progress, missing: str = "no run was recorded") -> RunData:
    """Return the run that was recorded at a place.

    Raises:
        RecordError: there is none, as ``missing`` says, or its records are damaged.
    """
    try:
        found = find_runs([str(place.directory)])
    except UsageError:
        found = []
    if len(found) != 1:
        raise RecordError(missing)
    return load_run(replace(found[0], name=place.name), progress.update)


def make_sides(args: argparse.Namespace, baseline: Baseline | None) -> dict[str, Side]:
    """Return the sides of a set, checked: the candidate, and the baseline if there is one.

    A side with an arrow of others records in milliseconds. Then the other side does too,
    unless its user asked for another unit: a coarse clock makes every latency longer or shorter.

    Raises:
        UsageError: a side does not support an option.
    """
    plans = make_plans(args)
    candidate = _label(args, plans)
    if baseline is None:
        return {CANDIDATE: OwnSide(candidate, args)}
    if baseline.args is None:
        program = _ProgramSide(baseline.label, baseline.command or ())
        return {CANDIDATE: OwnSide(candidate, args), BASELINE: program}
    base = baseline.args
    try:
        base_plans = make_plans(base)
    except UsageError as error:
        raise UsageError(f"--baseline: {error}") from None
    if plans.both_extended and not base_plans.both_extended:
        args = _in_milliseconds(args)
    if base_plans.both_extended and not plans.both_extended:
        base = _in_milliseconds(base)
    return {CANDIDATE: OwnSide(candidate, args), BASELINE: OwnSide(baseline.label, base)}


def pair_label(args: argparse.Namespace) -> str:
    """Return a name, for people, of the pair that ``args`` measure, checked.

    Raises:
        UsageError: the pair does not support an option.
    """
    return _label(args, make_plans(args))


def _in_milliseconds(args: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**(vars(args) | {"time_unit": args.time_unit or "ms"}))


def _label(args: argparse.Namespace, plans: PairPlans) -> str:
    sender, receiver = args.sender or args.impl, args.receiver or args.impl
    arrows = sender if sender == receiver else f"{sender} -> {receiver}"
    return f"{arrows}, {plans.shown_url or 'peer-to-peer'}"


class OwnSide:
    """A pair that this program runs."""

    def __init__(self, label: str, args: argparse.Namespace) -> None:
        self.label = label
        self._args = args

    def measure(self, place: Place, signals: SignalWatch, progress: Progress) -> Measured:
        """See :class:`Side`."""
        place.directory.mkdir(mode=0o700)
        with place.log.open("a", encoding="utf-8", errors="backslashreplace") as log:
            return self._run(place, log, signals, progress)

    def _run(self, place: Place, log: TextIO, signals: SignalWatch, progress: Progress) -> Measured:
        # Each run has an id and a start of its own, and with --unique-queue a queue.
        plans, console = make_plans(self._args), Console(self._args, log)
        shown = RunProgress(progress, Limits(self._args.count, self._args.duration))
        run = make_run(plans, place.directory, console, signals, shown)
        run.run()
        if signals.count:
            # An interrupted run counts for nothing, so its records are not read and compressed.
            run.leave_unread()
            return Measured(None, signals.reason)
        document = run.analyse()
        if document["sender"] is not None and document["receiver"] is not None:
            console.show(pair_summary_text(document).rstrip("\n"))
        return Measured(run.data(place.name), document["reason"], tuple(pair_warnings(document)))


class _ProgramSide:
    """A program that takes the options of `quiver`, and writes the same files."""

    def __init__(self, label: str, command: tuple[str, ...]) -> None:
        self.label = label
        self._command = command

    def measure(self, place: Place, signals: SignalWatch, progress: Progress) -> Measured:
        """See :class:`Side`."""
        command = [*self._command, f"--output={place.directory}"]
        with place.log.open("a", encoding="utf-8", errors="backslashreplace") as log:
            print(shlex.join(command), file=log, flush=True)
            reason = _Program(command, place.log, log).run(signals)
        if signals.count:
            return Measured(None, signals.reason)
        try:
            missing = f"'{self._command[0]}' left no run in its --output"
            data = recorded(place, progress, missing)
        except QuiverError as error:
            # The reason of its failure explains more than its missing files.
            raise QuiverError(reason or str(error)) from None
        if reason is None and ending(data)[0] is False:
            reason = ending(data)[1] or "it does not say why"
        return Measured(data, reason)


class _Program:
    """One run of another program."""

    def __init__(self, command: list[str], output: Path, errors: TextIO) -> None:
        """Start it.

        Args:
            command: its words.
            output: the file to which its standard output is appended.
            errors: where its standard error goes.

        Raises:
            QuiverError: it cannot be started.
        """
        self._interrupted: str | None = None
        self._deadline = math.inf
        try:
            # `kill` also ends the processes that the program started, which Child does not know of.
            self._child = Child(
                command, os.environ, output=output, append=True, errors=errors, grace=math.inf
            )
        except OSError as error:
            raise QuiverError(f"cannot start '{command[0]}': {error.strerror}") from error

    def run(self, signals: SignalWatch) -> str | None:
        """Return, once the program has ended, why it failed; None if it did not."""
        while not self._child.poll():
            signals.pass_on(self)
            if time.monotonic() > self._deadline:
                self.kill()
            time.sleep(_TICK)
        if self._interrupted is not None or self._child.returncode == 0:
            return self._interrupted
        return self._child.ending

    def stop(self, reason: str, signum: int = signal.SIGTERM) -> None:
        """Have the program end in order."""
        self._interrupted = self._interrupted or reason
        self._deadline = min(self._deadline, time.monotonic() + STOP_GRACE)
        self._child.stop(signum)

    def kill(self) -> None:
        """End the program and all that it has started."""
        self._child.usage.sample()
        for process in self._child.usage.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
