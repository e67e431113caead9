"""When unreceived messages are lost: all combinations of what the ends' summaries tell."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from quiver_fast.analysis.model.bounds import RunBounds, was_emptied


def sender(arrow: Any = None, **config: Any) -> dict[str, Any]:
    return {"config": config, "complete": True, "arrow": arrow}


def drained(boot: str | None, ns: int, *, told: bool = False) -> dict[str, Any]:
    return {"drained_at": {"boot": boot, "ns": ns, "senders_ended": told}}


def settled(boot: str | None, ns: int) -> dict[str, Any]:
    return {"settled_at": {"boot": boot, "ns": ns}}


@pytest.mark.parametrize("told", [True, False])
def test_the_order_of_settling_and_draining(told: bool) -> None:
    """The wrapper knows it, or one clock of one boot does."""
    for boot, other, ns in product(["a", None], ["a", "b", None], [4, 5, 6]):
        arrow = drained(other, ns, told=told)
        run = RunBounds.of(sender(settled(boot, 5)), {"config": {}, "arrow": arrow})
        one_clock = boot is not None and boot == other
        assert run.emptied == (told or (one_clock and ns >= 5)), (boot, other, ns)
        assert run.lost(3) == (3 if run.emptied else None)
        assert run.lost(0) == 0


@pytest.mark.parametrize(
    ("send", "receive"),
    [
        (None, {"arrow": drained("a", 9, told=True)}),
        (sender({"settled_at": None}), {"arrow": drained("a", 9, told=True)}),
        # A report of an earlier version.
        (sender({"unsettled": 0}), {"arrow": drained("a", 9, told=True)}),
        # A sender of another implementation that failed, or was killed.
        (sender() | {"complete": False}, {"arrow": drained("a", 9, told=True)}),
        (sender() | {"complete": None}, {"arrow": drained("a", 9, told=True)}),
        (sender(), {"arrow": drained("a", 9)}),
        (sender(settled("a", 1)), None),
        (sender(settled("a", 1)), {"arrow": None}),
        (sender(settled("a", 1)), {"arrow": {"drained_at": None, "queue_empty": False}}),
        (sender(settled("a", 1)), {"arrow": {"queue_empty": True}}),
        (sender(settled("a", 1), ttl=5), {"arrow": drained("a", 9, told=True)}),
    ],
)
def test_nothing_is_proven(send: dict[str, Any] | None, receive: dict[str, Any] | None) -> None:
    run = RunBounds.of(send, receive)
    assert not run.emptied
    assert (run.lost(0), run.lost(1)) == (0, None)


def test_a_sender_without_a_report_ends_in_order_when_all_is_settled() -> None:
    assert was_emptied([sender()], [{"arrow": drained("a", 9, told=True)}])
    assert not was_emptied([], [{"arrow": drained("a", 9, told=True)}])
    assert not was_emptied([sender()], [])


def test_messages_that_the_peer_refused_are_not_lost() -> None:
    report = settled("a", 1) | {"rejected": 2, "released": 1, "modified": 1, "aborted": 1}
    run = RunBounds.of(sender(report), {"arrow": drained("a", 9)})
    assert [run.lost(unreceived) for unreceived in (0, 4, 5, 7)] == [0, 0, 0, 2]


def test_a_router_tells_the_sender_what_the_receiver_rejected() -> None:
    """Of 5 rejections of each side, the same messages are in both, or others; 2 were lost or 7."""
    report = settled("a", 1) | {"rejected": 5}
    run = RunBounds.of(sender(report), {"arrow": drained("a", 9) | {"rejected": 5}})
    assert [run.lost(unreceived) for unreceived in (0, 2, 7)] == [0, None, None]


@pytest.mark.parametrize(
    ("modify", "dead", "left"),
    [
        (None, None, 8),
        ("1%:failed", None, 8),
        ("1%:failed:undeliverable", None, 5),
        ("1%:undeliverable", {"count": 4}, 5),
        ("1%:failed", {"count": 1}, 8),
        ("1%:failed", {"count": 7}, 3),
        ("1%:x-why=undeliverable", None, 8),
    ],
)
def test_refused_messages_and_dead_letters_are_not_unreceived(
    modify: str | None, dead: dict[str, int] | None, left: int
) -> None:
    report = {"rejected": 2, "modified": 3}
    receiver = {"config": {"modify": modify}, "arrow": report, "dead_letters": dead}
    run = RunBounds.of(None, receiver)
    assert run.not_rejected(10) == left
    assert run.modified == (3 if modify else None)
    assert run.dead_lettered == (dead["count"] if dead else None)


@pytest.mark.parametrize("told", [True, False])
def test_another_queue_was_drained(told: bool) -> None:
    """A wrapper runs the ends of its queues; two arrows by hand may have queues of their own."""
    there = {"config": {"url": "//a/q1"}, "arrow": drained("a", 9, told=told)}
    for url, proven in (("//a/q0", told), ("//a/q1", True)):
        assert RunBounds.of(sender(settled("a", 1), url=url), there).emptied == proven


@pytest.mark.parametrize("complete", [True, False, None])
def test_no_queue_is_between_peers(complete: bool | None) -> None:
    run = RunBounds(peer_to_peer=True, complete=complete)
    assert run.lost(3) == (3 if complete else None)
