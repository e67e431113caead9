"""Whether a trial of a search is sustained, missed, or void; and the report of a search."""

from __future__ import annotations

import re
from typing import Any

import pytest

from quiver_fast.analysis.read.answer_file import SEARCH
from quiver_fast.cli.pair.figures_text import campaign_text
from quiver_fast.cli.pair.outcome import failure, own_lateness
from quiver_fast.cli.pair.warm_up import is_steady, warm_up_text
from quiver_fast.cli.shared.thresholds import required_conditions

RATE, SECONDS = 2000, 2.4
DUE = int(RATE * SECONDS)
NAMES = ("p50", "p99", "p99.9", "max")


def delays(milliseconds: float) -> dict[str, float]:
    """Return delays of the slowest percent, in microseconds."""
    return {name: 0 if name == "p50" else 1000 * milliseconds for name in NAMES}


def trial(
    never_sent: int = 0,
    latency: float = 1,
    itself: float = 0,
    credit: float = 0,
    **changed: Any,
) -> dict[str, Any]:
    """Return the document of a trial: a p99 and a maximum of latency, and delays, all in ms."""
    schedule = {
        "rate": RATE, "due": DUE, "sent": DUE - never_sent, "never_sent": never_sent,
        "achieved": (DUE - never_sent) / SECONDS, "late_us": delays(max(itself, credit)),
        "late_by_us": {
            "credit": delays(credit), "socket": delays(0), "outcomes": delays(0),
            "itself": delays(itself),
        },
        "missed": never_sent > DUE / 1000,
    }  # fmt: skip
    percentiles = dict.fromkeys(("50", "90"), 500) | dict.fromkeys(("99", "100"), 1000 * latency)
    return {
        "name": "run-01", "complete": True, "reason": None, "queue_growth": None,
        "sender": {"schedule": schedule | changed},
        "receiver": {
            "latency": {"unit": "us", "percentiles": percentiles},
            "results": {"message_rate": RATE},
        },
        "delivery": {"unreceived": 0},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "pause", "missed"),
    [
        # A pause of so many milliseconds at the end of the trial.
        ("max<50ms", 3, False),
        ("max<50ms", 40, False),
        ("max<50ms", 60, True),
        # One message in a hundred may wait longer.
        ("p99<10ms", 30, False),
        ("p99<10ms", 60, True),
        ("p99<10ms and max<20ms", 30, True),
        # A tenth of the time is another rate, whatever is allowed.
        ("max<10s", 230, False),
        ("max<10s", 300, True),
        ("rate<1m", 3, False),
        ("rate<1m", 200, True),
    ],
)
def test_a_schedule_is_missed_beyond_what_the_condition_allows(
    condition: str, pause: int, missed: bool
) -> None:
    found = failure(trial(never_sent=RATE * pause // 1000), required_conditions(condition))
    assert (found is not None) == missed
    assert found is None or found.startswith(
        f"the sender missed its schedule: it was late by {pause}"
    )


def test_without_a_condition_the_schedule_is_that_of_any_run() -> None:
    assert failure(trial(never_sent=20), []) == (
        "the sender missed its schedule: it was late by 10.0 ms"
    )
    assert failure(trial(never_sent=2), []) is None


def test_the_wait_is_named() -> None:
    found = failure(trial(never_sent=400, credit=100), required_conditions("max<150ms"))
    assert found == "the sender missed its schedule: it was late by 200 ms, and waited for credit"


def test_more_messages_than_were_due_are_another_rate() -> None:
    found = failure(trial(sent=2 * DUE), required_conditions("max<50ms"))
    assert found == "the sender missed its schedule"


@pytest.mark.parametrize(
    ("condition", "document", "void"),
    [
        ("p99<10ms", trial(latency=30, itself=28), "void: the sender was late itself, by 28.0 ms"),
        ("max<50ms", trial(latency=80, itself=75), "void: the sender was late itself, by 75.0 ms"),
        # The target kept it waiting.
        ("p99<10ms", trial(latency=30, credit=28), None),
        ("p99<10ms", trial(latency=60, credit=40, itself=28), None),
        # The rest of the delay is too long, too.
        ("p99<10ms", trial(latency=60, itself=40), None),
        # All of the sender's delay is allowed.
        ("max<50ms", trial(latency=30, itself=28), None),
        (
            "max<50ms",
            trial(never_sent=120, latency=1, itself=60),
            "void: the sender was late itself, by 60.0 ms",
        ),
        ("max<50ms", trial(never_sent=120, latency=1, credit=60), None),
        ("rate<1k", trial(itself=60), None),
        ("p99<10ms", trial(latency=30, late_by_us=None), None),
    ],
)
def test_a_sender_that_was_late_itself_says_nothing_about_the_target(
    condition: str, document: dict[str, Any], void: str | None
) -> None:
    assert own_lateness(document, required_conditions(condition)) == void


def test_no_reason_has_two_equal_numbers() -> None:
    assert failure(trial(), required_conditions("rate<2000")) == "rate is at the limit of rate<2000"
    assert failure(trial(), required_conditions("rate<1999.9")) == (
        "rate is 2,000 messages/s, less than 0.1% beyond rate<1999.9"
    )


def found_document(**changed: Any) -> dict[str, Any]:
    side = {"rate": 4000, "runs": 3, "sustained": 3}
    found = {
        "rate": 4000, "low": 3900, "high": 4100, "confirmed": True,
        "confirmation": {"at": side, "above": side | {"rate": 4100, "sustained": 0}},
        "stalled": {"failed": 0, "runs": 7}, "reason": None, "steps": [],
    }  # fmt: skip
    return {
        "output_dir": "out", "target": "pyfast, //h/q", "conditions": ["p99<10ms"], "reason": None,
        "found_rate": found | changed,
    }  # fmt: skip


def test_an_answer_without_confirmation_says_so_first() -> None:
    lines = campaign_text(SEARCH, found_document(confirmed=False, confirmation=None)).splitlines()
    assert lines[3].startswith("Sustained ..")
    assert lines[3].endswith(" 4,000/s (unconfirmed)")
    assert campaign_text(SEARCH, found_document()).splitlines()[3].endswith(". 4,000/s")


def test_trials_that_fail_at_any_rate_are_told() -> None:
    text = campaign_text(SEARCH, found_document(stalled={"failed": 2, "runs": 9}))
    assert re.search(r"Stalled \.+ 2 of 9 trials below failed: not by the rate", text)


def test_a_warm_up_ends_when_the_rate_is_steady() -> None:
    assert not is_steady([100, 101, 99])
    assert not is_steady([100, 500, 800, 950])
    assert is_steady([100, 500, 950, 1000, 980, 1010])
    found = {"seconds": 14.2, "rates": [900.0, 48211.4], "steady": True, "reason": None}
    assert warm_up_text(found) == "Warmed up for 14 s, to 48,211 messages/s"
    assert warm_up_text(found | {"steady": False}).endswith(": its rate is not steady")
    assert warm_up_text(found | {"rates": [], "reason": "no queue"}).endswith("it failed: no queue")


def test_a_search_that_failed_says_so() -> None:
    """A target that is not there: "Confirmation ... none: there was no time"."""
    document = found_document(rate=None, confirmed=False, confirmation=None)
    assert re.search(r"Confirmation \.+ none: there was no time", campaign_text(SEARCH, document))
    failed = campaign_text(SEARCH, document | {"reason": "run-01: cannot connect"})
    assert re.search(r"Confirmation \.+ none: the search failed", failed)
