"""`quiver --find-rate`: the highest rate of an open-loop schedule that a target sustains."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from quiver_fast.analysis.read.set_layout import RATE_DOCUMENT, run_name
from quiver_fast.cli.pair.campaign import Campaign, Run, Task
from quiver_fast.cli.pair.figures_text import trial_text
from quiver_fast.cli.pair.outcome import outcome
from quiver_fast.cli.pair.rate_search import MOST_TRIALS, OVERHEAD, Limit, Trial, next_trial
from quiver_fast.cli.pair.resumed import FIGURES, TEXT
from quiver_fast.cli.pair.set_sides import Measured, OwnSide
from quiver_fast.cli.pair.warm_up import LONGEST, warm_up, warm_up_text
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.url import parse_url

_START = 1000
# A condition that fails over this range of rates does not depend on the rate.
_ALIKE = 8
# So many void trials in a row show that the sender cannot hold the rate.
_MOST_VOID = 3


class FindRate(Campaign):
    """Measures at one rate after the other, until the answer is confirmed or the time is over."""

    schema, file, lines = "found-rate", RATE_DOCUMENT, ("found_rate", "steps")
    unfinished = "the search was not over"
    keys = MappingProxyType({
        "name": str, "rate": int, "confirms": bool, "returns": bool, "sustained": bool,
        "void": bool, "reason": TEXT, "figures": FIGURES,
    })  # fmt: skip
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

    def _plan(self) -> Iterator[Task]:
        for run in [*self._ahead.values()]:
            yield self._task(_trial_of(run))
        self._warm()
        begin, first = time.monotonic(), len(self._runs)
        while asked := next_trial(self._trials, self._start, self._left(begin, first)):
            yield self._task(asked)

    def _task(self, asked: Trial) -> Task:
        """Return the trial of a rate."""
        name = run_name(len(self._runs) + 1, MOST_TRIALS)
        side = OwnSide(self._target, self._args_at(asked.rate))
        return Task(name, f"{name} {asked.rate:,}/s", side, asdict(asked))

    def _kept(self) -> list[Run]:
        """Return the first trials without a gap, but not those that may have ended the search."""
        kept = [
            run for number, run in enumerate(super()._kept(), 1)
            if run.line["name"] == run_name(number, MOST_TRIALS)
        ]  # fmt: skip
        while kept and kept[-1].line["void"]:
            kept.pop()
        return kept

    def _again(self, line: dict[str, Any], begun: dict[str, Any]) -> Run | None:
        return Run(line) if line["figures"] is not None and line["rate"] > 0 else None

    def problem(self) -> str | None:
        """Return why there is no answer; None where there is one."""
        if self._fault is not None or self._limit.is_enclosed:
            return self._fault
        return f"no limit was found: {self._why_none()}" if self._known else "nothing was tried"

    @property
    def _trials(self) -> list[Trial]:
        return [*map(_trial_of, self._valid)]

    @property
    def _valid(self) -> list[Run]:
        """The runs that say something about the target."""
        return [run for run in self._known if run.received and not run.line["void"]]

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
        found = outcome(taken, self._args.find_rate)
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
                "steps": [run.line for run in self._known],
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
            return f"all trials are {self._known[-1].line['reason']}"
        last, rates = valid[-1], [line["rate"] for line in valid]
        if last["sustained"]:
            return f"{last['rate']:,}/s and all below are sustained"
        text = f"not even {last['rate']:,}/s is sustained: {last['reason']}"
        if min(rates) * _ALIKE > max(rates):
            return text
        return f"{text}; it fails alike up to {max(rates):,}/s, so that the rate does not matter"


def _trial_of(run: Run) -> Trial:
    names = ("rate", "sustained", "confirms", "returns")
    return Trial(*(run.line[name] for name in names))


def _keeps_messages(args: argparse.Namespace) -> bool:
    """Say whether a trial may leave messages for the next one."""
    if args.url is None or args.unique_queue:
        return False
    return parse_url(args.url, args.address).scheme != "csp"


def _counts(trials: Sequence[Trial]) -> dict[str, int]:
    """Return how many runs at one rate there were, and how many of them were sustained."""
    sustained = sum(trial.sustained for trial in trials)
    return {"rate": trials[0].rate, "runs": len(trials), "sustained": sustained}
