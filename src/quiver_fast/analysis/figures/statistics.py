"""The statistics of a run beyond the wrappers' summary, as one JSON section."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from quiver_fast.analysis.figures.clock import drift, offset_at_least
from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.figures.omission import CorrectedDistribution
from quiver_fast.analysis.figures.run_data import AnalysedRun, RunData
from quiver_fast.analysis.figures.sender_rate import planned_end
from quiver_fast.analysis.figures.steady import Steadiness, Steady, stalls, steady_state
from quiver_fast.analysis.figures.windows import SecondCounts, window_section
from quiver_fast.analysis.model.bounds import Sending
from quiver_fast.analysis.model.ranks import NAMES, RANKS
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.tables.latencies import Latencies, coarse

INTENDED = "intended send times"
BY_INTERVAL = "expected interval"
WITHOUT_RATE = "expected interval; the sender had no rate, so no correction is right"
# In ppm. Clocks of hosts drift by less: if latency changes faster, something delays the messages.
_MOST_DRIFT = 1000
OF_STEADY, OF_WHOLE = "steady state", "whole run"


def run_statistics(
    run: RunData, interval_seconds: float | None = None, window_seconds: int | None = None
) -> dict[str, Any]:
    """Return the section ``analysis`` of a run's document.

    Args:
        run: as a backend returned it. If another backend analysed it, its statistics are
            returned, and the next two are ignored.
        interval_seconds: the expected interval between messages, for the correction of
            coordinated omission; None for the one that the run's configuration implies.
        window_seconds: the length of the windows in ``windows``; None for no windows.

    Returns:
        ``sending_end`` (epoch seconds; None unless the run was ended by its duration),
        ``steady_state`` (its verdict, and figures of the steady state or, where there is
        none, of the whole run), ``stalls``, ``clock`` and ``coordinated_omission`` (None
        without latencies) and ``windows`` (:func:`.windows.window_section`).
        ``docs/analysis.md`` has every figure with its formula.
    """
    if isinstance(run, AnalysedRun):
        return run.statistics
    counts = arrivals(run)
    measured = run.histogram is not None and run.histogram.total > 0
    until = sending_end(run)
    return {
        "sending_end": until,
        "steady_state": _steady_section(run, counts),
        "stalls": stalls(counts, until),
        "clock": _clock_section(run) if measured else None,
        "coordinated_omission": _omission_section(run, interval_seconds) if measured else None,
        "windows": window_seconds and window_section(counts, run.histogram, window_seconds),
    }


def arrivals(run: RunData) -> SecondCounts:
    """Return messages per second: received where there is a receiver, else sent."""
    if run.receipts is not None and run.receiver is not None:
        results = run.receiver["results"]
        counts = SecondCounts.of(run.receipts)
        return counts.between(results["first_receive_time"], results["last_receive_time"])
    counts_sent = departures(run)
    if counts_sent is None:
        raise ValueError("a run has at least one end")
    return counts_sent


def departures(run: RunData) -> SecondCounts | None:
    """Return messages sent per second, where there is a sender."""
    if run.sends is None or run.sender is None:
        return None
    results = run.sender["results"]
    return SecondCounts.of(run.sends).between(results["first_send_time"], results["last_send_time"])


def sending_end(run: RunData) -> float | None:
    """Return when the sending ended, epoch seconds, of a run that was ended by its duration."""
    if run.sections["drain"] is None or run.sender is None:
        return None
    results = run.sender["results"]
    duration = int(run.sender["config"]["duration"]) * PER_SECOND["ms"]
    # Where there is a warm-up, the sending began before the measured part.
    begin = (run.sender.get("warmup") or {}).get("first_time", results["first_send_time"])
    end = planned_end(begin, results["last_send_time"] or begin, duration)
    return end / PER_SECOND["ms"]


def steadiness(run: RunData) -> Steadiness:
    """Return whether ``run`` is steady, and its steady part."""
    return _steadiness(run, arrivals(run))


def _steadiness(run: RunData, counts: SecondCounts) -> Steadiness:
    growth = run.sections["queue_growth"]
    return steady_state(
        counts,
        _asked_rate(run),
        sending_end(run),
        None if run.histogram is None or not run.histogram.total else run.histogram,
        None if growth is None else growth["per_second"],
    )


def ending(run: RunData) -> tuple[bool | None, str | None]:
    """Return whether a run did all that was asked of it, and why not.

    A run that received none of its own messages, or sent none, did not. None and None
    where no wrapper's summary tells.
    """
    ends = {"sender": run.sender, "receiver": run.receiver}
    flags, reasons = [], []
    for role, end in ends.items():
        if end is None:
            continue
        flags.append(end["complete"])
        reasons.append(end["reason"])
        if end["results"]["message_count"] == 0 and end["complete"] is not False:
            flags.append(False)
            reasons.append(f"the {role} has no messages of this run")
    complete = False if False in flags else None if None in flags else True
    return complete, "; ".join(dict.fromkeys(filter(None, reasons))) or None


def _steady_section(run: RunData, counts: SecondCounts) -> dict[str, Any]:
    """Return the verdict, and the figures of the steady state or else of the whole run."""
    found = _steadiness(run, counts)
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "step": None if found.step is None else asdict(found.step),
        "trend": None if found.trend is None else asdict(found.trend),
        "detectable_step": found.detectable_step,
        **(_whole_figures(run, counts) if found.part is None else _steady_figures(run, found.part)),
    }


def _steady_figures(run: RunData, steady: Steady) -> dict[str, Any]:
    section: dict[str, Any] = {
        "figures_of": OF_STEADY,
        "first_second": steady.first,
        "last_second": steady.last,
        "seconds": steady.seconds,
        "warm_up_seconds": steady.warm_up,
        "ramp_down_seconds": steady.ramp_down,
        "rule": steady.rule,
        "message_count": steady.count,
        "message_rate": steady.rate,
        "latency": None,
    }
    if run.histogram is not None:
        part = run.histogram.within(steady.first, steady.last)
        section["latency"] = exact_latency(part.distribution(), run.histogram.unit)
    return section


def _whole_figures(run: RunData, counts: SecondCounts) -> dict[str, Any]:
    """Return the same of all messages; the rate is that of the results."""
    end = run.receiver or run.sender
    if end is None:
        raise ValueError("a run has at least one end")
    some = len(counts.seconds) > 0
    first, last = (int(counts.seconds[n]) if some else None for n in (0, -1))
    return {
        "figures_of": OF_WHOLE,
        "first_second": first,
        "last_second": last,
        "seconds": 0 if first is None or last is None else last - first + 1,
        "warm_up_seconds": 0,
        "ramp_down_seconds": 0,
        "rule": None,
        "message_count": end["results"]["message_count"],
        "message_rate": end["results"]["message_rate"],
        "latency": end.get("latency"),
    }


def _clock_section(run: RunData) -> dict[str, Any] | None:
    if run.histogram is None:
        return None
    latencies = run.histogram.distribution()
    estimate = drift(run.histogram)
    if estimate is not None and (
        estimate.low_ppm > _MOST_DRIFT or estimate.high_ppm < -_MOST_DRIFT
    ):
        estimate = None
    return {
        "unit": run.histogram.unit,
        "offset_at_most": latencies.minimum,
        "offset_at_least": _settlement_bound(run, latencies),
        "drift_ppm": None if estimate is None else estimate.ppm,
        "drift_low_ppm": None if estimate is None else estimate.low_ppm,
        "drift_high_ppm": None if estimate is None else estimate.high_ppm,
    }


def _settlement_bound(run: RunData, latencies: Latencies) -> int | None:
    """Return the lower bound of the offset, where settlement is end to end and complete."""
    if run.settlement is None or run.sender is None or run.receiver is None:
        return None
    peer_to_peer = (run.receiver["config"] or {}).get("connection_mode") == "server"
    same_unit = run.sender["records"]["time_unit"] == run.receiver["records"]["time_unit"]
    delivery = run.delivery or {}
    clean = all(delivery.get(key) == 0 for key in ("unreceived", "duplicate", "foreign"))
    same_messages = clean and run.settlement.total == latencies.total
    if not (peer_to_peer and same_unit and same_messages):
        return None
    # Rounded so, it may be lower than necessary, and is still a lower bound.
    return offset_at_least(coarse(latencies)[0], coarse(run.settlement, upwards=True)[0])


def _asked_rate(run: RunData) -> float:
    """Return the messages/s that were asked for; 0 for none."""
    return _configured(run.sender, "rate") or _configured(run.receiver, "rate")


def _configured(end: dict[str, Any] | None, key: str) -> float:
    """Return a number of an end's configuration; 0 where that is not known."""
    config = {} if end is None else end["config"] or {}
    return float(config.get(key) or 0)


def _omission_section(run: RunData, interval_seconds: float | None) -> dict[str, Any] | None:
    if run.histogram is None:
        return None
    raw = run.histogram.distribution()
    unit = run.histogram.unit
    section: dict[str, Any] = {
        "method": None,
        "unit": unit,
        "expected_interval": None,
        "raw": _figures(raw),
        "corrected": None,
        "corrected_resolution": 1,
    }
    if interval_seconds is None and _intended(run):
        return section | {"method": INTENDED, "corrected": section["raw"]}
    if interval_seconds is None:
        return section
    # A clock shows no interval shorter than its tick: rounded up, less is put back.
    interval = max(math.ceil(interval_seconds * PER_SECOND[unit] - 1e-9), 1)
    rounded, step = coarse(raw)
    return section | {
        "method": WITHOUT_RATE if _had_no_rate(run.sender) else BY_INTERVAL,
        "expected_interval": interval,
        "corrected": _figures(CorrectedDistribution(rounded, interval)),
        "corrected_resolution": step,
    }


def _intended(run: RunData) -> bool:
    """Say whether the send times are those of a schedule, which only its arrow can know."""
    schedule = None if run.sender is None else run.sender.get("schedule")
    return schedule is not None and schedule["late_us"] is not None


def _had_no_rate(sender: dict[str, Any] | None) -> bool:
    """Say whether a sender is known to have sent as fast as its credit let it."""
    return sender is not None and bool(sender["config"]) and Sending.of(sender) is None


def _figures(latencies: Latencies | CorrectedDistribution) -> dict[str, Any]:
    values = latencies.percentiles(RANKS)
    return {
        "count": latencies.total,
        "mean": latencies.mean(),
        "percentiles": dict(zip(NAMES, values, strict=True)),
    }
