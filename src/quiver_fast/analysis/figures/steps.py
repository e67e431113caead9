"""The figures of each step of a rate that changed: of the messages that were due in it.

A message is due at its send time, which the sender of a schedule takes from that. Steps begin at
the first send of the run; of many ends, at the first one of all. They are told apart to a tick of
the receiver's clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from quiver_fast.analysis.figures.file_analysis import FileAnalysis, Steps
from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.figures.sender_rate import end_of_sending, sending_ns
from quiver_fast.analysis.figures.warmup import measured_since
from quiver_fast.analysis.model.distribution import Distribution, Int64Array
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.rate_steps import RateStep

if TYPE_CHECKING:
    from quiver_fast.analysis.model.bounds import RunBounds

_SECOND = 10**9


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Which step a send time is of.

    Attributes:
        begins: int64[n], ascending: the time with which each step begins.
        since: the time before which a message is of no step.
    """

    begins: Int64Array
    since: int

    @classmethod
    def of(cls, sender: FileAnalysis, run: RunBounds, unit: str) -> StepTimes | None:
        """Return the times of a run's steps in ``unit``; None where it has none."""
        if not run.steps or sender.first_time is None:
            return None
        ticks = PER_SECOND[unit]
        first = sender.first_time * ticks // PER_SECOND[sender.time_unit]
        begins = np.array([first + begin * ticks for begin in step_begins(run.steps)], np.int64)
        since = measured_since(sender, run)
        return cls(begins, first if since is None else max(since * ticks, first))

    def numbers(self, sent: Int64Array) -> Int64Array:
        """Return the number of the step of each send time; -1 for none."""
        found = np.searchsorted(self.begins, sent, "right") - 1
        numbers: Int64Array = np.where(sent >= self.since, found, -1)
        return numbers

    def sent_of(self, sender: FileAnalysis) -> Distribution:
        """Return how many messages of each step were sent; its sends per tick were kept."""
        counts = np.zeros(len(self.begins), np.int64)
        for rows in sender.send_ticks.rows.chunks():
            numbers = self.numbers(rows[:, 0])
            np.add.at(counts, numbers[numbers >= 0], rows[numbers >= 0, 1])
        return Distribution.of_counted(np.arange(len(counts)), counts)


def planned_steps(steps: Sequence[RateStep]) -> tuple[RateStep, ...]:
    """Return the steps, and the rate that goes on after a ramp."""
    last = steps[-1].last
    return (*steps, RateStep(last, last, 0)) if steps[-1].first != last else tuple(steps)


def step_begins(steps: Sequence[RateStep]) -> list[int]:
    """Return when each step begins, in seconds."""
    return [0, *accumulate(step.seconds for step in steps)][: len(planned_steps(steps))]


def step_section(
    sender: FileAnalysis, receiver: FileAnalysis, run: RunBounds
) -> list[dict[str, Any]] | None:
    """Return the figures of each step that began before the sending ended; None without steps.

    Keys: ``first_rate`` and ``last_rate`` that were asked for, in messages/s; ``begin`` and
    ``end`` in seconds since the first send, between which messages were counted: without a
    warm-up, and until the sending ended; ``sent`` and ``received``, of the messages that were due
    then; ``achieved`` = ``sent`` / (``end`` - ``begin``), None when that is no time; and
    ``latency`` (:func:`.latency.exact_latency`).
    """
    if receiver.steps is None or sender.first_time is None:
        return None
    return list(_sections(sender, receiver.steps, run))


def _sections(sender: FileAnalysis, found: Steps, run: RunBounds) -> Iterator[dict[str, Any]]:
    since, passed = _measured(sender, run)
    steps, begins = planned_steps(run.steps), step_begins(run.steps)
    sent = dict(zip(found.sent.values.tolist(), found.sent.counts.tolist(), strict=True))
    for number, (step, planned) in enumerate(zip(steps, begins, strict=True)):
        begin = max(float(planned), since)
        # The last rate lasts until the end.
        end = passed if number == len(steps) - 1 else min(float(begins[number + 1]), passed)
        if end <= begin and number not in sent:
            continue
        part = found.latencies.within(number, number)
        latencies = part.distribution() if part.total else Distribution.none()
        count = sent.get(number, 0)
        yield {
            "first_rate": _number(step.first),
            "last_rate": _number(step.last),
            "begin": begin,
            "end": end,
            "sent": count,
            "received": latencies.total,
            "achieved": count / (end - begin) if end > begin else None,
            "latency": exact_latency(latencies, found.latencies.unit),
        }


def _measured(sender: FileAnalysis, run: RunBounds) -> tuple[float, float]:
    """Return from when until when messages count, in seconds since the first send."""
    ticks, first = PER_SECOND[sender.time_unit], sender.first_time or 0
    since = measured_since(sender, run)
    begin = 0.0 if since is None else max(since * ticks - first, 0) / ticks
    passed = sending_ns(sender, run)
    if passed is not None:
        return begin, passed / _SECOND
    end = end_of_sending(sender, run)
    last = sender.last_time if end is None else end
    return begin, max((last or first) - first, 0) / ticks


def _number(rate: Any) -> float:
    return rate if isinstance(rate, int) else float(rate)
