"""Late messages in words: how much of a latency they are, whose fault, and advice."""

from __future__ import annotations

from quiver_fast.analysis.figures.environment import host_use_text, starved_text
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.model.figures import Document
from quiver_fast.analysis.model.units import latency_text, per_millisecond

# Why messages went late, and advice; None is not known.
_CAUSES = {
    "credit": (
        "is the time that messages waited for credit",
        "the target took none then: it, its receivers or the path were slow, or stood still",
    ),
    "socket": (
        "is the time that messages waited for room in the socket",
        "the target read too slowly, or stood still",
    ),
    "outcomes": (
        "is the time that messages waited for outcomes of others",
        "the target was slow to settle or to commit, or stood still",
    ),
    "itself": (
        "arose before sending, because the sender was late",
        "give it a CPU of its own, or ask for a lower rate",
    ),
    None: ("is the delay of messages that went late", "their sender does not say why"),
}
_OWN_SHARE = 0.1
# A sleeper of the kernel may wake so late: no CPU of its own would change that.
_NO_REASON_US = 100


def lateness_lines(
    schedule: Document, latencies: Document, host_use: Document | None = None
) -> list[str]:
    """Say how much of the latency is the delay of sends, and why, where it is more than a tenth.

    A latency counts from the intended send time, so it has all of the send delay in it. The use of
    the sender's host may tell why: the target or the receivers may be on it, too.
    """
    shares = {}
    for name, late in (schedule["late_us"] or {}).items():
        rank = "100" if name == "max" else name.removeprefix("p")
        ticks = latencies["percentiles"].get(rank)
        if ticks and late > _NO_REASON_US:
            shares[name] = late * per_millisecond(latencies["unit"]) / (1000 * ticks)
    worst = max(shares, key=shares.__getitem__, default=None)
    if worst is None or shares[worst] <= _OWN_SHARE:
        return []
    share = min(100, round(100 * shares[worst]))
    parts = schedule.get("late_by_us") or {}
    cause = max(parts, key=lambda one: parts[one].get(worst, 0), default=None)
    why, advice = _CAUSES[cause]
    rank = "maximum" if worst == "max" else f"{worst.removeprefix('p')} %"
    lines = [f"{share} % of the {rank} latency {why}:", advice]
    busy = host_use and host_use_text(host_use, notable=True)
    whose = "its" if cause in ("itself", None) else "the sender's"
    return [*lines, f"({whose} host: {busy})"] if busy else lines


def late_by_rows(schedule: Document) -> list[tuple[str, str]]:
    """Return the words and the figures of each cause of delays; none where all are its own."""
    parts = schedule.get("late_by_us") or {}
    found = {cause: parts[cause] for cause in LATE_BY if parts.get(cause, {}).get("max")}
    if found.keys() <= {"itself"}:
        return []
    return [
        (LATE_BY[cause], ", ".join(f"{k} {latency_text(of[k], 'us')}" for k in ("p99.9", "max")))
        for cause, of in found.items()
    ]


def starved_lines(run: Document) -> list[str]:
    """Name the ends that did not get the CPU that they needed; none where all did."""
    known = [(role, run.get(role) or {}) for role in ("sender", "receiver")]
    found = [starved_text(role, end.get("host_use")) for role, end in known]
    return [text for text in found if text is not None]
