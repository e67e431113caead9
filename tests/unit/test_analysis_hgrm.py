"""``.hgrm`` files, byte for byte those of Java's HdrHistogram.

The golden files were printed by HdrHistogram 2.2.2 (Maven Central,
org.hdrhistogram:HdrHistogram), in tests/support/golden_hgrm:

    java -cp HdrHistogram-2.2.2.jar Hgrm.java NAME.txt > NAME.hgrm
"""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.export.hdrhistogram import HIGHEST_NS, BucketCounts

GOLDEN = Path(__file__).parents[1] / "support" / "golden_hgrm"
counted = st.lists(
    st.tuples(st.integers(0, HIGHEST_NS), st.integers(1, 10**6)), min_size=1, max_size=50
)


def text_of(rows, parts=1):
    counts = BucketCounts()
    for part in np.array_split(np.array(rows, np.int64), parts):
        counts.add(part[:, 0], part[:, 1])
    return counts.text()


@pytest.mark.parametrize("name", ["spread", "ties", "one"])
def test_the_text_is_javas(name):
    rows = np.loadtxt(GOLDEN / f"{name}.txt", np.int64, ndmin=2)
    assert text_of(rows) == (GOLDEN / f"{name}.hgrm").read_text()


@given(counted)
def test_the_footer_is_in_the_unit_of_the_values(rows):
    """Mean and deviation against NumPy's, in milliseconds, within a bucket's width."""
    samples, weights = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    mean = np.average(samples, weights=weights)
    deviation = np.sqrt(np.average((samples - mean) ** 2, weights=weights))
    footer = re.findall(r"(Mean|StdDeviation|Max)\s+=\s+([0-9.]+)", text_of(rows))
    told = {name: float(value) for name, value in footer}
    step = samples.max() / 1000 / 1e6 + 0.001
    assert told["Mean"] == pytest.approx(mean / 1e6, abs=step)
    assert told["StdDeviation"] == pytest.approx(deviation / 1e6, abs=2 * step)
    assert told["Max"] == pytest.approx(samples.max() / 1e6, abs=step)


@given(counted, st.integers(2, 5))
def test_parts_add_up(rows, parts):
    assert text_of(rows, parts) == text_of(rows)


@given(counted)
def test_levels_rise_to_all_messages(rows):
    lines = [line.split() for line in text_of(rows).splitlines()[2:-3]]
    levels = [(float(value), float(level), int(total)) for value, level, total, *_ in lines]
    assert levels == sorted(levels)
    assert levels[-1][1:] == (1.0, sum(count for _, count in rows))
    assert all(total / levels[-1][2] >= level - 1e-12 for _, level, total in levels)
