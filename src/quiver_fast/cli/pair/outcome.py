"""The outcome of a run under a load: whether the target sustained it, or why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.model.figures import FIGURES
from quiver_fast.analysis.model.units import figure_text, latency_text
from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.pair.set_sides import Measured
from quiver_fast.cli.shared.thresholds import Threshold
from quiver_fast.words import counted

# How far behind a schedule may end that no condition of latency limits, in seconds.
_UNCONDITIONED = 0.1
# More messages than were due, by this ratio, are another rate.
_AHEAD = 1.01


def outcome(taken: Measured, conditions: list[Threshold]) -> dict[str, Any]:
    """Return how a run ended, and whether it sustained the load; see :func:`failure`.

    Keys: ``complete``: it did all that was asked; ``sustained``; ``reason``: why it did not sustain
    the load, or None; ``void``: the sender itself was too late, so that nothing is known of the
    target; ``figures``: of its steady state, or of the whole run, or None where it has no rate;
    ``received``: it received messages.
    """
    found = {"complete": False, "void": False, "figures": None, "received": False}
    if taken.data is None:
        return found | {"sustained": taken.reason is None, "reason": taken.reason}
    complete = {"complete": taken.reason is None, "reason": taken.reason}
    document = run_document(taken.data, None) | complete
    figures = run_figures(taken.data).steady
    failed = failure(document, conditions)
    own = own_lateness(document, conditions) if failed else None
    return found | complete | {
        "sustained": failed is None,
        "reason": own or failed,
        "void": own is not None,
        "figures": dict(figures) if "message_rate" in figures else None,
        "received": document["receiver"]["results"]["message_count"] > 0,
    }  # fmt: skip


def failure(document: dict[str, Any], conditions: list[Threshold]) -> str | None:
    """Return why a run did not sustain its rate; None if it did.

    It did when it was complete, the sender kept its schedule, no messages queued up, all that
    was sent was received, and each condition holds.

    Args:
        document: of the run, as `quiver --json` prints it, with ``name``.
        conditions: the conditions that must hold; without any the schedule is judged as that
            of any run.
    """
    if not document["complete"]:
        return document["reason"] or "the run is incomplete"
    schedule = document["sender"].get("schedule")
    if schedule and _is_missed(schedule, conditions):
        late = max(_behind(schedule) * 10**6, (schedule["late_us"] or {}).get("max", 0))
        how = f": it was late by {latency_text(late, 'us')}" if late else ""
        return f"the sender missed its schedule{how}{_waited(schedule)}"
    growth = document["queue_growth"]
    if growth is not None:
        return f"the queue grew by {growth['per_second']:,.0f} messages/s"
    if document["delivery"]["unreceived"]:
        missing = document["delivery"]["unreceived"]
        return f"{counted(missing, 'message', ('was', 'were'))} not received"
    return next(filter(None, (_missed(one, document) for one in conditions)), None)


def own_lateness(document: dict[str, Any], conditions: list[Threshold]) -> str | None:
    """Return how late the sender was itself, if that is why a run did not sustain its rate.

    It is why where most of the delay is the sender's own, and the rest would be in time. Such
    a run says nothing about its target.
    """
    schedule = document["sender"].get("schedule") or {}
    if not document["complete"] or not schedule.get("late_by_us"):
        return None
    values = [(one.figure.rank, one.in_run(document).value, one.limit) for one in conditions]
    found = [(rank, value, limit) for rank, value, limit in values if rank and value is not None]
    if _is_missed(schedule, conditions):
        found.append((100.0, 1000 * _behind(schedule), 1000 * _allowed(schedule, conditions)))
    for rank, value, limit in found:
        own = _own_delay(schedule["late_by_us"], rank) / 1000
        if value >= limit and own >= value / 2 and value - own < limit:
            return f"void: the sender was late itself, by {latency_text(1000 * own, 'us')}"
    return None


def _own_delay(causes: Mapping[str, Mapping[str, float]], rank: float) -> float:
    """Return the sender's own delay (us) at the highest percentile up to ``rank`` that is known.

    It is 0 where messages waited longer for their target at that percentile.
    """
    ranks = {name: FIGURES[name].rank or 0 for name in causes["itself"]}
    known = [name for name, percent in ranks.items() if percent <= rank]
    name = max(known, key=lambda one: ranks[one], default="p50")
    own = max(causes, key=lambda cause: causes[cause][name]) == "itself"
    return causes["itself"][name] if own else 0.0


def _is_missed(schedule: Mapping[str, Any], conditions: Sequence[Threshold]) -> bool:
    """Say whether messages that were due at the end were never sent, or too late to be in time.

    Delays of messages that were sent are in their latencies, which the conditions judge.
    """
    if not conditions or not schedule["due"] or not schedule["sent"]:
        return bool(schedule["missed"])
    ahead = schedule["sent"] > _AHEAD * schedule["due"] + 1
    return ahead or _behind(schedule) > _allowed(schedule, conditions)


def _behind(schedule: Mapping[str, Any]) -> float:
    """Return how long the first message had waited, in seconds, that was due and never sent."""
    return float((schedule["never_sent"] or 0) / (schedule["rate"] or 1))


def _allowed(schedule: Mapping[str, Any], conditions: Sequence[Threshold]) -> float:
    """Return how far behind, in seconds, a schedule may end.

    A condition of 50 ms allows 50 ms, and one for 99 % of the messages also that the last 1 %
    wait longer. A tenth of the time is too much in any case: the rate is a tenth lower then.
    """
    passed = schedule["due"] / schedule["rate"]
    limits = [
        one.limit / 1000 + (1 - one.figure.rank / 100) * passed
        for one in conditions
        if one.figure.rank
    ]
    return float(min([*limits, passed / 10] if limits else [_UNCONDITIONED, passed / 10]))


def _waited(schedule: Mapping[str, Any]) -> str:
    """Say for what messages waited longest before they were sent."""
    causes = schedule.get("late_by_us") or {}
    cause = max(causes, key=lambda one: causes[one]["max"], default=None)
    if cause in (None, "itself") or not causes[cause]["max"]:
        return ""
    return f", and {LATE_BY[cause]}"


def _missed(condition: Threshold, document: dict[str, Any]) -> str | None:
    """Return by how much a condition does not hold; None if it holds."""
    found = condition.in_run(document)
    if found.holds:
        return None
    value, limit, name = found.value, condition.limit, condition.figure.name
    if value is None:
        return found.reason
    text = f"{name} is {figure_text(value, condition.figure.unit)}"
    if text.endswith(f" {figure_text(limit, condition.figure.unit)}"):
        return f"{name} is at the limit of {condition.condition}"
    if not limit:
        return text
    share = abs(value / limit - 1)
    far = f"{share:.{1 if share < 0.1 else 0}%}" if share >= 0.0005 else "less than 0.1%"
    return f"{text}, {far} beyond {condition.condition}"
