"""The tests for trends and steps: by their definitions, and by how often they are wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated_seconds import (
    LENGTHS,
    LEVEL,
    MEMORIES,
    autoregression,
    bias_after_ramp,
    judged,
    share_not_steady,
    step,
    trend,
)
from support.steady_calibration import limits

from quiver_fast.analysis.figures.constancy import batch_means, change, detectable, statistics
from quiver_fast.analysis.figures.constancy import limits_at as ours_at

levels = st.lists(st.integers(0, 100_000), min_size=6, max_size=40)


def squares(values):
    mean = sum(values) / len(values) if values else 0
    return sum((value - mean) ** 2 for value in values)


def slow_step(values):
    """Return the least sum of squares of two levels with the border in one of the values."""
    best = np.inf
    for border in range(2, len(values) - 2):
        before, after = values[:border], values[border + 1 :]
        means = sorted((sum(before) / len(before), sum(after) / len(after)))
        nearest = min(max(values[border], means[0]), means[1])
        rest = squares(before) + squares(after) + (values[border] - nearest) ** 2
        best = min(best, rest)
    return best


@given(levels)
def test_statistics(values):
    n, least = len(values), 1.0
    line = np.polyval(np.polyfit(np.arange(n), values, 1), np.arange(n))
    left = float(np.sum((np.array(values) - line) ** 2))
    explained = float(np.sum((line - np.mean(values)) ** 2))
    border = slow_step(values)
    slow = [
        (explained / max(left / (n - 2), least)) ** 0.5,
        (max(squares(values) - border, 0) / max(border / (n - 3), least)) ** 0.5,
    ]
    assert statistics(np.array(values, float), least) == pytest.approx(slow, rel=1e-5, abs=1e-2)


@given(st.lists(st.integers(0, 1000), min_size=6, max_size=200))
def test_batches_hold_all_seconds_and_are_of_one_length_or_the_next(values):
    means = batch_means(np.array(values))
    assert len(means) == min(len(values), 12)
    sizes = np.diff(np.rint(np.linspace(0, len(values), len(means) + 1)).astype(int))
    assert set(sizes) <= {len(values) // len(means), len(values) // len(means) + 1}
    assert np.dot(means, sizes) == pytest.approx(sum(values))


def test_what_fits_better_is_said():
    random = np.random.default_rng(5)
    noise = random.normal(0, 50, 60)
    stepped = change((10_000 + noise + 2000 * (np.arange(60) >= 25)).astype(np.int64))
    assert stepped.at == pytest.approx(25, abs=0.5)
    rising = change((10_000 + noise + 40 * np.arange(60)).astype(np.int64))
    assert rising.percent_per_minute == pytest.approx(100 * 60 * 40 / 11_180, rel=0.05)
    assert change((10_000 + noise).astype(np.int64)) is None


@pytest.mark.parametrize("length", [6, 18, 58, 298])
def test_limits_are_those_of_the_worst_memory(length):
    """Between the places of the table too."""
    assert ours_at(length) == pytest.approx(limits(length, 3000), rel=0.08)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_few_steady_runs_are_called_not_steady(length, memory):
    assert share_not_steady(step(length, 0), memory, 100) <= 0.07


# Length, memory, size in units of the noise, and the least share that is to be found.
POWER = [(30, 0, 4, 0.8), (60, 0, 2, 0.7), (60, 0.5, 4, 0.9), (300, 0.8, 2, 0.8), (10, 0, 10, 0.9)]


@pytest.mark.parametrize(("length", "memory", "size", "least"), POWER)
def test_steps_are_found(length, memory, size, least):
    assert share_not_steady(step(length, size), memory, 60) >= least


def test_trends_are_found():
    assert share_not_steady(trend(300, 2), 0.5, 40) >= 0.8
    assert share_not_steady(trend(60, 10), 0.0, 40) >= 0.8


def test_what_was_detectable_is_detected():
    """Four of five: the step that a steady run of a minute would have shown."""
    [one] = judged(step(60, 0), 0, 1, seed=3)
    found = share_not_steady(step(60, 0) + step(60, one.detectable_step / 0.02), 0, 60)
    assert 0.6 <= found <= 0.97
    still = np.full(30, LEVEL)
    assert 0 < detectable(still) < 1e-4


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_ramp_does_not_bias_the_rate(share):
    _, bias = bias_after_ramp(share, 60, 0.5, 60)
    assert abs(bias) < 0.005


def test_simulated_memory_is_what_it_says():
    series = autoregression(np.random.default_rng(1), 400, 200, 0.8)
    assert np.var(series) == pytest.approx(1, rel=0.1)
    assert np.mean(series[:, 1:] * series[:, :-1]) == pytest.approx(0.8, rel=0.1)


@pytest.mark.slow
def test_the_calibration(capsys):
    """The table of docs/analysis.md, with a thousand runs for each figure."""
    with capsys.disabled():
        for length in LENGTHS:
            for memory in MEMORIES:
                wrong = share_not_steady(step(length, 0), memory, 1000)
                assert wrong <= 0.07
                row = [wrong]
                row += [
                    share_not_steady(shape(length, size), memory, 1000)
                    for size in (2, 4, 10)
                    for shape in (step, trend)
                ]
                print(length, memory, *(f"{100 * found:.1f} %" for found in row))
        for length in (30, 60, 300):
            for share in (0.1, 0.2, 0.3, 0.33, 0.4):
                steady, bias = bias_after_ramp(share, length, 0.5, 500)
                assert abs(bias) < 0.005
                print("ramp", length, share, f"{100 * steady:.0f} % steady, {100 * bias:+.2f} %")
