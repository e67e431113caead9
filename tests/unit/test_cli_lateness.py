"""The words for a latency that is the delay of sends, and for the cause of that delay."""

from __future__ import annotations

import pytest

from quiver_fast.analysis.sections.run import late_by_rows, lateness_lines

LATENCY = {
    "unit": "us",
    "percentiles": {"50": 100, "90": 1000, "99": 1000, "99.9": 1000, "100": 2000},
}
LATE = {"p50": 9, "p99": 600}


@pytest.mark.parametrize(
    ("late", "parts", "told"),
    [
        (LATE, {"credit": 10, "itself": 590}, "60 % of the 99 % latency arose before sending,"),
        (LATE, {"credit": 590, "itself": 10}, "the time that messages waited for credit:"),
        (LATE, {"socket": 590, "itself": 10}, "waited for room in the socket:"),
        (LATE, {"outcomes": 590}, "waited for outcomes of others:"),
        ({"p50": 10, "p99": 20}, {"itself": 20}, None),
        # Timers of the kernel are that late.
        ({"p50": 60, "p99": 90}, {"itself": 60}, None),
        (
            {"max": 3000},
            None,
            "100 % of the maximum latency is the delay of messages that went late:",
        ),
        (None, None, None),
    ],
)
def test_the_largest_cause_is_named(
    late: dict[str, float] | None, parts: dict[str, float] | None, told: str | None
) -> None:
    by = {} if parts is None else {cause: {"p50": 0, "p99": part} for cause, part in parts.items()}
    lines = lateness_lines({"late_us": late, "late_by_us": by}, LATENCY)
    assert (told in lines[0]) if told else not lines


def test_delays_that_are_all_its_own_have_no_parts() -> None:
    nothing, some = {"p99.9": 0, "max": 0}, {"p99.9": 20, "max": 1500}
    assert late_by_rows({"late_by_us": {"credit": nothing, "itself": some}}) == []
    assert late_by_rows({"late_by_us": None}) == []
    assert late_by_rows({"late_by_us": {"socket": some, "credit": nothing, "itself": some}}) == [
        ("waited for the socket", "p99.9 20.0 us, max 1.50 ms"),
        ("late itself", "p99.9 20.0 us, max 1.50 ms"),
    ]
