"""The points of `quiver --sweep`: values of one option, or of two in all combinations."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quiver_fast.cli.pair.options import measuring_parser
from quiver_fast.cli.pair.workload import given_by, options_of
from quiver_fast.cli.shared.common import ArgumentParser
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
    return points


def _values(sweep: str, text: str) -> list[str]:
    if not text:
        raise UsageError(
            f"--sweep: '{sweep}' is not OPTION=A,B,C or OPTION=FROM..TO:STEPS, "
            "such as rate=1k..200k:8"
        )
    match = _RANGE.fullmatch(text)
    values = text.split(",") if match is None else _range(match)
    if len({*values}) < len(values):
        raise UsageError(f"--sweep: '{sweep}' has a value twice")
    return values


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
