"""Requests and replies: what became of each request, and how long its parts took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.model.distribution import Distribution

Report: TypeAlias = "Mapping[str, Any]"

_COUNTS = ("in_time", "late", "duplicate", "foreign", "timed_out")
_TIMES = ("back", "work")


def replies_of_all(reports: Iterable[Report | None]) -> Report | None:
    """Return the replies of all requesters (`Replies.document`); None of no requester."""
    known = [one for one in reports if one is not None]
    if not known:
        return None
    counts = {name: sum(one[name] for one in known) for name in _COUNTS}
    return counts | {name: [pair for one in known for pair in one[name]] for name in _TIMES}


def request_reply(replies: Report, sent: int, unit: str) -> dict[str, Any]:
    """Return the section of a run with requests.

    Keys: ``requests`` = ``replies`` + ``timed_out`` + ``waiting``: those that had a reply in time,
    those that had none, and those whose time was not over when the run ended early; ``late``, the
    replies to timed-out ones; ``unanswered`` = ``timed_out`` - ``late``; ``duplicate`` and
    ``foreign`` replies; ``back``, from the sending of a reply to its receipt, and ``work``, from
    the receipt of a request to the sending of its reply, as :func:`.exact_latency` gives them, but
    each time to within 0.2 %; of responders that tell these.

    Args:
        replies: of all requesters.
        sent: the requests.
        unit: of the times.
    """
    answered, timed_out, late = replies["in_time"], replies["timed_out"], replies["late"]
    return {
        "requests": sent,
        "replies": answered,
        "timed_out": timed_out,
        "waiting": sent - answered - timed_out,
        "late": late,
        "unanswered": max(timed_out - late, 0),
        "duplicate": replies["duplicate"],
        "foreign": replies["foreign"],
        **{name: exact_latency(_times(replies[name]), unit) for name in _TIMES},
    }


def _times(pairs: list[list[int]]) -> Distribution:
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return Distribution.of_counted(rows[:, 0], rows[:, 1])
