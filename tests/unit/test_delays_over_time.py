"""What left in each second of a run, and how late: of one sender, of many, and on the page."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.figures.ends import over_time
from quiver_fast.arrow.run.delays import Delays, Waits

SECOND = 10**9


def told(seconds: int, sent: list[int], late: list[int]) -> dict[str, Any]:
    return {"seconds": seconds, "sent": sent, "late_us": late, "late_by_us": {"itself": late}}


def test_each_second_has_its_messages_and_its_largest_delay() -> None:
    waits, delays = Waits(), Delays()
    delays.record(waits, 0, 1000)
    delays.record(waits, SECOND // 2, SECOND // 2 + 7000)
    waits.wait(1, SECOND, 3 * SECOND)
    for _ in range(3):
        delays.record(waits, 2 * SECOND, 3 * SECOND + 5000)
    assert delays.over_time() == {
        "seconds": 1,
        "sent": [2, 0, 0, 3],
        "late_us": [7, 0, 0, 1_000_005],
        "late_by_us": {
            "credit": [0, 0, 0, 1_000_000], "socket": [0] * 4, "outcomes": [0] * 4,
            "itself": [7, 0, 0, 5],
        },
    }  # fmt: skip


def test_a_long_run_has_longer_steps() -> None:
    waits, delays = Waits(), Delays()
    for second in range(5000):
        delays.record(waits, second * SECOND, second * SECOND + second * 1000)
    found = delays.over_time()
    assert found["seconds"] == 4
    assert found["sent"] == [4] * 1250
    assert found["late_us"] == [4 * step + 3 for step in range(1250)]


def test_the_steps_of_several_senders_are_put_together() -> None:
    one, other = told(1, [1, 2, 3, 4, 5], [9, 0, 0, 1, 2]), told(2, [10, 20], [4, 3])
    assert over_time([one, other]) == told(2, [13, 27, 5], [9, 3, 2])
    assert over_time([one]) == one
    assert over_time([one, None]) is None
    assert over_time([]) is None
