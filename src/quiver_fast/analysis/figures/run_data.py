"""A run as every backend hands it over, and its figures: data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quiver_fast.analysis.figures.steady import STEADY
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.tables.latencies import Histogram, Latencies


@dataclass(frozen=True)
class RunFigures:
    """The figures of a run that a set compares; latencies are in milliseconds.

    Attributes:
        name: its name.
        first_receive_time, last_receive_time: epoch milliseconds; None where nothing was received.
        messages: how many the figures of ``steady`` are of.
        values: each of ``SET_FIGURES`` over the whole run; empty where nothing was received,
            without the rate where the messages are too few for one.
        steady: each of them over the steady state, likewise; over the whole run where there is
            none.
        complete: whether the run did all that was asked of it; None where that is not known.
        verdict: whether it is steady (:class:`.steady.Steadiness`).
        tick: the step of the clock that latencies are cut to, in milliseconds.
    """

    name: str
    first_receive_time: int | None
    last_receive_time: int | None
    messages: int
    values: dict[str, float]
    steady: dict[str, float]
    complete: bool | None = None
    verdict: str = STEADY
    tick: float = 0.0


@dataclass(frozen=True)
class RunData:
    """A run, as every backend hands it over; whatever an end did not record is None.

    Attributes:
        name: its name.
        sender, receiver: each end's summary in the wrappers' shape; ``config`` and the
            rest that the records do not tell are None where the wrapper's summary file
            is not beside the records.
        delivery: the counts of delivered, lost and other messages, by both ends if both are there.
        histogram: latencies by the second of receipt.
        receipts: messages received in each second.
        sends: messages sent in each second.
        settlement: settlement latencies, in the unit of the sender's records.
        sections: ``results``, ``drain``, ``queue_growth``, ``steps``: the results of both ends
            (:func:`.pair_results.pair_sections`); each None where an end is missing.
        ends: of a run of many ends, the summary of each: senders, then receivers; else None.
            ``sender`` and ``receiver`` are of all together then.
        fairness: of such a run, how evenly its messages are spread, by "senders" and "receivers"
            (:func:`.ends.fairness`).
        queues: of such a run, the figures of each queue (:func:`.ends.queues_of`).
        fan_out: of such a run whose receivers each get every message, how far they are apart
            (:func:`.fan_out.fan_out_section`); else None.
    """

    name: str
    sender: dict[str, Any] | None
    receiver: dict[str, Any] | None
    delivery: dict[str, Any] | None
    histogram: Histogram | None
    receipts: Distribution | None
    sends: Distribution | None
    settlement: Latencies | None
    sections: dict[str, Any]
    ends: list[dict[str, Any]] | None = None
    fairness: dict[str, Any] | None = None
    queues: list[dict[str, Any]] | None = None
    fan_out: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class AnalysedRun(RunData):
    """A run that was analysed where its records are: its large tables stayed there.

    ``settlement`` is None, and so is ``histogram`` unless it was wanted.

    Attributes:
        statistics: the result of :func:`.statistics.run_statistics`.
        figures: the result of :func:`.sets.run_figures`.
    """

    statistics: dict[str, Any]
    figures: RunFigures
