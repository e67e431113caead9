"""The warning that senders and receivers ended at different servers; and the begin of faults."""

from __future__ import annotations

import time
from typing import Any

import pytest

from quiver_fast.cli.arrow.verdict import pair_warnings
from quiver_fast.cli.pair.run import holds_soon

URL = "amqp://h/q"
OTHER = "other:5673"


def end(operation: str, *places: str | None, members: int = 1) -> dict[str, Any]:
    """Return an end of one connection for each member, whose last one alone was lost."""
    config = {"operation": operation, "url": URL, "ends": {"members": members}}
    lost = [
        {"ends": [members - 1] * 2, "back_at": None if place is None else 1, "place": place}
        for place in places
    ]
    return {"config": config, "failures": lost}


def warnings(*ends: dict[str, Any], unreceived: int = 3) -> list[str]:
    document = {
        "sender": None, "receiver": None, "delivery": {"unreceived": unreceived}, "ends": ends,
        "clock_step": None, "queue_growth": None,
    }  # fmt: skip
    return list(pair_warnings(document))


@pytest.mark.parametrize(
    ("ends", "places"),
    [
        ((end("send", OTHER), end("receive")), (OTHER, "h:5672")),
        ((end("send"), end("receive", "h:5672", OTHER)), ("h:5672", OTHER)),
        ((end("send", OTHER, members=2), end("receive", OTHER)), (f"h:5672, {OTHER}", OTHER)),
        ((end("send", OTHER, None), end("receive")), (OTHER, "h:5672")),
    ],
)
def test_ends_at_other_places_are_told(
    ends: tuple[dict[str, Any], ...], places: tuple[str, str]
) -> None:
    [warning] = warnings(*ends)
    assert warning.startswith("senders ended at {}, and receivers at {}: ".format(*places))
    assert warnings(*ends, unreceived=0) == []


@pytest.mark.parametrize(
    "ends",
    [
        (end("send", OTHER), end("receive", OTHER)),
        (end("send", OTHER, "h:5672"), end("receive")),
        (end("send"), end("receive", None)),
    ],
)
def test_ends_at_the_same_places_are_not(ends: tuple[dict[str, Any], ...]) -> None:
    assert warnings(*ends) == []


def test_a_begin_is_seen_at_once() -> None:
    """The run is looked at ten times a second only."""
    due = time.monotonic() + 0.03
    assert holds_soon(lambda: time.monotonic() >= due)
    assert time.monotonic() >= due
    assert not holds_soon(lambda: False)
