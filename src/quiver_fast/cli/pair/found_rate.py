"""`quiver --find-rate`: the highest rate of an open-loop schedule that a target sustains."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from operator import itemgetter
from typing import Any

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.model.figures import FIGURES
from quiver_fast.analysis.model.units import figure_text, latency_text
from quiver_fast.analysis.read.set_layout import RATE_DOCUMENT, run_name
from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.pair.campaign import Campaign, Run, Task
from quiver_fast.cli.pair.figures_text import trial_text
from quiver_fast.cli.pair.rate_search import (
    MOST_TRIALS,
    OVERHEAD,
    Limit,
    Next,
    Trial,
    next_trial,
)
from quiver_fast.cli.pair.set_sides import Measured, OwnSide
from quiver_fast.cli.pair.warm_up import LONGEST, warm_up, warm_up_text
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.thresholds import Threshold
from quiver_fast.cli.shared.url import parse_url
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


def judged(taken: Measured, conditions: list[Threshold]) -> dict[str, Any]:
    """Return how a run ended, and whether it sustained the load; see :func:`failure`.

    Keys: ``complete``: it did all that was asked; ``sustained``; ``reason``: why it did not sustain
    the load, or None; ``void``: the sender itself was too late, so that nothing is known of the
    target; ``figures``: of its steady state, or of the whole run, or None where it has no rate;
    ``received``: it received messages.
    """
    found = {"complete": False, "void": False, "figures": None, "received": False}
    if taken.data is None:
        return found | {"sustained": taken.reason is None, "reason": taken.reason}
    complete = {"complete": taken.reason is None, "reason": taken.reason}
    document = run_document(taken.data, None) | complete
    figures = run_figures(taken.data).steady
    failed = failure(document, conditions)
    own = own_lateness(document, conditions) if failed else None
    return found | complete | {
        "sustained": failed is None,
        "reason": own or failed,
        "void": own is not None,
        "figures": dict(figures) if "message_rate" in figures else None,
        "received": document["receiver"]["results"]["message_count"] > 0,
    }  # fmt: skip


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


class FindRate(Campaign):
    """Measures at one rate after the other, until the answer is confirmed or the time is over."""

    schema, file, lines = "found-rate", RATE_DOCUMENT, ("found_rate", "steps")
    unfinished = "the search was not over"
    keys = ("name", "rate", "confirms", "returns", "sustained", "void", "reason", "figures")
    warns = False

    def __init__(
        self, command: str, args: argparse.Namespace, console: Console, target: str
    ) -> None:
        """See :class:`.campaign.Campaign`.

        Args:
            command: the name that messages begin with.
            args: the options, checked; ``find_rate`` has at least one condition.
            console: where the report goes.
            target: a name of the measured target, for people.
        """
        super().__init__(command, args, console)
        self._start = args.rate or _START
        self._target = target
        self._warm_up: dict[str, Any] | None = None
        # Without a server the sender is a part of what is measured.
        self._own_limit = False

    def _plan(self, kept: list[Run]) -> Iterator[Task]:
        for run in kept:
            line = run.line
            yield self._task(Next(line["rate"], line["confirms"], line["returns"]))
        self._warm()
        begin, first = time.monotonic(), len(self._runs)
        while asked := next_trial(self._trials, self._start, self._left(begin, first)):
            yield self._task(asked)

    def _task(self, asked: Next) -> Task:
        """Return the trial of a rate."""
        name = run_name(len(self._runs) + 1, MOST_TRIALS)
        side = OwnSide(self._target, self._args_at(asked.rate))
        return Task(name, f"{name} {asked.rate:,}/s", side, asdict(asked))

    def _kept(self) -> list[Run]:
        """Return the trials to keep: not those that may have ended the search."""
        kept = [*takewhile(lambda run: run.line["figures"] is not None, super()._kept())]
        while kept and kept[-1].line["void"]:
            kept.pop()
        return kept

    def _is_kept(self, line: dict[str, Any]) -> bool:
        return True

    def problem(self) -> str | None:
        """Return why there is no answer; None where there is one."""
        if self._fault is not None or self._limit.is_enclosed:
            return self._fault
        return f"no limit was found: {self._why_none()}" if self._runs else "nothing was tried"

    @property
    def _trials(self) -> list[Trial]:
        names = ("rate", "sustained", "confirms", "returns")
        return [Trial(*(run.line[name] for name in names)) for run in self._valid]

    @property
    def _valid(self) -> list[Run]:
        """The runs that say something about the target."""
        return [run for run in self._runs if run.received and not run.line["void"]]

    @property
    def _limit(self) -> Limit:
        return Limit(self._trials, self._start)

    def _left(self, begin: float, first: int) -> int:
        """Return for how many more trials there is time, at least one in all."""
        count, passed = len(self._runs) - first, time.monotonic() - begin
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
        if not self._signals.count and self._warm_up is not None:
            self._tell(warm_up_text(self._warm_up))

    def _args_at(self, rate: int) -> argparse.Namespace:
        """Return the options of a trial, which begins with an empty queue."""
        args = argparse.Namespace(**(vars(self._args) | {"rate": rate}))
        if (self._runs or self._warm_up) and _keeps_messages(args):
            args.purge = True
        return args

    def _run(self, task: Task, taken: Measured) -> Run:
        found = judged(taken, self._args.find_rate)
        found["void"] = found["void"] and not self._own_limit
        return Run(self._line(task, found), found["received"])

    def _text_of(self, run: Run) -> str:
        return trial_text(run.line)

    def _end(self, run: Run) -> None:
        last = self._runs[-_MOST_VOID:]
        if not run.received:
            # The rate is not the cause: the target is not there, or refuses.
            self._fault = f"{run.line['name']}: {run.line['reason']}"
        elif len(last) == _MOST_VOID and all(one.line["void"] for one in last):
            # A sender without a server is the limit.
            self._own_limit = self._args.url is None
            if not self._own_limit:
                why = f"{_MOST_VOID} times {run.line['reason']}"
                rate = f"{run.line['rate']:,}/s"
                self._fault = f"this machine's sender cannot hold {rate}: {why}"

    def _document(self) -> dict[str, Any]:
        """Return the keys of a search; docs/analysis.md explains them."""
        limit = self._limit
        low, high = limit.interval
        at, above = limit.confirmations
        return {
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
                "steps": [run.line for run in self._runs],
            },
            "reason": self._stopped,
        }

    def _above(self) -> str | None:
        """Return the failure just above the answer."""
        rate = self._limit.rate or 0
        failed = [run.line for run in self._valid if not run.line["sustained"]]
        above = [line for line in failed if line["rate"] > rate]
        nearest = min(above, key=itemgetter("rate"), default=failed[-1] if failed else None)
        return None if nearest is None else f"at {nearest['rate']:,}/s: {nearest['reason']}"

    def _why_none(self) -> str:
        valid = [run.line for run in self._valid]
        if not valid:
            return f"all trials are {self._runs[-1].line['reason']}"
        last, rates = valid[-1], [line["rate"] for line in valid]
        if last["sustained"]:
            return f"{last['rate']:,}/s and all below are sustained"
        text = f"not even {last['rate']:,}/s is sustained: {last['reason']}"
        if min(rates) * _ALIKE > max(rates):
            return text
        return f"{text}; it fails alike up to {max(rates):,}/s, so that the rate does not matter"


def _keeps_messages(args: argparse.Namespace) -> bool:
    """Say whether a trial may leave messages for the next one."""
    if args.url is None or args.unique_queue:
        return False
    return parse_url(args.url, args.address).scheme != "csp"


def _counts(trials: Sequence[Trial]) -> dict[str, int]:
    """Return how many runs at one rate there were, and how many of them were sustained."""
    sustained = sum(trial.sustained for trial in trials)
    return {"rate": trials[0].rate, "runs": len(trials), "sustained": sustained}
