"""Latencies as text: a table of values, and the rule over all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.ranks import NAMES, RANKS, known_ranks
from quiver_fast.analysis.model.units import (
    fine_text,
    latency_text,
    mean_text,
    percent_text,
    rate_digits,
    seconds_text,
    three_digits,
)

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@pytest.mark.parametrize(
    ("value", "unit", "latency", "mean", "fine"),
    [
        (0, "us", "0 us", "0 us", "0 us"),
        (7, "us", "7.00 us", "7.00 us", "7 us"),
        (10.24, "us", "10.2 us", "10.2 us", "10.24 us"),
        (0.5, "us", "0.500 us", "0.500 us", "0.5 us"),
        (-12.34, "us", "-12.3 us", "-12.3 us", "-12.34 us"),
        (999.4, "us", "999 us", "999 us", "999.4 us"),
        (999.6, "us", "1.00 ms", "1.00 ms", "999.6 us"),
        (3642, "us", "3.64 ms", "3.64 ms", "3.642 ms"),
        (1_204_000, "us", "1.20 s", "1.20 s", "1.204 s"),
        (12_345_000_000, "us", "12,300 s", "12,300 s", "12,345 s"),
        (57, "ns", "57.0 ns", "57.0 ns", "57 ns"),
        (10_240, "ns", "10.2 us", "10.2 us", "10.24 us"),
        (0, "ms", "0 ms", "0 ms", "0 ms"),
        (7.9, "ms", "7 ms", "7.90 ms", "7.9 ms"),
        (-0.5, "ms", "0 ms", "-0.500 ms", "-0.5 ms"),
        (1_020.9, "ms", "1,020 ms", "1,020 ms", "1.0209 s"),
    ],
)
def test_text(value, unit, latency, mean, fine):
    assert latency_text(value, unit) == latency
    assert mean_text(value, unit) == mean
    assert fine_text(value, unit) == fine


@given(
    st.floats(-1e12, 1e12).filter(lambda value: abs(value) > 1e-3), st.sampled_from(["us", "ns"])
)
def test_three_digits_in_a_unit_that_fits(value, unit):
    """The text is within half of its third digit, from 1 to below 1,000 where a unit allows."""
    number, shown = latency_text(value, unit).split(" ")
    told = float(number.replace(",", "")) * SECONDS[shown]
    assert told == pytest.approx(value * SECONDS[unit], rel=0.005001)
    digits = number.lstrip("-").replace(",", "").replace(".", "").lstrip("0")
    assert len(digits) == 3 or shown == "s"
    size = abs(float(number.replace(",", "")))
    assert size >= 1 or shown == unit
    assert size < 1000 or shown == "s"


@given(st.floats(-1e15, 1e15))
def test_three_digits_have_no_exponent(value):
    assert "e" not in three_digits(value)
    assert float(three_digits(value).replace(",", "")) == pytest.approx(value, rel=0.005001)


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1000.0), ("us", 1.0), ("ns", 0.001)])
def test_microseconds_stand_beside_upstreams_milliseconds(unit, factor):
    section = exact_latency(Distribution.of(np.array([1, 1, 1, 5, 9])), unit)
    names = {"p50_us": 50, "p90_us": 90, "p95_us": 95, "p99_us": 99, "p99_9_us": 99.9,
             "p99_99_us": 99.99, "p99_999_us": 99.999, "min_us": 0, "max_us": 100}  # fmt: skip
    for name, rank in names.items():
        assert isinstance(section[name], float)
        assert section[name] == pytest.approx(section["percentiles"][str(rank)] * factor)
    assert section["mean_us"] == pytest.approx(17 / 5 * factor)
    assert set(section["percentiles"]) == {str(rank) for rank in RANKS}
    nothing = exact_latency(Distribution.none(), unit)
    assert all(nothing[name] is None for name in [*names, "mean_us"])


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (6.7, "670 %"),
        (0.0085, "0.85 %"),
        (0.019, "1.9 %"),
        (0.0996, "10 %"),
        (12.34, "1,234 %"),
    ],
)
def test_a_share_has_no_exponent(share: float, text: str) -> None:
    assert percent_text(share) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.000064, "64.0 us"), (0.0173, "17.3 ms"), (8.0, "8 s"), (8.04, "8 s"), (8.1, "8.1 s"),
     (0, "0 s"), (1234.5, "1,234.5 s")],
)  # fmt: skip
def test_a_duration_has_a_unit_that_suits_it(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(0.5, "0.5"), (2999.99, "3,000"), (500.0, "500"), (99.9, "100")]
)
def test_a_low_rate_has_decimals(rate: float, text: str) -> None:
    assert rate_digits(rate) == text


def test_a_percentile_needs_a_message_beyond_it() -> None:
    known = {count: known_ranks(NAMES, count) for count in (1, 10, 999, 1000, 100_000)}
    assert known[1] == ["0", "50", "100"]
    assert known[10] == ["0", "25", "50", "75", "90", "100"]
    assert known[999] == ["0", "25", "50", "75", "90", "95", "99", "100"]
    assert known[1000] == [*known[999][:-1], "99.9", "100"]
    assert known[100_000] == [*NAMES]
