"""`quiver --find-rate`: the highest rate of an open-loop schedule that a target sustains."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.model.units import figure_text
from quiver_fast.analysis.read.set_layout import RATE_DOCUMENT, run_name
from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.pair.found_rate_text import found_rate_text, trial_text
from quiver_fast.cli.pair.rate_search import RateSearch
from quiver_fast.cli.pair.run_set import remove_set
from quiver_fast.cli.pair.set_sides import Measured, OwnSide, Place, measured
from quiver_fast.cli.shared.common import error_text, report_error
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import make_output_dir, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.thresholds import Threshold
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK
from quiver_fast.schemas import marked

__all__ = ["FindRate", "failure"]

_START = 1000
# Directories are named for so many trials, which no search reaches.
_MOST_TRIALS = 999


@dataclass(frozen=True)
class _Trial:
    """One run at one rate, ended.

    Attributes:
        name: its directory, below that of the search.
        rate: messages per second, as the schedule had them.
        failure: why the rate was not sustained; None where it was.
        received: something was.
        figures: of its steady state, or of the whole run; None where nothing was received.
    """

    name: str
    rate: int
    failure: str | None
    received: bool = False
    figures: dict[str, float] | None = None


def failure(document: dict[str, Any], conditions: list[Threshold]) -> str | None:
    """Return why a run did not sustain its rate; None if it did.

    It did when it was complete, the sender kept its schedule, no messages queued up, all that
    was sent was received, and each condition holds.

    Args:
        document: of the run, as `quiver --json` prints it, with ``name``.
        conditions: what must hold.
    """
    if not document["complete"]:
        return document["reason"] or "the run is incomplete"
    if document["sender"]["schedule"]["missed"]:
        return "the sender missed its schedule"
    growth = document["queue_growth"]
    if growth is not None:
        return f"the queue grew by {growth['per_second']:,.0f} messages/s"
    if document["delivery"]["unreceived"]:
        return f"{document['delivery']['unreceived']:,} messages were not received"
    return next(filter(None, (_missed(one, document) for one in conditions)), None)


def _missed(condition: Threshold, document: dict[str, Any]) -> str | None:
    """Return by how much a condition does not hold; None if it holds."""
    found = condition.check(document)
    if found["reason"] is not None:
        return str(found["reason"])
    # A condition of --fail-if is breached when it holds; one of --find-rate has to hold.
    if found["breached"]:
        return None
    return f"{condition.figure} is {figure_text(found['value'], condition.unit)}"


class FindRate:
    """Measures at one rate after the other, and reports what was found."""

    def __init__(
        self, command: str, args: argparse.Namespace, target: str, console: Console
    ) -> None:
        """Prepare a search.

        Args:
            command: who speaks.
            args: the options of `quiver`, checked; ``find_rate`` has at least one condition.
            target: what is measured, for people.
            console: where the report goes.
        """
        self._command = command
        self._args = args
        self._console = console
        self._signals = SignalWatch()
        self._search = RateSearch(args.rate or _START)
        self._trials: list[_Trial] = []
        self._fault: str | None = None
        self._target = target
        self._directory = make_output_dir(args.output)

    def run(self) -> int:
        """Search until the answer is confirmed or the time is over; return the exit code."""
        self._console.note(f"Saving output files to '{self._directory}'")
        remove_set(self._directory)
        deadline = time.monotonic() + self._args.find_time
        with self._signals:
            while (rate := self._next(deadline)) is not None:
                self._try(rate)
        return self._report()

    def _next(self, deadline: float) -> int | None:
        """Return the rate to try next; None at the end, and where there is no time for it."""
        rate = self._search.rate
        if rate is None or self._fault is not None or self._signals.count:
            return None
        if time.monotonic() < deadline and len(self._trials) < _MOST_TRIALS:
            return rate
        self._fault = f"the search was not over after {self._args.find_time} s (--find-time)"
        return None

    def _args_at(self, rate: int) -> argparse.Namespace:
        return argparse.Namespace(**(vars(self._args) | {"rate": rate}))

    def _try(self, rate: int) -> None:
        """Measure at a rate, tell what came of it, and let the search go on."""
        name = run_name(len(self._trials) + 1, _MOST_TRIALS)
        directory = self._directory / name
        label = f"{name} {rate:,}/s"
        with Progress(label, enabled=not self._args.quiet) as progress:
            place = Place(name, directory, directory.with_suffix(".txt"))
            side = OwnSide(self._target, self._args_at(rate))
            taken = measured(side, place, self._signals, progress)
        if self._signals.count:
            return
        trial = self._trial(name, rate, taken)
        self._trials.append(trial)
        if not self._args.quiet:
            print(f"{label}: {trial_text(_line(trial))}", file=sys.stderr, flush=True)
        if not trial.received:
            # Not a matter of the rate: the target is not there, or refuses.
            self._fault = f"{name}: {trial.failure}"
        else:
            self._search.take(trial.failure is None)

    def _trial(self, name: str, rate: int, taken: Measured) -> _Trial:
        if taken.data is None:
            return _Trial(name, rate, taken.reason)
        complete = {"complete": taken.reason is None, "reason": taken.reason}
        document = run_document(taken.data, None) | complete
        figures = run_figures(taken.data)
        return _Trial(
            name,
            rate,
            failure(document, self._args.find_rate),
            document["receiver"]["results"]["message_count"] > 0,
            dict(figures.steady) if figures.values else None,
        )

    def _document(self) -> dict[str, Any]:
        """Return what ``--json`` prints and ``rate.json`` keeps; docs/analysis.md has the keys."""
        search = self._search
        return {
            "output_dir": str(self._directory),
            "workload": self._args.workload,
            "target": self._target,
            "conditions": [condition.condition for condition in self._args.find_rate],
            "trial_seconds": self._args.duration,
            "found_rate": {
                "rate": search.low,
                "low": search.low,
                "high": search.high,
                "confirmed": search.confirmed,
                "reason": self._above(),
            },
            "reason": self._signals.reason or self._fault,
            "steps": [_line(trial) for trial in self._trials],
            "environment": environment(),
        }

    def _above(self) -> str | None:
        """Return what failed at the lowest rate that is not sustained."""
        reasons = [trial.failure for trial in self._trials if trial.rate == self._search.high]
        return next((reason for reason in reversed(reasons) if reason), None)

    def _report(self) -> int:
        """Save and print what was found, and return the exit code."""
        document = marked("found-rate", self._document())
        try:
            write_json(self._directory / RATE_DOCUMENT, document)
        except OSError as error:
            self._fault = self._fault or error_text(error)
        self._console.document(document)
        self._console.show(found_rate_text(document).rstrip("\n"))
        if self._signals.exit_code is not None:
            report_error(self._command, f"{self._signals.reason}: the search was not over")
            return self._signals.exit_code
        if self._fault is not None:
            report_error(self._command, self._fault)
            return EXIT_FAILURE
        if not self._search.confirmed:
            report_error(self._command, f"no limit was found: {_why_none(self._search)}")
            return EXIT_FAILURE
        return EXIT_OK


def _why_none(search: RateSearch) -> str:
    if search.low is None:
        return "not even 1 message/s is sustained"
    return f"{search.low:,} messages/s and all below are sustained"


def _line(trial: _Trial) -> dict[str, Any]:
    return {
        "name": trial.name,
        "rate": trial.rate,
        "sustained": trial.failure is None,
        "reason": trial.failure,
        "figures": trial.figures,
    }
