"""Steady state and stalls against their definitions, written out slowly."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.latency_seconds import CHANGED, HONEST, LENGTHS, share_steady
from support.latency_seconds import judged as judged_latencies
from support.simulated_seconds import judged, ramp

from quiver_fast.analysis.figures.constancy import change, episode
from quiver_fast.analysis.figures.steady import measured_seconds, stalls, steady_state
from quiver_fast.analysis.figures.windows import SecondCounts
from quiver_fast.analysis.model.distribution import Distribution

rates = st.lists(st.integers(0, 3_000_000), max_size=40)


def counts(values, first=1000):
    array = np.array(values, np.int64)
    return SecondCounts(np.arange(first, first + len(array), dtype=np.int64), array)


def slow_error(values):
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values) ** 2


def slow_cut(values, limit):
    """Return how many to leave out in front, and whether MSER asks for more than the limit."""
    errors = [slow_error(values[d:]) for d in range(max(len(values) // 2, limit) + 1)]
    return errors.index(min(errors[: limit + 1])), errors.index(min(errors)) >= limit


def stalled(whole):
    """Say whether silence lies between other seconds, with some messages in most."""
    median = np.median(whole)
    low = "".join("x" if value >= 0.1 * median else "-" for value in whole)
    return bool(median >= 20 and "-" in low.strip("-"))


def other_level(values):
    found = episode(np.array(values))
    return found is not None and abs(found.level - found.others) > 0.1 * found.others


def spread(values):
    low, middle, high = np.percentile(values, (10, 50, 90))
    return high - low > 0.4 * middle + 4 * np.sqrt(middle)


def moves(values):
    return bool(change(np.array(values)) or other_level(values) or spread(values))


@given(st.lists(st.integers(0, 3000), max_size=40))
def test_the_ends_that_minimise_the_error_are_left_out_of_what_keeps_its_level(values):
    """Whole numbers of this size make sums that are exact, so that ties are ties."""
    ours = steady_state(counts(values))
    whole = values[1:-1]
    if len(whole) < 6:
        assert (ours.verdict, ours.part) == ("too short to tell", None)
        assert ours.reason == f"{len(whole)} of at least 6 whole seconds"
        return
    if np.median(whole) == 0 or stalled(whole):
        assert (ours.verdict, ours.part) == ("not steady", None)
        return
    limit = len(whole) // 3
    front, late = slow_cut(whole, min(limit, len(whole) - 6))
    kept = whole[front:]
    back, early = slow_cut(kept[::-1], min(limit, len(kept) - 6))
    kept = kept[: len(kept) - back]
    wide = whole[0 if late else front : len(whole) - (0 if early else back)]
    steady = not moves(wide) and not moves(kept)
    assert steady == (ours.verdict == "steady") == (ours.part is not None)
    if ours.part is None:
        return
    part = ours.part
    assert slow_error(kept) == pytest.approx(
        slow_error(whole[part.warm_up : len(whole) - part.ramp_down]), rel=1e-9, abs=1e-9
    )
    assert part.first == 1001 + part.warm_up
    assert part.rate == part.count / part.seconds
    assert part.seconds == len(whole) - part.warm_up - part.ramp_down >= 6


@given(st.lists(st.integers(0, 3000), min_size=8, max_size=40), st.integers(1, 2000))
def test_a_run_that_keeps_its_rate_loses_only_what_is_off_it(values, rate):
    """The rule, written out: 10 % off the rate, at the ends, a third of the run at most."""
    whole = values[1:-1]
    tolerance = max(rate / 10, 1)
    ours = steady_state(counts(values), rate)
    if np.median(whole) == 0 or stalled(whole):
        assert ours.verdict == "not steady"
        return
    off = [abs(value - rate) > tolerance for value in whole]
    limit = len(whole) // 3
    front = next((n for n in range(limit) if not off[n]), limit)
    back = next((n for n in range(limit) if not off[-1 - n]), limit)
    kept = whole[front : len(whole) - back]
    far = sum(abs(value - rate) > max(rate / 10, 4 * rate**0.5) for value in whole)
    error = max(abs(np.median(whole) - rate), abs(sum(kept) / len(kept) - rate))
    if error > tolerance or far > len(whole) / 4:
        assert ours == steady_state(counts(values))
        return
    if other_level(whole):
        assert ours.verdict == "not steady"
        return
    part = ours.part
    assert (part.warm_up, part.ramp_down, part.rule) == (front, back, "rate")
    assert part.count == sum(kept)


def test_a_constant_rate_is_not_cut():
    """Noise of a per mille: MSER leaves out two good seconds."""
    values = [7000, 19_990, 19_990, *[20_000] * 12, 3000]
    assert steady_state(counts(values)).part.warm_up == 2
    ours = steady_state(counts(values), rate=20_000).part
    assert (ours.warm_up, ours.ramp_down, ours.seconds) == (0, 0, 14)


def test_a_rate_that_is_not_kept_says_nothing_of_the_steady_state():
    values = [5, 10, 20, 30, *[1000] * 10, 10, 3]
    assert steady_state(counts(values), rate=2000) == steady_state(counts(values))


def test_a_rate_that_only_the_median_keeps_is_not_kept():
    """Most seconds have the rate, and yet the mean is 920/s."""
    ours = steady_state(counts([9, *[200] * 12, *[2000] * 8, 9]), rate=200)
    assert ours.reason == "step at 13.0 s from 200 to 2,000 messages/s"


def test_seconds_with_a_rate_of_their_own_are_no_steady_state():
    """The rate is kept by median and mean."""
    values = [1000] * 60
    values[20:25] = [500] * 5
    for rate in (0, 1000):
        ours = steady_state(counts(values), rate)
        assert ours.reason == "500 messages/s from 20.0 s to 25.0 s, 1,000 in the rest"


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_rate_that_goes_up_and_down_is_not_steady(length):
    """300 and 1,000 messages/s in turns: as asked for in the mean and in the median."""
    values = ([300] * length + [1000] * length) * (30 // length)
    for rate in (0, 650):
        assert steady_state(counts(values), rate).verdict == "not steady"
    assert (
        steady_state(counts([300, 1000] * 30), 650).reason
    ) == "up and down between 300 and 1,000 messages/s"


def test_a_stall_between_other_seconds_is_not_steady():
    """Two seconds in which the broker was stopped; then all that had waited came."""
    values = [2000] * 30
    values[12:15] = [0, 0, 6000]
    for rate in (0, 2000):
        assert steady_state(counts(values), rate).reason == "stall of 2 s at 12.0 s"
    rare = counts([2, 3, 0, 2, 1, 2, 3, 2, 0, 2, 2, 1, 2, 3])
    assert steady_state(rare, 2).verdict == "steady"


@pytest.mark.parametrize("name", HONEST)
def test_runs_that_keep_their_latencies_are_steady(name):
    assert share_steady(HONEST[name], 30, 100, 20) >= 0.95


@pytest.mark.parametrize("name", CHANGED)
def test_runs_whose_latencies_change_are_not_steady(name):
    assert share_steady(CHANGED[name], 60, 200, 10) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("falling fiftyfold", r"p50 latency from [23]\d.\d ms to [12].\d\d ms over the run"),
        (
            "tenfold for a third",
            r"p50 latency .* ms from (19|20|21).0 s to (39|40|41).0 s, .* rest",
        ),
        ("p99 tenfold in the last half", r"p99 latency .* (from|at) (29|30|31).0 s.*"),
        ("stopped for 2 s", r"stall of [12] s at .* s"),
    ],
)
def test_a_change_of_latencies_is_named(name, words):
    [found] = judged_latencies(CHANGED[name], 60, 200, 1)
    assert re.fullmatch(words, found.reason), found.reason


@pytest.mark.slow
def test_the_calibration_of_latencies(capsys):
    """The table of docs/analysis.md, with 200 runs for each figure."""
    with capsys.disabled():
        for name, shape in (HONEST | CHANGED).items():
            for length in LENGTHS:
                rates = (1, 20, 200) if length < 300 else (1, 20)
                row = [share_steady(shape, length, rate, 200) for rate in rates]
                print(name, length, *(f"{100 * steady:.0f} %" for steady in row))
                assert name not in HONEST or min(row) >= 0.9


def test_a_queue_that_grows_is_never_steady():
    """At an even rate, and in a run that is too short for anything else."""
    for seconds in (4, 30):
        ours = steady_state(counts([1000] * seconds), 1000, growth=787.6)
        assert (ours.verdict, ours.part) == ("not steady", None)
        assert ours.reason == "queue growth of 788 messages/s"


def test_what_is_drained_is_not_steady():
    """Ten seconds of sending; then the queue empties faster than it was filled."""
    values = [50, *[100] * 9, *[900] * 20, 7]
    ours = steady_state(counts(values), until=1010.4).part
    assert (ours.first, ours.last, ours.rate) == (1001, 1009, 100.0)
    assert stalls(counts(values), until=1010.4) == []
    assert steady_state(counts(values), until=1006.9).verdict == "too short to tell"
    assert measured_seconds(counts(values), 1003.0).seconds.tolist() == [1001, 1002]


def test_warm_up_and_ramp_down_are_left_out():
    ours = steady_state(counts([5, 10, 20, 30, *[1000] * 10, 10, 3])).part
    assert (ours.warm_up, ours.ramp_down) == (3, 1)
    assert (ours.first, ours.last, ours.rate) == (1004, 1013, 1000.0)


def test_an_even_run_keeps_all_whole_seconds():
    ours = steady_state(counts([7, *[1000] * 6, 7])).part
    assert (ours.warm_up, ours.ramp_down, ours.seconds) == (0, 0, 6)


@pytest.mark.parametrize("start", [0, 300])
def test_a_step_is_no_steady_state(start):
    """Ten seconds at 200/s and ten at 2,000/s were steady at 537/s."""
    sent = np.concatenate((np.arange(0, 10_000, 5), np.arange(10_000, 20_000, 0.5))) + start
    made = SecondCounts.of(Distribution.of(1000 + (sent // 1000).astype(np.int64)))
    ours = steady_state(made.between(1_000_000 + start, int(1_000_000 + sent[-1])))
    assert (ours.verdict, ours.part) == ("not steady", None)
    assert ours.reason == "step at 10.0 s from 200 to 2,000 messages/s"
    assert ours.step.at == pytest.approx(10, abs=1e-6)
    assert (ours.step.before, ours.step.after) == pytest.approx((200, 2000))


def test_a_trend_is_no_steady_state():
    ours = steady_state(counts(range(1000, 1060)))
    assert (ours.verdict, ours.reason) == ("not steady", "trend of +5.83 %/min")
    assert ours.trend.percent_per_minute == pytest.approx(100 * 60 / 1029.5)


@pytest.mark.parametrize("share", [0.4, 0.5])
def test_a_ramp_over_more_than_a_third_of_the_run_is_no_steady_state(share):
    assert {one.verdict for one in judged(ramp(60, share), 0.5, 20)} == {"not steady"}


def test_what_changes_by_less_than_a_hundredth_is_steady():
    assert steady_state(counts([9, *[10_000] * 10, *[10_090] * 10, 9])).verdict == "steady"
    assert steady_state(counts([9, *[10_000] * 10, *[10_110] * 10, 9])).verdict == "not steady"


@given(rates)
def test_stalls(values):
    whole = values[1:-1]
    low = [value < 0.1 * np.median(whole) for value in whole]
    found = list(stalls(counts(values)))
    ends = [stall["first"] + stall["seconds"] for stall in found]
    covered = [
        s for stall, end in zip(found, ends, strict=True) for s in range(stall["first"], end)
    ]
    assert covered == [1001 + n for n, stalled in enumerate(low) if stalled]
    assert all(end < after["first"] for end, after in zip(ends, found[1:], strict=False))
    assert sum(stall["count"] for stall in found) == sum(
        value for value, stalled in zip(whole, low, strict=True) if stalled
    )


def test_a_stall():
    assert stalls(counts([9, 100, 100, 0, 9, 10, 100, 100, 9])) == [
        {"first": 1003, "seconds": 2, "count": 9}
    ]
    assert stalls(counts([])) == []


def test_one_late_message_makes_no_steady_silence():
    """It made 863,979 steady seconds without a message."""
    dense = steady_state(counts([200] * 20 + [0] * 1000 + [1]))
    assert dense.reason == "no message in 1,000 of 1,019 whole seconds"
    days = np.concatenate((np.arange(20), [864_000]))
    sparse = SecondCounts.of(Distribution(days, np.full(21, 200)))
    assert sparse.sparse
    assert len(sparse.seconds) == 21
    ours = steady_state(sparse)
    assert (ours.verdict, ours.part, stalls(sparse)) == ("not steady", None, [])
    assert ours.reason == "no message in 863,980 of 863,999 whole seconds"


def test_what_came_long_after_the_end_of_the_sending_makes_no_run_sparse():
    days = SecondCounts.of(Distribution(np.append(np.arange(20), 9**9), np.full(21, 200)))
    ours = steady_state(days, until=18.5)
    assert (ours.verdict, ours.part.first, ours.part.last) == ("steady", 1, 17)
    gap = measured_seconds(days, 25.0)
    assert gap.counts.tolist() == [200] * 19 + [0] * 5


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30, unique=True))
def test_silence_is_filled_where_it_is_short(seconds):
    messages = Distribution.of(np.array(seconds, np.int64))
    filled = SecondCounts.of(messages)
    assert not filled.sparse
    assert filled.seconds.tolist() == list(range(min(seconds), max(seconds) + 1))
    assert filled.counts.tolist() == [int(second in seconds) for second in filled.seconds.tolist()]
