"""The results of both ends of a run: the end of the sending, the drain after it, the rates.

Of a backlog they are the time that it takes to drain, and that until latencies are as without it.

Pure functions of the facts of both files of records and of the bounds of the run. Send
and receive times are compared with each other here, so that the clocks of both ends are
taken for equal; ``clock`` of the analysis says how far they differ at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quiver_fast.analysis.figures.sender_rate import end_of_sending, sender_rate, told_rate
from quiver_fast.analysis.figures.series import percentiles_per_second
from quiver_fast.analysis.figures.steps import step_section
from quiver_fast.analysis.figures.warmup import measured_since, without_warmup
from quiver_fast.analysis.model.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.analysis.model.bounds import RunBounds

# A backlog of less than this share of the messages may be a wave, and no growth.
_GROWTH_SHARE = 0.01
# The bytes per second of smaller bodies are those of the protocol rather than theirs.
_LARGE_BODY = 10_000
# The last whole seconds of the sending show the latency without a backlog.
_STEADY_SECONDS = 5
# Latencies within this factor of that are taken for those without a backlog.
_TOLERANCE = 2


def in_unit(time: int, unit: str, other: str) -> int:
    """Return a time of one unit in another; in a coarser one that is its tick."""
    return time * PER_SECOND[other] // PER_SECOND[unit]


def pair_sections(
    sender: FileAnalysis, receiver: FileAnalysis, run: RunBounds, filtered: int | None = None
) -> dict[str, Any]:
    """Return the sections of a run that need both ends.

    Args:
        sender: the facts of the sender's file.
        receiver: the facts of the run's own messages in the receiver's file.
        run: the bounds of the run.
        filtered: messages that the receivers' filter leaves out.

    Returns:
        ``results``: ``message_count`` (received), ``duration`` in seconds, ``sender_rate``,
        ``receiver_rate`` and ``end_to_end_rate`` in messages/s; an unknown one is
        None; where bodies are large, ``body_rate``, the last one in bytes/s of bodies.
        ``drain`` and ``queue_growth``: None, or the results of :func:`_drain` and
        :func:`_growth`; a warm-up is part of these two. ``steps``: the result of
        :func:`.steps.step_section`. ``backlog`` of a run that had one
        (:func:`backlog_section`).
    """
    end = end_of_sending(sender, run)
    growth = None
    if end is not None:
        whole = _duration(sender, receiver, end)
        kept = run.not_rejected(run.due(sender.count - (filtered or 0)))
        growth = _growth(kept, receiver.count - receiver.late, whole, run)
    sent, steps = sender_rate(sender, run), step_section(sender, receiver, run)
    since = measured_since(sender, run)
    sender, receiver = without_warmup(sender, since), without_warmup(receiver, since)
    duration = _duration(sender, receiver, end)
    within = receiver.count - receiver.late
    # From its send to its receive, one message has a latency and no rate.
    known = duration is not None and duration > 0 and (end is not None or within > 1)
    rate, size = within / duration if duration and known else None, run.body_bytes or 0
    large = {} if rate is None or size < _LARGE_BODY else {"body_rate": rate * size}
    return {
        "results": {
            "message_count": receiver.count,
            "duration": duration,
            "sender_rate": told_rate(sent),
            "receiver_rate": told_rate(receiver.rate),
            "end_to_end_rate": rate,
            **large,
        },
        "drain": None if end is None else _drain(receiver),
        "queue_growth": growth,
        "steps": steps,
    } | backlog_section(receiver, run, emptied=end is not None and growth is None)


def _duration(sender: FileAnalysis, receiver: FileAnalysis, end: int | None) -> float | None:
    """Return the seconds from the first send to the end of the sending, or the last receive."""
    if sender.first_time is None:
        return None
    if end is not None:
        return (end - sender.first_time) / PER_SECOND[sender.time_unit]
    if receiver.last_time is None:
        return None
    finer = max(sender.time_unit, receiver.time_unit, key=PER_SECOND.__getitem__)
    first = in_unit(sender.first_time, sender.time_unit, finer)
    last = in_unit(receiver.last_time, receiver.time_unit, finer)
    # A clock that was set back may end before it began.
    return (last - first) / PER_SECOND[finer] if last >= first else None


def _drain(receiver: FileAnalysis) -> dict[str, Any]:
    """Return the drain after the end of the sending: ``seconds`` until the last, ``messages``."""
    seconds = 0.0
    if receiver.end is not None and receiver.latest is not None:
        seconds = (receiver.latest - receiver.end) / PER_SECOND[receiver.time_unit]
    return {"seconds": seconds, "messages": receiver.late}


def _growth(
    sent: int, within: int, duration: float | None, run: RunBounds
) -> dict[str, Any] | None:
    """Return by how much the queue grew: ``per_second``, and ``messages`` in all.

    A backlog that the credit window or a wave of 1 % explains is no growth.
    """
    backlog = sent - within
    if not duration or backlog <= max(2 * run.credit_window, _GROWTH_SHARE * sent):
        return None
    return {"per_second": backlog / duration, "messages": backlog}


def backlog_section(receiver: FileAnalysis, run: RunBounds, *, emptied: bool) -> dict[str, Any]:
    """Return the section ``backlog``: how it drained; no section for a run without a backlog.

    Keys: ``messages`` that the queue was filled with; ``seconds`` from the first receive until
    so many were received, by the count of each second and evenly within it, and ``rate`` =
    ``messages`` / ``seconds``; ``steady_p50_us``, the median of the medians of the last five
    whole seconds of the sending; ``recovered_seconds`` from the first receive until the begin
    of the first second from which on, until the end of the sending, each median is at most
    twice that. They are None where that is not known, the last two also where the queue was
    not empty at the end.

    Args:
        receiver: the facts of the run's own messages in the receiver's file.
        run: the bounds of the run.
        emptied: the run ended in order, and its queue did not hold more at the end.
    """
    if not run.backlog:
        return {}
    seconds = _draining(receiver, run.backlog)
    steady, recovered = _recovery(receiver) if emptied else (None, None)
    return {
        "backlog": {
            "messages": run.backlog,
            "seconds": seconds,
            "rate": run.backlog / seconds if seconds else None,
            "steady_p50_us": steady,
            "recovered_seconds": recovered,
        }
    }


def _draining(receiver: FileAnalysis, backlog: int) -> float | None:
    if receiver.first_time is None or receiver.last_time is None or receiver.count < backlog:
        return None
    per_second = PER_SECOND[receiver.time_unit]
    first, last = receiver.first_time / per_second, (receiver.last_time + 1) / per_second
    counts = receiver.seconds.in_memory()
    sums = np.cumsum(counts.counts)
    place = int(np.searchsorted(sums, backlog))
    second, count = int(counts.values[place]), int(counts.counts[place])
    begin, end = max(second, first), min(second + 1, last)
    part = (backlog - (int(sums[place]) - count)) / count
    return begin + part * (end - begin) - first


def _recovery(receiver: FileAnalysis) -> tuple[float | None, float | None]:
    if receiver.histogram is None or receiver.first_time is None or receiver.end is None:
        return None, None
    per_second = PER_SECOND[receiver.time_unit]
    seconds, table = percentiles_per_second(receiver.histogram, (50,))
    # Whole seconds of the sending.
    within = seconds < receiver.end // per_second
    seconds, medians = seconds[within], table[within, 0]
    if len(seconds) <= _STEADY_SECONDS:
        return None, None
    steady = float(np.median(medians[-_STEADY_SECONDS:]))
    late = np.flatnonzero(medians > _TOLERANCE * steady)
    back = int(late[-1]) + 1 if len(late) else 0
    recovered = None
    if back < len(seconds):
        recovered = max(int(seconds[back]) - receiver.first_time / per_second, 0.0)
    return steady * 1e6 / per_second, recovered
