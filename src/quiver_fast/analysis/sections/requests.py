"""The section of requests and replies: what became of the requests, and the parts of their time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quiver_fast.analysis.sections.rows import Row, number, percentile_rows

_COUNTS = {
    "replies": "Replies",
    "timed_out": "Timed out",
    "waiting": "Waiting",
    "late": "Late",
    "unanswered": "Unanswered",
    "duplicate": "Duplicate",
    "foreign": "Foreign",
}


def request_rows(sender: Mapping[str, Any], there: Mapping[str, Any] | None) -> Iterator[Row]:
    """Yield the rows of the summary of a requester; none of a sender.

    Args:
        sender: the summary.
        there: the latencies of the receiver: the way of the requests.
    """
    asked = sender.get("request_reply")
    if asked is None:
        return
    yield number("Requests", asked["requests"], "messages")
    for key, name in _COUNTS.items():
        count = asked[key]
        shown = count if key == "replies" else count or None
        words = None if shown is None else ("Requests", f"{count:,} {name.lower()}")
        yield number(name, count, "messages", words)
    settled = sender.get("settlement")
    ways = {
        "Round trip": settled and settled["all"],
        "There": there,
        "Work": asked["work"],
        "Back": asked["back"],
    }
    for name, latencies in ways.items():
        if latencies and latencies["count"]:
            yield from percentile_rows(latencies, name, name)
