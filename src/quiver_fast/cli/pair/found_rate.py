"""`quiver --find-rate`: the highest rate of an open-loop schedule that a target sustains."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.model.units import figure_text
from quiver_fast.analysis.read.set_layout import RATE_DOCUMENT, run_name
from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import exit_code
from quiver_fast.cli.pair.found_rate_text import found_rate_text, trial_text
from quiver_fast.cli.pair.rate_search import MOST_TRIALS, OVERHEAD, Limit, Trial, next_trial
from quiver_fast.cli.pair.run_set import remove_set
from quiver_fast.cli.pair.set_sides import Measured, OwnSide, Place, measured
from quiver_fast.cli.shared.common import error_text
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import make_output_dir, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.thresholds import Threshold
from quiver_fast.cli.shared.url import parse_url
from quiver_fast.schemas import marked
from quiver_fast.words import counted

_START = 1000


@dataclass(frozen=True)
class Judged:
    """A run at a rate or at a point, with the question whether it sustained the load.

    Attributes:
        complete: it did all that was asked.
        failure: why it did not sustain the load; None where it did.
        received: it received messages.
        figures: of its steady state, or of the whole run; None where it has no rate.
    """

    complete: bool
    failure: str | None
    received: bool = False
    figures: dict[str, float] | None = None


@dataclass(frozen=True)
class _Run:
    """One trial's run, ended.

    Attributes:
        name: its directory, below that of the search.
        rate: messages per second, as the schedule had them.
        confirms: it confirms the answer.
        found: how it ended.
    """

    name: str
    rate: int
    confirms: bool
    found: Judged

    @property
    def trial(self) -> Trial:
        """The trial as the search takes it."""
        return Trial(self.rate, self.found.failure is None, self.confirms)


def judged(taken: Measured, conditions: list[Threshold]) -> Judged:
    """Return how a run ended, and whether it sustained the load; see :func:`failure`."""
    if taken.data is None:
        return Judged(False, taken.reason)
    complete = {"complete": taken.reason is None, "reason": taken.reason}
    document = run_document(taken.data, None) | complete
    figures = run_figures(taken.data)
    return Judged(
        taken.reason is None,
        failure(document, conditions),
        document["receiver"]["results"]["message_count"] > 0,
        dict(figures.steady) if "message_rate" in figures.steady else None,
    )


def failure(document: dict[str, Any], conditions: list[Threshold]) -> str | None:
    """Return why a run did not sustain its rate; None if it did.

    It did when it was complete, the sender kept its schedule, no messages queued up, all that
    was sent was received, and each condition holds.

    Args:
        document: of the run, as `quiver --json` prints it, with ``name``.
        conditions: the conditions that must hold.
    """
    if not document["complete"]:
        return document["reason"] or "the run is incomplete"
    schedule = document["sender"].get("schedule") or {}
    if schedule.get("missed"):
        achieved = f": {schedule['achieved']:,.0f} messages/s" if schedule["achieved"] else ""
        return f"the sender missed its schedule{achieved}"
    growth = document["queue_growth"]
    if growth is not None:
        return f"the queue grew by {growth['per_second']:,.0f} messages/s"
    if document["delivery"]["unreceived"]:
        missing = document["delivery"]["unreceived"]
        return f"{counted(missing, 'message', ('was', 'were'))} not received"
    return next(filter(None, (_missed(one, document) for one in conditions)), None)


def _missed(condition: Threshold, document: dict[str, Any]) -> str | None:
    """Return by how much a condition does not hold; None if it holds."""
    found = condition.check(document)
    if found["reason"] is not None:
        return str(found["reason"])
    # A condition of --fail-if is breached when it holds; one of --find-rate has to hold.
    if found["breached"]:
        return None
    value, limit = found["value"], condition.limit
    text = f"{condition.figure} is {figure_text(value, condition.unit)}"
    if not limit:
        return text
    share = abs(value / limit - 1)
    return f"{text}, {share:.{1 if share < 0.1 else 0}%} beyond {condition.condition}"


class FindRate:
    """Measures at one rate after the other."""

    def __init__(
        self,
        args: argparse.Namespace,
        target: str,
        directory: Path,
        signals: SignalWatch,
        progress: Progress | None = None,
    ) -> None:
        """Prepare a search.

        Args:
            args: the options of `quiver`, checked; ``find_rate`` has at least one condition.
            target: a name of the measured target, for people.
            directory: where its files go.
            signals: the watch on signals, entered when it begins.
            progress: where each trial is shown; None for a line of its own.
        """
        self._args = args
        self._signals = signals
        self._start = args.rate or _START
        self._runs: list[_Run] = []
        self._fault: str | None = None
        self._target = target
        self._directory = directory
        self._progress = progress

    def search(self) -> None:
        """Search until the answer is confirmed, or the time is over, or a signal comes."""
        remove_set(self._directory)
        begin = time.monotonic()
        while self._fault is None and not self._signals.count:
            found = next_trial(self._trials, self._start, self._left(begin))
            if found is None:
                break
            self._try(*found)

    @property
    def problem(self) -> str | None:
        """Why there is no answer; None where there is one."""
        if self._fault is not None or self._limit.is_enclosed:
            return self._fault
        return f"no limit was found: {self._why_none()}" if self._runs else "nothing was tried"

    @property
    def _trials(self) -> list[Trial]:
        return [run.trial for run in self._runs]

    @property
    def _limit(self) -> Limit:
        return Limit(self._trials, self._start)

    def _left(self, begin: float) -> int:
        """Return for how many more trials there is time, at least one in all."""
        count, passed = len(self._runs), time.monotonic() - begin
        each = passed / count if count else self._args.duration + OVERHEAD
        fitting = int((self._args.within - passed) / each)
        return min(MOST_TRIALS - count, max(fitting, count == 0))

    def _args_at(self, rate: int) -> argparse.Namespace:
        """Return the options of a trial, which begins with an empty queue."""
        args = argparse.Namespace(**(vars(self._args) | {"rate": rate}))
        if self._runs and _keeps_messages(args):
            args.purge = True
        return args

    def _try(self, rate: int, confirms: bool) -> None:
        """Measure at a rate, and print the result."""
        name = run_name(len(self._runs) + 1, MOST_TRIALS)
        label = f"{name} {rate:,}/s"
        place = Place(name, self._directory / name)
        side = OwnSide(self._target, self._args_at(rate))
        if self._progress is None:
            with Progress(label, enabled=not self._args.quiet) as progress:
                taken = measured(side, place, self._signals, progress)
        else:
            taken = measured(side, place, self._signals, self._progress)
        if self._signals.count:
            return
        run = _Run(name, rate, confirms, judged(taken, self._args.find_rate))
        self._runs.append(run)
        if self._progress is None and not self._args.quiet:
            print(f"{label}: {trial_text(_line(run))}", file=sys.stderr, flush=True)
        if not run.found.received:
            # The rate is not the cause: the target is not there, or refuses.
            self._fault = f"{name}: {run.found.failure}"

    def document(self) -> dict[str, Any]:
        """Return the document of ``--json`` and ``rate.json``; docs/analysis.md has the keys."""
        limit = self._limit
        low, high = limit.interval
        at, above = limit.confirmations
        document = {
            "output_dir": str(self._directory),
            "workload": self._args.workload,
            "target": self._target,
            "conditions": [condition.condition for condition in self._args.find_rate],
            "trial_seconds": self._args.duration,
            "found_rate": {
                "rate": limit.rate,
                "low": low,
                "high": high,
                "confirmed": limit.is_confirmed,
                "confirmation": {"at": _counts(at), "above": _counts(above)} if at else None,
                "reason": self._above(),
                "steps": [_line(run) for run in self._runs],
            },
            "reason": self._signals.reason or self._fault,
            "environment": environment(),
        }
        return marked("found-rate", document)

    def _above(self) -> str | None:
        """Return the failure just above the answer."""
        rate = self._limit.rate or 0
        failed = [run for run in self._runs if run.found.failure is not None]
        above = [run for run in failed if run.rate > rate]
        nearest = min(above, key=lambda run: run.rate, default=failed[-1] if failed else None)
        return None if nearest is None else f"at {nearest.rate:,}/s: {nearest.found.failure}"

    def _why_none(self) -> str:
        last = self._runs[-1]
        if last.found.failure is None:
            return f"{last.rate:,}/s and all below are sustained"
        return f"not even {last.rate:,}/s is sustained: {last.found.failure}"


def find_rate(command: str, args: argparse.Namespace, target: str, console: Console) -> int:
    """Search, report the rate, and return the exit code.

    Args:
        command: the name that messages begin with.
        args: as of :class:`FindRate`.
        target: as of :class:`FindRate`.
        console: where the report goes.
    """
    directory, signals = make_output_dir(args.output), SignalWatch()
    console.note(f"Saving output files to '{directory}'")
    search = FindRate(args, target, directory, signals)
    with signals:
        search.search()
    document, problem = search.document(), search.problem
    try:
        write_json(directory / RATE_DOCUMENT, document)
    except OSError as error:
        problem = problem or error_text(error)
    console.document(document)
    console.show(found_rate_text(document).rstrip("\n"))
    return exit_code(command, signals, "the search was not over", problem)


def _keeps_messages(args: argparse.Namespace) -> bool:
    """Say whether a trial may leave messages for the next one."""
    if args.url is None or args.unique_queue:
        return False
    return parse_url(args.url, args.address).scheme != "csp"


def _counts(trials: Sequence[Trial]) -> dict[str, int]:
    """Return how many runs at one rate there were, and how many of them were sustained."""
    sustained = sum(trial.sustained for trial in trials)
    return {"rate": trials[0].rate, "runs": len(trials), "sustained": sustained}


def _line(run: _Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "rate": run.rate,
        "confirms": run.confirms,
        "sustained": run.found.failure is None,
        "reason": run.found.failure,
        "figures": run.found.figures,
    }
