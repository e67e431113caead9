"""The ``results`` of a summary file, in upstream's shape, and the sections that we add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.figures.clock_step import set_back_ms
from quiver_fast.analysis.figures.delivery import receiver_alone
from quiver_fast.analysis.figures.latency import exact_latency, upstream_latency, with_never_sent
from quiver_fast.analysis.figures.request_reply import request_reply
from quiver_fast.analysis.figures.schedule import send_schedule, unsent_waits
from quiver_fast.analysis.figures.sender_rate import sender_rate, told_rate
from quiver_fast.analysis.figures.series import per_second
from quiver_fast.analysis.figures.warmup import measured_since, warmup_section, without_warmup
from quiver_fast.analysis.model.bounds import NOTHING_KNOWN, RunBounds
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import has_ids
from quiver_fast.records.ids import how_compared
from quiver_fast.records.layout import line_fault

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis


def sender_sections(sender: FileAnalysis, run: RunBounds = NOTHING_KNOWN) -> dict[str, Any]:
    """Return the sections of a sender's summary.

    Args:
        sender: the facts of the sender's file.
        run: the bounds of the run.

    Returns:
        ``results`` in upstream's shape (times in epoch milliseconds; ``message_rate`` is
        :func:`.sender_rate.sender_rate`, rounded), ``series``, ``records``, and where they apply
        ``settlement``, ``schedule``, ``request_reply``, ``streaming`` and ``warmup``.
    """
    since = measured_since(sender, run)
    measured = without_warmup(sender, since)
    results = _no_results()
    _put_extent(results, "send", measured, sender_rate(sender, run))
    sections: dict[str, Any] = {
        "results": results,
        "series": per_second(measured.seconds, None),
        "records": _records(sender, _is_planned(run)),
    } | warmup_section(sender, since, run)
    if sender.settlement is not None:
        sections["settlement"] = sender.settlement.section(sender.time_unit)
    if run.sending is not None:
        sections["schedule"] = send_schedule(sender, run)
    if run.replies is not None:
        sections["request_reply"] = request_reply(run.replies, sender.count, sender.time_unit)
    return sections | _streaming(sender)


def receiver_sections(
    receiver: FileAnalysis, run: RunBounds = NOTHING_KNOWN, sender: FileAnalysis | None = None
) -> dict[str, Any]:
    """Return the sections of a receiver's summary.

    Args:
        receiver: the facts of the run's own messages in the receiver's file.
        run: the bounds of the run.
        sender: the facts of its sender's file; None where there is none.

    Returns:
        ``results`` in upstream's shape (``message_rate`` = count / (last - first receive),
        or until the end of the sending where the run was ended by its duration, rounded;
        latencies in milliseconds), ``latency`` (exact, in the clock's unit),
        ``delivery`` (as far as the receiver alone can tell), ``series``, ``records``, and
        ``streaming`` and ``warmup`` where they apply.

    Raises:
        RecordError: the records are a sender's.
    """
    if receiver.histogram is None:
        raise RecordError("the receiver's records have no receive times")
    since = measured_since(sender or receiver, run)
    measured = without_warmup(receiver, since)
    unit, latencies = receiver.time_unit, measured.latencies
    unsent = Distribution.none() if sender is None else unsent_waits(sender, run, unit)
    results = _no_results()
    _put_extent(results, "receive", measured, measured.rate)
    results.update(upstream_latency(latencies, unit))
    return (
        {
            "results": results,
            "latency": exact_latency(latencies, unit) | with_never_sent(latencies, unsent, unit),
            "delivery": receiver_alone(receiver, run),
            "series": per_second(measured.seconds, measured.histogram),
            "records": _records(receiver),
        }
        | _streaming(receiver)
        | warmup_section(receiver, since, run)
    )


def unread_sections(count: int) -> dict[str, Any]:
    """Return the sections of an end of whose records only the ``count`` is known."""
    return {"results": _no_results() | {"message_count": count}}


def _no_results() -> dict[str, Any]:
    """Return upstream's ``results`` keys in order, for a run without messages."""
    return {
        "first_send_time": None,
        "last_send_time": None,
        "first_receive_time": None,
        "last_receive_time": None,
        "message_count": 0,
        "message_rate": None,
        "latency_average": None,
        "latency_quartiles": None,
        "latency_nines": None,
    }


def _put_extent(
    results: dict[str, Any], event: str, arrow: FileAnalysis, rate: float | None
) -> None:
    """Fill in count and rate, and first and last time in the order of the records."""
    results["message_count"] = arrow.count
    if arrow.first_time is None or arrow.last_time is None:
        return
    ticks = per_millisecond(arrow.time_unit)
    results[f"first_{event}_time"] = arrow.first_time // ticks
    results[f"last_{event}_time"] = arrow.last_time // ticks
    results["message_rate"] = told_rate(rate)


def _is_planned(run: RunBounds) -> bool:
    """Say whether the send times are those of a schedule, which no clock takes."""
    return run.sending is not None and run.sending.late_us is not None


def _records(arrow: FileAnalysis, planned: bool = False) -> dict[str, Any]:
    """Return how the records were read: revision, unit, ids, and their faults.

    Args:
        arrow: the facts of the file.
        planned: its times are those of a schedule. The ends of a process that is late have them
            in another order.
    """
    with_ids = arrow.record_format is not None and has_ids(arrow.record_format)
    return {
        "format": arrow.record_format,
        "time_unit": arrow.time_unit,
        "ids": how_compared(arrow.ids_hashed) if with_ids else None,
        "malformed": arrow.malformed,
        "first_malformed": _first_malformed(arrow),
        "truncated": arrow.truncated,
        "missing_bytes": arrow.missing_bytes,
        "set_back_ms": None if planned else set_back_ms(arrow.set_back, arrow.time_unit),
    }


def _streaming(arrow: FileAnalysis) -> dict[str, Any]:
    return {} if arrow.streams is None else {"streaming": arrow.streams.section()}


def _first_malformed(arrow: FileAnalysis) -> dict[str, Any] | None:
    if arrow.first_malformed is None:
        return None
    line, text = arrow.first_malformed
    fault = line_fault(text, arrow.record_format, arrow.operation, arrow.time_unit)
    return {"line": line, "text": text, "fault": fault}
