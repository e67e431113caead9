"""`quiver --find-rate`: the highest rate of an open-loop schedule that a target sustains."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.model.figures import FIGURES
from quiver_fast.analysis.model.units import figure_text, latency_text
from quiver_fast.analysis.read.answer_file import SEARCH
from quiver_fast.analysis.read.set_layout import RATE_DOCUMENT, run_name
from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import exit_code
from quiver_fast.cli.pair.figures_text import campaign_text, trial_text
from quiver_fast.cli.pair.rate_search import (
    MOST_TRIALS,
    OVERHEAD,
    Limit,
    Next,
    Trial,
    next_trial,
)
from quiver_fast.cli.pair.run_set import remove_set
from quiver_fast.cli.pair.set_sides import Measured, OwnSide, Place, measured
from quiver_fast.cli.pair.warm_up import LONGEST, warm_up, warm_up_text
from quiver_fast.cli.shared.common import error_text
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import make_output_dir, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.thresholds import Threshold
from quiver_fast.cli.shared.url import parse_url
from quiver_fast.schemas import marked
from quiver_fast.words import counted

_START = 1000
# How far behind a schedule may end that no condition of latency limits, in seconds.
_UNCONDITIONED = 0.1
# More messages than were due, by this ratio, are another rate.
_AHEAD = 1.01
# A condition that fails over this range of rates does not depend on the rate.
_ALIKE = 8
# So many void trials in a row show that the sender cannot hold the rate.
_MOST_VOID = 3


@dataclass(frozen=True)
class Judged:
    """Whether a run sustained its load.

    Attributes:
        complete: it did all that was asked.
        failure: why it did not sustain the load; None where it did.
        received: it received messages.
        figures: of its steady state, or of the whole run; None where it has no rate.
        void: the sender itself was too late, so that nothing is known of the target.
    """

    complete: bool
    failure: str | None
    received: bool = False
    figures: dict[str, float] | None = None
    void: bool = False


@dataclass(frozen=True)
class _Run:
    """One trial's run, ended.

    Attributes:
        name: its directory, below that of the search.
        asked: what it was to try.
        found: how it ended.
    """

    name: str
    asked: Next
    found: Judged

    @property
    def rate(self) -> int:
        """Messages per second, as the schedule had them."""
        return self.asked.rate

    @property
    def trial(self) -> Trial:
        """The trial as the search takes it."""
        asked = self.asked
        return Trial(asked.rate, self.found.failure is None, asked.confirms, asked.returns)


def judged(taken: Measured, conditions: list[Threshold]) -> Judged:
    """Return how a run ended, and whether it sustained the load; see :func:`failure`."""
    if taken.data is None:
        return Judged(False, taken.reason)
    complete = {"complete": taken.reason is None, "reason": taken.reason}
    document = run_document(taken.data, None) | complete
    figures = run_figures(taken.data)
    failed = failure(document, conditions)
    own = own_lateness(document, conditions) if failed else None
    return Judged(
        taken.reason is None,
        own or failed,
        document["receiver"]["results"]["message_count"] > 0,
        dict(figures.steady) if "message_rate" in figures.steady else None,
        own is not None,
    )


def failure(document: dict[str, Any], conditions: list[Threshold]) -> str | None:
    """Return why a run did not sustain its rate; None if it did.

    It did when it was complete, the sender kept its schedule, no messages queued up, all that
    was sent was received, and each condition holds.

    Args:
        document: of the run, as `quiver --json` prints it, with ``name``.
        conditions: the conditions that must hold; without any the schedule is judged as that
            of any run.
    """
    if not document["complete"]:
        return document["reason"] or "the run is incomplete"
    schedule = document["sender"].get("schedule")
    if schedule and _is_missed(schedule, conditions):
        late = max(_behind(schedule) * 10**6, (schedule["late_us"] or {}).get("max", 0))
        how = f": it was late by {latency_text(late, 'us')}" if late else ""
        return f"the sender missed its schedule{how}{_waited(schedule)}"
    growth = document["queue_growth"]
    if growth is not None:
        return f"the queue grew by {growth['per_second']:,.0f} messages/s"
    if document["delivery"]["unreceived"]:
        missing = document["delivery"]["unreceived"]
        return f"{counted(missing, 'message', ('was', 'were'))} not received"
    return next(filter(None, (_missed(one, document) for one in conditions)), None)


def own_lateness(document: dict[str, Any], conditions: list[Threshold]) -> str | None:
    """Return how late the sender was itself, if that is why a run did not sustain its rate.

    It is why where most of the delay is the sender's own, and the rest would be in time. Such
    a run says nothing about its target.
    """
    schedule = document["sender"].get("schedule") or {}
    if not document["complete"] or not schedule.get("late_by_us"):
        return None
    values = [(one.figure.rank, one.in_run(document).value, one.limit) for one in conditions]
    found = [(rank, value, limit) for rank, value, limit in values if rank and value is not None]
    if _is_missed(schedule, conditions):
        found.append((100.0, 1000 * _behind(schedule), 1000 * _allowed(schedule, conditions)))
    for rank, value, limit in found:
        own = _own_delay(schedule["late_by_us"], rank) / 1000
        if value >= limit and own >= value / 2 and value - own < limit:
            return f"void: the sender was late itself, by {latency_text(1000 * own, 'us')}"
    return None


def _own_delay(causes: Mapping[str, Mapping[str, float]], rank: float) -> float:
    """Return the sender's own delay (us) at the highest percentile up to ``rank`` that is known.

    It is 0 where messages waited longer for their target at that percentile.
    """
    ranks = {name: FIGURES[name].rank or 0 for name in causes["itself"]}
    known = [name for name, percent in ranks.items() if percent <= rank]
    name = max(known, key=lambda one: ranks[one], default="p50")
    own = max(causes, key=lambda cause: causes[cause][name]) == "itself"
    return causes["itself"][name] if own else 0.0


def _is_missed(schedule: Mapping[str, Any], conditions: Sequence[Threshold]) -> bool:
    """Say whether messages that were due at the end were never sent, or too late to be in time.

    Delays of messages that were sent are in their latencies, which the conditions judge.
    """
    if not conditions or not schedule["due"] or not schedule["sent"]:
        return bool(schedule["missed"])
    ahead = schedule["sent"] > _AHEAD * schedule["due"] + 1
    return ahead or _behind(schedule) > _allowed(schedule, conditions)


def _behind(schedule: Mapping[str, Any]) -> float:
    """Return how long the first message had waited, in seconds, that was due and never sent."""
    return float((schedule["never_sent"] or 0) / (schedule["rate"] or 1))


def _allowed(schedule: Mapping[str, Any], conditions: Sequence[Threshold]) -> float:
    """Return how far behind, in seconds, a schedule may end.

    A condition of 50 ms allows 50 ms, and one for 99 % of the messages also that the last 1 %
    wait longer. A tenth of the time is too much in any case: the rate is a tenth lower then.
    """
    passed = schedule["due"] / schedule["rate"]
    limits = [
        one.limit / 1000 + (1 - one.figure.rank / 100) * passed
        for one in conditions
        if one.figure.rank
    ]
    return float(min([*limits, passed / 10] if limits else [_UNCONDITIONED, passed / 10]))


def _waited(schedule: Mapping[str, Any]) -> str:
    """Say for what messages waited longest before they were sent."""
    causes = schedule.get("late_by_us") or {}
    cause = max(causes, key=lambda one: causes[one]["max"], default=None)
    if cause in (None, "itself") or not causes[cause]["max"]:
        return ""
    return f", and {LATE_BY[cause]}"


def _missed(condition: Threshold, document: dict[str, Any]) -> str | None:
    """Return by how much a condition does not hold; None if it holds."""
    found = condition.in_run(document)
    if found.holds:
        return None
    value, limit, name = found.value, condition.limit, condition.figure.name
    if value is None:
        return found.reason
    text = f"{name} is {figure_text(value, condition.figure.unit)}"
    if text.endswith(f" {figure_text(limit, condition.figure.unit)}"):
        return f"{name} is at the limit of {condition.condition}"
    if not limit:
        return text
    share = abs(value / limit - 1)
    far = f"{share:.{1 if share < 0.1 else 0}%}" if share >= 0.0005 else "less than 0.1%"
    return f"{text}, {far} beyond {condition.condition}"


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
        self._warm_up: dict[str, Any] | None = None
        # Without a server the sender is a part of what is measured.
        self._own_limit = False

    def search(self) -> None:
        """Search until the answer is confirmed, or the time is over, or a signal comes."""
        remove_set(self._directory)
        self._warm()
        begin = time.monotonic()
        while self._fault is None and not self._signals.count:
            found = next_trial(self._trials, self._start, self._left(begin))
            if found is None:
                break
            self._try(found)

    @property
    def problem(self) -> str | None:
        """Why there is no answer; None where there is one."""
        if self._fault is not None or self._limit.is_enclosed:
            return self._fault
        return f"no limit was found: {self._why_none()}" if self._runs else "nothing was tried"

    @property
    def _trials(self) -> list[Trial]:
        return [run.trial for run in self._valid]

    @property
    def _valid(self) -> list[_Run]:
        """The runs that say something about the target."""
        return [run for run in self._runs if run.found.received and not run.found.void]

    @property
    def _limit(self) -> Limit:
        return Limit(self._trials, self._start)

    def _left(self, begin: float) -> int:
        """Return for how many more trials there is time, at least one in all."""
        count, passed = len(self._runs), time.monotonic() - begin
        each = passed / count if count else self._args.duration + OVERHEAD
        fitting = int((self._args.within - passed) / each)
        return min(MOST_TRIALS - len(self._valid), max(fitting, count == 0))

    def _warm(self) -> None:
        """Warm the target up, and say so."""
        args, longest = self._args, min(LONGEST, self._args.within / 3)
        with self._shown("warm-up") as progress:
            self._warm_up = warm_up(
                args, self._target, self._directory, self._signals, progress, longest
            )
        if self._signals.count or self._warm_up is None:
            return
        if self._progress is None and not args.quiet:
            print(warm_up_text(self._warm_up), file=sys.stderr, flush=True)

    def _shown(self, label: str) -> contextlib.AbstractContextManager[Progress]:
        """Return where a run is shown: in the given place, or in a line of its own."""
        if self._progress is not None:
            return contextlib.nullcontext(self._progress)
        return Progress(label, enabled=not self._args.quiet)

    def _args_at(self, rate: int) -> argparse.Namespace:
        """Return the options of a trial, which begins with an empty queue."""
        args = argparse.Namespace(**(vars(self._args) | {"rate": rate}))
        if (self._runs or self._warm_up) and _keeps_messages(args):
            args.purge = True
        return args

    def _try(self, asked: Next) -> None:
        """Measure at a rate, and print the result."""
        name = run_name(len(self._runs) + 1, MOST_TRIALS)
        label = f"{name} {asked.rate:,}/s"
        place = Place(name, self._directory / name)
        side = OwnSide(self._target, self._args_at(asked.rate))
        with self._shown(label) as progress:
            taken = measured(side, place, self._signals, progress)
        if self._signals.count:
            return
        found = judged(taken, self._args.find_rate)
        if found.void and self._own_limit:
            found = replace(found, void=False)
        run = _Run(name, asked, found)
        self._runs.append(run)
        if self._progress is None and not self._args.quiet:
            print(f"{label}: {trial_text(_line(run))}", file=sys.stderr, flush=True)
        if not found.received:
            # The rate is not the cause: the target is not there, or refuses.
            self._fault = f"{name}: {found.failure}"
        elif all(one.found.void for one in self._runs[-_MOST_VOID:]):
            self._give_up(asked.rate)

    def _give_up(self, rate: int) -> None:
        """End the search after void trials in a row; a sender without a server is the limit."""
        if len(self._runs) < _MOST_VOID:
            return
        if self._args.url is None:
            self._own_limit = True
            return
        why = self._runs[-1].found.failure
        self._fault = f"this machine's sender cannot hold {rate:,}/s: {_MOST_VOID} times {why}"

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
            "warm_up": self._warm_up,
            "found_rate": {
                "rate": limit.rate,
                "low": low,
                "high": high,
                "confirmed": limit.is_confirmed,
                "confirmation": {"at": _counts(at), "above": _counts(above)} if at else None,
                "stalled": dict(zip(("failed", "runs"), limit.stalled, strict=True)),
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
        failed = [run for run in self._valid if run.found.failure is not None]
        above = [run for run in failed if run.rate > rate]
        nearest = min(above, key=lambda run: run.rate, default=failed[-1] if failed else None)
        return None if nearest is None else f"at {nearest.rate:,}/s: {nearest.found.failure}"

    def _why_none(self) -> str:
        valid = self._valid
        if not valid:
            return f"all trials are {self._runs[-1].found.failure}"
        last, rates = valid[-1], [run.rate for run in valid]
        if last.found.failure is None:
            return f"{last.rate:,}/s and all below are sustained"
        text = f"not even {last.rate:,}/s is sustained: {last.found.failure}"
        if min(rates) * _ALIKE > max(rates):
            return text
        return f"{text}; it fails alike up to {max(rates):,}/s, so that the rate does not matter"


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
    console.show(campaign_text(SEARCH, document).rstrip("\n"))
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
        "confirms": run.asked.confirms,
        "returns": run.asked.returns,
        "sustained": run.found.failure is None,
        "void": run.found.void,
        "reason": run.found.failure,
        "figures": run.found.figures,
    }
