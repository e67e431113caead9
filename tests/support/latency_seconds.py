"""Latencies of runs at a fixed rate whose truth is known: honest ones, and ones that change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.steady import STEADY, Steadiness, steady_state
from quiver_fast.analysis.figures.windows import SecondCounts
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.histogram import SecondHistogram
from support.simulated_seconds import autoregression

Float64Array = NDArray[np.float64]
Random = np.random.Generator
Shape = Callable[[Random, Float64Array, int], Float64Array]
"""Makes latencies in microseconds of the times of sends, in seconds, in a run of some seconds."""

LENGTHS = (10, 30, 60, 300)
START = 1000


def _messages(random: Random, sent: Float64Array, length: int, memory: float = 0.5) -> Float64Array:
    """Return latencies around 1 ms, by a level of each second that scatters by a fifth."""
    level = autoregression(random, 1, length + 1, memory)[0][sent.astype(np.intp)]
    return 1000 * np.exp(0.2 * level + random.normal(0, 0.5, len(sent)))


def _remembering(random: Random, sent: Float64Array, length: int) -> Float64Array:
    return _messages(random, sent, length, 0.8)


def _stopped(
    sent: Float64Array, latencies: Float64Array, stops: list[tuple[float, float]]
) -> Float64Array:
    """Return latencies where nothing was received from each first time to each second one."""
    found = latencies.copy()
    for begin, end in stops:
        received = sent + found / 1e6
        held = (received >= begin) & (received < end)
        found[held] = 1e6 * (end - sent[held])
    return found


def _collected(random: Random, sent: Float64Array, length: int) -> Float64Array:
    """Return latencies with a pause of 20 to 60 ms about every five seconds."""
    begins = np.sort(random.uniform(0, length, random.poisson(length / 5)))
    stops = [(begin, begin + random.uniform(0.02, 0.06)) for begin in begins.tolist()]
    return _stopped(sent, _messages(random, sent, length), stops)


def _heavy(random: Random, sent: Float64Array, _length: int) -> Float64Array:
    return 500 * (1 + random.pareto(1.5, len(sent)))


def _cold(random: Random, sent: Float64Array, length: int) -> Float64Array:
    """Return latencies of which those of the first second are tenfold."""
    return _messages(random, sent, length) * np.where(sent < 1.5, 10, 1)


def _step(random: Random, sent: Float64Array, length: int) -> Float64Array:
    """Return latencies that are threefold from a third to two thirds of the run on."""
    return _messages(random, sent, length) * np.where(
        sent < length * random.uniform(1 / 3, 2 / 3), 1, 3
    )


def _neighbour(random: Random, sent: Float64Array, length: int) -> Float64Array:
    """Return latencies of which one in twenty is tenfold in the last half."""
    late = (sent > length / 2) & (random.random(len(sent)) < 0.05)
    return _messages(random, sent, length) * np.where(late, 10, 1)


def _visitor(random: Random, sent: Float64Array, length: int) -> Float64Array:
    """Return latencies that are tenfold in the midmost third."""
    return _messages(random, sent, length) * np.where(np.abs(sent / length - 0.5) < 1 / 6, 10, 1)


def _falling(random: Random, sent: Float64Array, length: int) -> Float64Array:
    return _messages(random, sent, length) * 50 ** (1 - sent / length)


def _growing(random: Random, sent: Float64Array, length: int) -> Float64Array:
    """Return latencies that rise to 8 s, as a queue grows."""
    return _messages(random, sent, length) + 8e6 * sent / length


def _stop(random: Random, sent: Float64Array, length: int) -> Float64Array:
    """Return latencies of a broker that is stopped for 2 s."""
    begin = random.uniform(1.5, length - 4.5)
    return _stopped(sent, _messages(random, sent, length), [(begin, begin + 2)])


HONEST: dict[str, Shape] = {
    "even": _messages,
    "AR(1), 0.8": _remembering,
    "pauses of 20 to 60 ms": _collected,
    "Pareto, 1.5": _heavy,
    "cold first second": _cold,
}
CHANGED: dict[str, Shape] = {
    "threefold from some time on": _step,
    "p99 tenfold in the last half": _neighbour,
    "tenfold for a third": _visitor,
    "falling fiftyfold": _falling,
    "rising to 8 s": _growing,
    "stopped for 2 s": _stop,
}


def judged(shape: Shape, length: int, rate: int, runs: int) -> list[Steadiness]:
    """Judge runs of ``length`` seconds in which ``rate`` messages/s were sent."""
    random = np.random.default_rng([length, rate, len(shape.__name__)])
    return [_judged(random, shape, length, rate) for _ in range(runs)]


def _judged(random: Random, shape: Shape, length: int, rate: int) -> Steadiness:
    sent = np.arange(length * rate) / rate
    latencies = np.rint(shape(random, sent, length)).astype(np.int64)
    received = sent + latencies / 1e6
    seconds = START + received.astype(np.int64)
    histogram = SecondHistogram.from_rows(seconds, latencies, np.ones_like(seconds), "us")
    counts = SecondCounts.of(Distribution.of(seconds))
    return steady_state(counts, rate, START + length, histogram)


def share_steady(shape: Shape, length: int, rate: int, runs: int) -> float:
    """Return the share of runs that are called steady."""
    return sum(one.verdict == STEADY for one in judged(shape, length, rate, runs)) / runs
