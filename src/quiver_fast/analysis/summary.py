"""The ``results`` of a summary file, in upstream's shape, and the sections that we add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.delivery import receiver_alone
from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.latency import exact_latency, upstream_latency
from quiver_fast.analysis.schedule import send_schedule
from quiver_fast.analysis.series import per_second
from quiver_fast.analysis.settlement import settlement_latency
from quiver_fast.analysis.units import PER_SECOND, per_millisecond
from quiver_fast.errors import RecordError

if TYPE_CHECKING:
    from quiver_fast.records.transfers import Transfers

__all__ = ["receiver_sections", "sender_sections"]


def sender_sections(
    transfers: Transfers, rate: int = 0, schedule: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the sections of a sender's summary.

    Args:
        transfers: what the sender recorded.
        rate: the rate asked for in messages/s; 0 for none.
        schedule: the arrow's own report on the schedule, if it gave one.

    Returns:
        ``results`` in upstream's shape (times in epoch milliseconds; ``message_rate`` =
        count / (last - first send), rounded), ``series``,
        ``records``, and where they apply ``settlement`` and ``schedule``.
    """
    results = _no_results()
    _put_extent(results, "send", transfers.sent, transfers.time_unit)
    sections: dict[str, Any] = {
        "results": results,
        "series": per_second(transfers.sent, None, transfers.time_unit),
        "records": _records(transfers),
    }
    settlement = settlement_latency(transfers)
    if settlement is not None:
        sections["settlement"] = settlement
    if rate > 0:
        sections["schedule"] = send_schedule(transfers, rate, schedule)
    return sections


def receiver_sections(transfers: Transfers) -> dict[str, Any]:
    """Return the sections of a receiver's summary.

    Returns:
        ``results`` in upstream's shape (``message_rate`` = count / (last - first receive),
        rounded; latencies in milliseconds), ``latency`` (exact, in the clock's unit),
        ``delivery`` (as far as the receiver alone can tell), ``series``, ``records``.

    Raises:
        RecordError: the records are a sender's.
    """
    if transfers.received is None:
        raise RecordError("the receiver's records have no receive times")
    unit = transfers.time_unit
    latencies = Distribution.of_differences(transfers.received, transfers.sent)
    results = _no_results()
    _put_extent(results, "receive", transfers.received, unit)
    results.update(upstream_latency(latencies, unit))
    return {
        "results": results,
        "latency": exact_latency(latencies, unit),
        "delivery": receiver_alone(transfers),
        "series": per_second(transfers.received, transfers.sent, unit),
        "records": _records(transfers),
    }


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


def _put_extent(results: dict[str, Any], event: str, times: Int64Array, unit: str) -> None:
    """Fill in first and last time, count and rate, from ``times`` in the order of the records."""
    results["message_count"] = len(times)
    if len(times) == 0:
        return
    first, last = int(times[0]), int(times[-1])
    results[f"first_{event}_time"] = first // per_millisecond(unit)
    results[f"last_{event}_time"] = last // per_millisecond(unit)
    if last > first:
        results["message_rate"] = round(len(times) / ((last - first) / PER_SECOND[unit]))


def _records(transfers: Transfers) -> dict[str, Any]:
    """Return how the records were read: revision, unit, and lines that are not records."""
    return {
        "format": transfers.record_format,
        "time_unit": transfers.time_unit,
        "malformed": transfers.malformed,
        "first_malformed": _line_and_text(transfers.first_malformed),
        "truncated": transfers.truncated,
    }


def _line_and_text(malformed: tuple[int, str] | None) -> dict[str, Any] | None:
    return None if malformed is None else {"line": malformed[0], "text": malformed[1]}
