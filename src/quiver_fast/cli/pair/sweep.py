"""`quiver --sweep`: one measurement for each value of an option, or for each pair of two."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quiver_fast.analysis.read.set_layout import SWEEP_DOCUMENT, run_name
from quiver_fast.cli.pair.campaign import Campaign, Run, Task
from quiver_fast.cli.pair.figures_text import place_text
from quiver_fast.cli.pair.options import measuring_parser
from quiver_fast.cli.pair.outcome import outcome
from quiver_fast.cli.pair.resumed import FIGURES, TEXT
from quiver_fast.cli.pair.set_sides import Measured, OwnSide, pair_label
from quiver_fast.cli.pair.workload import given_by, options_of
from quiver_fast.cli.shared.common import ArgumentParser
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.quantities import positive_count
from quiver_fast.errors import UsageError

MOST_POINTS = 999
_MOST_OPTIONS = 2
_RANGE = re.compile(r"(?P<first>.+)\.\.(?P<last>.+):(?P<steps>.+)")


@dataclass(frozen=True)
class Point:
    """One place of a sweep.

    Attributes:
        values: the text of each swept option, by the option's name.
        given: the arguments of these values, by attribute.
    """

    values: dict[str, str]
    given: dict[str, Any]

    @property
    def text(self) -> str:
        """The values in words."""
        return " ".join(f"{option}={value}" for option, value in self.values.items())


class Sweep(Campaign):
    """Measures at one point after the other."""

    schema, file, lines = "sweep", SWEEP_DOCUMENT, ("points",)
    unfinished = "the sweep was not over"
    keys = MappingProxyType({
        "name": str, "values": dict, "complete": bool, "sustained": bool, "reason": TEXT,
        "figures": FIGURES,
    })  # fmt: skip

    def __init__(self, command: str, args: argparse.Namespace, console: Console) -> None:
        """See :class:`.campaign.Campaign`; ``args.sweep`` is not empty."""
        super().__init__(command, args, console)
        self._points = sweep_points(args.sweep)
        _check_given(args, self._points[0])
        tasks = (self._task(number, one) for number, one in enumerate(self._points, 1))
        self._tasks = {task.name: task for task in tasks}

    def _task(self, number: int, point: Point) -> Task:
        args = argparse.Namespace(**(vars(self._args) | point.given))
        try:
            side = OwnSide(pair_label(args), args)
        except UsageError as error:
            raise UsageError(f"--sweep: at {point.text}: {error}") from None
        count = len(self._points)
        label = f"[{number}/{count}] {point.text}"
        return Task(run_name(number, count), label, side, {"values": point.values})

    def _run(self, task: Task, taken: Measured) -> Run:
        return Run(self._line(task, outcome(taken, [])))

    def _text_of(self, run: Run) -> str:
        return place_text(run.line)

    def _end(self, run: Run) -> None:
        if run.line["figures"] is None and not run.line["complete"]:
            # The target is not there, or refuses: the next point would not do better.
            self._fault = _failure(run)

    def _document(self) -> dict[str, Any]:
        """Return the keys of a sweep; docs/load.md explains them."""
        missing = len(self._points) - len(self._known)
        return {
            "target": pair_label(self._args),
            "options": [*self._points[0].values],
            "complete": not self._incomplete and not missing,
            "reason": self._stopped,
            "points": [run.line for run in self._known],
        }

    @property
    def _incomplete(self) -> list[Run]:
        return [run for run in self._runs if not run.line["complete"]]

    def problem(self) -> str | None:
        """See :meth:`.campaign.Campaign.problem`."""
        return self._fault or next(map(_failure, self._incomplete), None)


def _failure(run: Run) -> str:
    return f"{run.line['name']}: {run.line['reason']}"


def sweep_points(sweeps: Sequence[str]) -> list[Point]:
    """Return the points of a sweep in the order of measuring: the last option changes fastest.

    Args:
        sweeps: one or two of ``OPTION=A,B,C`` and ``OPTION=FROM..TO:STEPS``, whose steps are in
            equal ratios, as whole numbers.

    Raises:
        UsageError: one is not of this form, or its option or a value does not exist.
    """
    axes: dict[str, list[str]] = {}
    for sweep in sweeps:
        name, _, text = sweep.partition("=")
        if name in axes:
            raise UsageError(f"--sweep: {name} is given twice")
        axes[name] = _values(sweep, text)
    if len(axes) > _MOST_OPTIONS:
        raise UsageError(f"--sweep takes {_MOST_OPTIONS} options at most")
    parser = measuring_parser()
    known = {name for name, action in options_of(parser).items() if action.nargs is None}
    for name in axes:
        if name not in known:
            raise UsageError(f"--sweep: there is no option --{name} that takes a value")
    points = [_point(parser, axes, values) for values in itertools.product(*axes.values())]
    if len(points) > MOST_POINTS:
        raise UsageError(f"--sweep: {len(points)} points are more than {MOST_POINTS}")
    for point in points:
        same = next(one for one in points if one.given == point.given)
        if same is not point:
            raise UsageError(f"--sweep: {same.text} and {point.text} are one point")
    return points


def _check_given(args: argparse.Namespace, point: Point) -> None:
    """Refuse an option that has a value of its own, which no point would have.

    Raises:
        UsageError: there is one.
    """
    actions = options_of(measuring_parser())
    for name in {*args.workload} & {*actions}:
        # Steps of a rate have a duration, too.
        if actions[name].dest in point.given and not (name == "duration" and args.rate_steps):
            raise UsageError(f"--{name} does not go with --sweep {' '.join(args.sweep)}")


def _values(sweep: str, text: str) -> list[str]:
    if not text:
        raise UsageError(
            f"--sweep: '{sweep}' is not OPTION=A,B,C or OPTION=FROM..TO:STEPS, "
            "such as rate=1k..200k:8"
        )
    match = _RANGE.fullmatch(text)
    return text.split(",") if match is None else _range(match)


def _range(match: re.Match[str]) -> list[str]:
    """Return whole numbers in equal ratios, from the first to the last."""
    try:
        first, last, steps = (positive_count(match[name]) for name in ("first", "last", "steps"))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--sweep: {error}") from None
    if not 1 < steps <= MOST_POINTS:
        raise UsageError(f"--sweep: a range has 2 to {MOST_POINTS} steps, not {steps}")
    ratio = last / first
    numbers = [round(first * ratio ** (step / (steps - 1))) for step in range(steps)]
    return [str(number) for number in dict.fromkeys(numbers)]


def _point(parser: ArgumentParser, axes: dict[str, list[str]], values: tuple[str, ...]) -> Point:
    named = dict(zip(axes, values, strict=True))
    try:
        given = given_by(parser, [f"--{name}={value}" for name, value in named.items()])
    except UsageError as error:
        raise UsageError(f"--sweep: {error}") from None
    return Point(named, given)
