"""The offset of two clocks from exchanges: whatever the ways take, it is within its bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.show.text import section_text
from quiver_fast.cli.fleet.fleet import Host
from quiver_fast.cli.fleet.report import clock_report, fleet_section, start_report
from spark_analysis.host_clock import Offset, best_offset

ways = st.integers(0, 10**9)
exchanges = st.lists(st.tuples(ways, ways, ways), min_size=1, max_size=8)


@given(st.integers(-(10**12), 10**12), exchanges)
def test_the_offset_is_within_its_bound(ahead: int, delays: list[tuple[int, int, int]]) -> None:
    """Each exchange takes other times there, at the host, and back."""
    now, found = 10**18, []
    for there, stay, back in delays:
        came, left = now + there, now + there + stay
        found.append((now, came + ahead, left + ahead, left + back))
        now = left + back + 1
    offset = best_offset(found)
    assert abs(offset.nanoseconds - ahead) <= offset.bound
    assert offset.bound <= min(there + back for there, _, back in delays) // 2 + 1


def test_two_hosts_differ_by_the_difference_and_the_bounds_add_up() -> None:
    assert Offset(700, 20).minus(Offset(-300, 5)) == Offset(1000, 25)


def task(number: int, ahead_ns: int | None, bound: int = 10) -> dict[str, object]:
    one = None if ahead_ns is None else {"nanoseconds": ahead_ns, "bound": bound}
    return {"number": number, "offsets": [one, one]}


def test_the_report_has_offsets_against_host_0_and_the_widest_difference() -> None:
    found = clock_report([task(0, 0, 0), task(1, -4000, 500), task(2, 2000, 1000)])
    assert found is not None
    assert found["hosts"][1]["before"] == {"offset_us": 4.0, "bound_us": 0.5}
    # From host 2, 2 us behind and 1 less at most, to host 1, 4 ahead and 0.5 more at most.
    assert found["widest_us"] == pytest.approx(4 + 0.5 + 2 + 1)
    assert clock_report([]) is None


def test_a_host_whose_clock_was_not_compared_has_none() -> None:
    found = clock_report([task(0, 0), task(1, None)])
    assert found is not None
    assert found["hosts"][1] == {"number": 1, "before": None, "after": None}
    hosts = [Host(number, [], started=10**18) for number in range(2)]
    assert start_report(hosts, [task(0, 0), task(1, None)]) is None


def test_the_start_is_compared_by_one_clock() -> None:
    """Host 1 is 5 s behind host 0, and started 30 us later."""
    hosts = [Host(0, [], started=10**18), Host(1, [], started=10**18 - 5 * 10**9 + 30_000)]
    found = start_report(hosts, [task(0, 0, 0), task(1, 5 * 10**9, 2000)])
    assert found == {"spread_us": 30.0, "bound_us": 2.0}


def test_the_text_names_a_lost_host() -> None:
    hosts = [
        {"number": 0, "name": "a", "ends": {"sender 0": 5, "receiver 0": 4}, "lost": None},
        {"number": 1, "name": None, "ends": {}, "lost": "executor 1 was lost"},
    ]
    fleet = {"hosts": hosts, "start": None, "clocks": None, "unread": ["sender 1"]}
    text = section_text(fleet_section(fleet))
    assert "a, sent 5, received 4" in text
    assert "did not come, sent 0, received 0, lost: executor 1 was lost" in text
    assert "sender 1" in text.splitlines()[-1]
