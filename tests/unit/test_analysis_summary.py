"""Sections of a summary against upstream's formulas, written out slowly."""

import json

import numpy as np
import pytest
from analysis_twins import analysis
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.figures.sender_rate import told_rate
from quiver_fast.analysis.figures.series import per_second
from quiver_fast.analysis.figures.summary import receiver_sections, sender_sections
from quiver_fast.analysis.model.bounds import RunBounds, Sending
from quiver_fast.analysis.model.columns import listed
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.errors import RecordError
from quiver_fast.rate_steps import Piece

UPSTREAM_KEYS = [
    "first_send_time", "last_send_time", "first_receive_time", "last_receive_time",
    "message_count", "message_rate", "latency_average", "latency_quartiles", "latency_nines",
]  # fmt: skip

EPOCH = 1_472_344_673_324
AT_TEN = RunBounds(sending=Sending((Piece(0, 10),)))
records = st.lists(
    st.tuples(st.integers(EPOCH, EPOCH + 5000), st.integers(-20, 4000)), min_size=1, max_size=200
)


def upstream_results(sent, received):
    """Upstream's computation, with signed latencies."""
    latencies = np.array(received, np.int64) - np.array(sent, np.int64)
    percentiles = [
        int(x) for x in np.percentile(latencies, (0, 25, 50, 75, 100, 90, 99, 99.9, 99.99, 99.999))
    ]
    duration = (received[-1] - received[0]) / 1000
    return {
        "first_send_time": None,
        "last_send_time": None,
        "first_receive_time": received[0],
        "last_receive_time": received[-1],
        "message_count": len(sent),
        "message_rate": told_rate(len(sent) / duration) if duration > 0 else None,
        "latency_average": float(np.mean(latencies)),
        "latency_quartiles": percentiles[:5],
        "latency_nines": percentiles[5:],
    }


@given(records)
def test_receiver_results_are_upstreams(pairs):
    sent = [s for s, _ in pairs]
    received = [s + latency for s, latency in pairs]
    results = receiver_sections(analysis(sent, received))["results"]
    assert list(results) == UPSTREAM_KEYS
    assert results == upstream_results(sent, received)


@given(st.lists(st.integers(EPOCH, EPOCH + 5000), min_size=1))
def test_sender_results_are_upstreams(sent):
    results = sender_sections(analysis(sent))["results"]
    duration = (sent[-1] - sent[0]) / 1000
    expected = dict.fromkeys(UPSTREAM_KEYS) | {
        "first_send_time": sent[0],
        "last_send_time": sent[-1],
        "message_count": len(sent),
        "message_rate": told_rate(len(sent) / duration) if duration > 0 else None,
    }
    assert results == expected


@given(records)
def test_microseconds_refine_but_do_not_move_the_milliseconds(pairs):
    sent = [s * 1000 + 250 for s, _ in pairs]
    received = [s * 1000 + 250 + latency * 1000 for s, latency in pairs]
    fine = receiver_sections(analysis(sent, received, unit="us"))
    coarse = upstream_results([s // 1000 for s in sent], [r // 1000 for r in received])
    assert fine["results"]["first_receive_time"] == coarse["first_receive_time"]
    assert fine["results"]["latency_average"] == pytest.approx(coarse["latency_average"])
    assert fine["results"]["latency_quartiles"][0] == coarse["latency_quartiles"][0]
    assert fine["latency"]["unit"] == "us"
    assert fine["latency"]["percentiles"]["100"] == max(
        r - s for r, s in zip(received, sent, strict=True)
    )


def test_latency_is_signed():
    """Upstream makes 18446744073709551616 of one millisecond of clock skew."""
    sections = receiver_sections(analysis([EPOCH + 5, EPOCH + 5], [EPOCH + 4, EPOCH + 6]))
    assert sections["results"]["latency_quartiles"] == [-1, 0, 0, 0, 1]
    assert sections["latency"]["negative"] == 1
    assert sections["delivery"]["negative_latency"] == 1


def test_sections_are_json():
    sender = analysis([EPOCH, EPOCH + 1], ids=[1, 2], settled=[(1, EPOCH + 3, True)])
    sections = [
        sender_sections(sender, AT_TEN), receiver_sections(analysis([1], [2])),
    ]  # fmt: skip
    text = json.dumps(sections, default=listed)
    assert json.loads(text)[0]["records"] == {
        "format": "v2", "time_unit": "ms", "ids": "exact", "malformed": 0,
        "first_malformed": None, "truncated": False, "missing_bytes": None, "set_back_ms": None,
    }  # fmt: skip


def test_a_senders_records_are_no_receivers():
    with pytest.raises(RecordError):
        receiver_sections(analysis([EPOCH]))


def test_a_run_without_messages_has_every_section():
    sender, receiver = (
        sender_sections(analysis([]), AT_TEN),
        receiver_sections(analysis([], [])),
    )
    nothing = dict.fromkeys(UPSTREAM_KEYS) | {"message_count": 0}
    assert sender["results"] == receiver["results"] == nothing
    assert receiver["latency"]["mean"] is None
    assert sender["schedule"]["achieved"] is sender["schedule"]["due"] is None
    assert sender["schedule"]["missed"] is True
    json.dumps([sender, receiver], default=listed)


@given(records)
def test_series(pairs):
    sent = [s for s, _ in pairs]
    received = [s + latency for s, latency in pairs]
    receiver = analysis(sent, received)
    series = per_second(receiver.seconds, receiver.histogram)
    count, *figures = (
        list(series[name]) for name in ("count", "latency_p50", "latency_p99", "latency_max")
    )
    seconds = list(range(min(received) // 1000, max(received) // 1000 + 1))
    assert (series["every_second"], series["second"]) == (True, seconds)
    for row, second in enumerate(seconds):
        latencies = [r - s for s, r in zip(sent, received, strict=True) if r // 1000 == second]
        assert count[row] == len(latencies)
        if latencies:
            assert [column[row] for column in figures] == np.percentile(
                latencies, (50, 99, 100)
            ).tolist()
        else:
            assert [column[row] for column in figures] == [None] * 3


def test_series_of_nothing():
    nothing = {"every_second": True, "second": [], "count": []}
    assert per_second(analysis([]).seconds, None) == nothing


@pytest.mark.parametrize(
    ("first", "last", "busy", "rows"),
    [(0, 99_999, 1, 100_000), (0, 100_000, 1, 2), (5, 200_004, 99_999, 200_000)],
)
def test_silent_seconds_have_rows_within_bounds(first, last, busy, rows):
    """A day of silence is filled; fifty years after one record are not."""
    seconds = np.append(np.arange(first, first + busy), last)
    series = per_second(Distribution(seconds, np.full(busy + 1, 7)), None)
    assert series["every_second"] is (rows > 2)
    assert len(series["second"]) == len(series["count"]) == rows
    assert sum(series["count"]) == 7 * (busy + 1)
    rows = list(series["second"])
    assert (rows[0], rows[-1]) == (first, last)


@given(
    st.permutations(range(20)),
    st.lists(st.tuples(st.integers(0, 25), st.integers(EPOCH, EPOCH + 99), st.booleans())),
)
def test_settlement(ids, settled):
    sender = analysis([EPOCH + n for n in range(20)], ids=ids, settled=settled)
    ours = sender_sections(sender).get("settlement")
    if not settled:
        assert ours is None
        return
    send_time = {message: EPOCH + n for n, message in enumerate(ids)}
    known = [(t - send_time[i], sampled) for i, t, sampled in settled if i in send_time]
    assert ours["all"]["count"] == len(known)
    assert ours["sampled"]["count"] == sum(sampled for _, sampled in known)
    if known:
        assert ours["all"]["mean"] == sum(x for x, _ in known) / len(known)
    assert ours["unmatched"] == len(settled) - len(known)
    assert ours["unsettled"] == len(set(ids) - {i for i, _, _ in settled})


def test_environment_is_about_this_host():
    facts = environment()
    assert facts["numpy"] == np.__version__
    assert all(facts.values())
