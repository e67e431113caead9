"""Axes of the charts of a page: where a value is on them, and the marks that people read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from quiver_fast.analysis.model.distribution import Float64Array
from quiver_fast.analysis.model.ranks import AXIS
from quiver_fast.analysis.model.units import fine_text

Transform = Callable[[Float64Array], Float64Array]

TIME = "time from the start"
"""The name of an axis of the time."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_MARKS = 6
# Round steps of a time axis, in seconds.
_TIME_STEPS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600,
    43200, 86400, 172800, 432000, 864000,
)  # fmt: skip
_TIME_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_PREFIXES = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))


@dataclass(frozen=True)
class Scale:
    """One axis.

    Attributes:
        name: the quantity, with its unit where the marks do not have it.
        low, high: the values at its ends.
        marks: values, and the text at each.
        transform: makes values linear on the axis.
    """

    name: str
    low: float
    high: float
    marks: tuple[tuple[float, str], ...]
    transform: Transform = np.asarray

    def places(self, values: ArrayLike) -> Float64Array:
        """Return where ``values`` are: 0 at the low end, 1 at the high one."""
        ends = self.transform(np.array([self.low, self.high], np.float64))
        found = self.transform(np.asarray(values, np.float64))
        places: Float64Array = (found - ends[0]) / (ends[1] - ends[0])
        return places

    def place(self, value: float) -> float:
        """Return where one value is."""
        return float(self.places([value])[0])


def count_scale(name: str, highest: float, suffix: str = "", low: float = 0.0) -> Scale:
    """Return an axis of numbers from zero, or ``low``, to above ``highest``."""
    span = highest - low if highest > low else 1.0
    step = _nice_step(span / (_MOST_MARKS - 2))
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(highest / step - 1e-9), first + 1)
    marks = tuple((n * step, _with_unit(n * step, suffix)) for n in range(first, last + 1))
    return Scale(name, first * step, last * step, marks)


def _with_unit(value: float, unit: str) -> str:
    """Return ``20 MB`` and ``0 B``: a unit follows a prefix, or a blank."""
    text = number_mark(value)
    return f"{text} {unit}" if unit[:1].isalpha() and " " not in text else text + unit


def number_mark(value: float) -> str:
    """Return a number at an axis: ``20 k``, ``2.5 M``."""
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor * (1 - 1e-9):
            return f"{value / factor:.6g}{prefix}"
    return f"{value:.6g}"


def time_scale(seconds: float) -> Scale:
    """Return an axis of the time from the start to ``seconds``."""
    span = max(seconds, 1e-3)
    fitting = [step for step in _TIME_STEPS if span / step <= _MOST_MARKS]
    step = fitting[0] if fitting else _TIME_STEPS[-1] * math.ceil(span / _TIME_STEPS[-1] / 5)
    factor, unit = next(((f, u) for f, u in _TIME_UNITS if step >= f), (1, "s"))
    count = math.floor(span / step + 1e-9)
    marks = tuple((n * step, f"{n * step / factor:.6g} {unit}") for n in range(count + 1))
    return Scale(TIME, 0.0, span, marks)


def percentile_scale(total: int) -> Scale:
    """Return an axis of percentiles for so many samples: each nine takes the same space.

    The values on it are 1 / (1 - percentile / 100).
    """
    high = float(max(total, 10))
    marks = [(1 / (1 - rank / 100), f"{rank:g}") for rank in AXIS]
    return Scale("percentile", 1.0, high, tuple(mark for mark in marks if mark[0] <= high), _log)


def latency_scale(
    low: float,
    high: float,
    tick: float,
    name: str = "latency",
    margin: float = 1.15,
    apart: float = 0.085,
) -> Scale:
    """Return an axis of latencies, logarithmic beyond one tick of the clock, linear within.

    Args:
        low: the least that is shown, milliseconds; signed.
        high: the greatest.
        tick: of the clock, milliseconds.
        name: the quantity.
        margin: how far the axis goes beyond both, as a factor.
        apart: the least distance of two marks, as a share of the axis.
    """
    if high <= low:
        low, high = min(low, low / 2), max(high * 2, low + tick)
    low = low * margin if low < 0 else low if low <= tick else low / margin
    high = high / margin if high < 0 else high * margin
    transform = signed_log(tick)
    return Scale(
        name, low, high, tuple(_latency_marks(low, high, tick, transform, apart)), transform
    )


def signed_log(tick: float) -> Transform:
    """Return the transform that is logarithmic beyond ``tick`` on both sides of zero."""

    def transform(values: Float64Array) -> Float64Array:
        size = np.abs(values) / tick
        # Continuous at one tick, so that few ticks are not crowded at the low end.
        scaled = np.where(size <= 1, size, 1 + np.log10(np.maximum(size, 1)))
        return np.sign(values) * scaled

    return transform


def _latency_marks(
    low: float, high: float, tick: float, transform: Transform, least: float
) -> list[tuple[float, str]]:
    """Return marks of decades; with those between where there are few, thinned where many."""
    for steps in ((1, 2, 5), (1, 3), (1,)):
        values = _round_values(steps, low, high, tick)
        if len(values) <= _MOST_MARKS + 1:
            break
    if len(values) < 2:
        # Within one round value and the next: linear steps are nearly even there.
        step = _nice_step((high - low) / 4)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        values = [n * step for n in range(first, last + 1)]
    kept = _apart(values, low, high, transform, least)
    return [(value, short_latency(value)) for value in kept]


def _round_values(steps: Iterable[int], low: float, high: float, tick: float) -> list[float]:
    largest = max(abs(low), abs(high))
    decades = range(math.floor(math.log10(tick)), math.ceil(math.log10(max(largest, tick))) + 1)
    sizes = [step * 10.0**decade for decade in decades for step in steps]
    sizes = [size for size in sizes if size >= tick * (1 - 1e-9)]
    values = sorted([*(-size for size in sizes), 0.0, *sizes])
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def _apart(
    values: list[float], low: float, high: float, transform: Transform, least: float
) -> list[float]:
    """Leave out marks that would be written over the one before."""
    ends = transform(np.array([low, high]))
    places = (transform(np.array(values)) - ends[0]) / (ends[1] - ends[0])
    kept, last = [], -1.0
    for value, place in zip(values, places.tolist(), strict=True):
        if place - last >= least:
            kept.append(value)
            last = place
    return kept


def short_latency(milliseconds: float) -> str:
    """Return a latency at an axis: ``5 ms``, ``20 us``."""
    nanoseconds = round(milliseconds * 1e6)
    if nanoseconds == 0:
        return "0"
    return fine_text(float(f"{nanoseconds:.3g}"), "ns")


def _log(values: Float64Array) -> Float64Array:
    found: Float64Array = np.log10(values)
    return found


def _nice_step(least: float) -> float:
    """Return 1, 2, 2.5 or 5 of a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in _STEPS if step * power >= least * (1 - 1e-9))
