"""Conditions of --fail-if."""

import argparse

import pytest

from quiver_fast.analysis.sources import Wanted
from quiver_fast.cli.engines import choose_engine
from quiver_fast.cli.thresholds import threshold
from quiver_fast.errors import QuiverError, UsageError

LATENCY = {"unit": "us", "mean": 1500.0, "stddev": 2.0,
           "percentiles": {"0": 3.0, "99": 5000.0, "99.9": 9000.0, "100": 12000.0}}  # fmt: skip
DOCUMENT = {
    "name": "run",
    "sender": {"results": {"message_rate": 70}},
    "receiver": {"results": {"message_rate": 50_000}, "latency": LATENCY},
    "delivery": {"received": 99, "lost": 1, "duplicate": 0, "reordered": 0, "foreign": 0,
                 "negative_latency": 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "breached"),
    [
        ("p99>5ms", 5.0, False), ("p99>=5ms", 5.0, True), ("p99 > 4999us", 5.0, True),
        ("p99.9<1s", 9.0, True), ("max>12", 12.0, False), ("min<=3us", 0.003, True),
        ("mean<1.5ms", 1.5, False), ("stddev>1us", 0.002, True), ("p100>11999000ns", 12.0, True),
        ("rate<50k/s", 50_000, False), ("rate<=0.05m", 50_000, True), ("sender-rate<100", 70, True),
        ("lost>0", 1, True), ("count<100", 99, True), ("negative>2", 2, False),
    ],
)  # fmt: skip
def test_check(text, value, breached):
    result = threshold(text).check(DOCUMENT)
    assert result["value"] == pytest.approx(value)
    assert (result["condition"], result["run"], result["breached"]) == (text, "run", breached)


@pytest.mark.parametrize("text", ["p99", "p98>5ms", "p99>5m", "rate<5ms", "p99=5", "lost>-1", ""])
def test_no_condition(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no"):
        threshold(text)


@pytest.mark.parametrize("text", ["p99>1", "mean>1", "rate<1"])
def test_a_figure_that_is_not_there(text):
    """A threshold that cannot be judged must not pass."""
    with pytest.raises(QuiverError, match="run has no"):
        threshold(text).check(DOCUMENT | {"receiver": None})


def test_no_latency_is_no_figure():
    empty = {"unit": "ms", "mean": None, "stddev": None, "percentiles": {"99": None}}
    end = {"results": {"message_rate": None}, "latency": empty}
    with pytest.raises(QuiverError, match="run has no p99"):
        threshold("p99>1").check(DOCUMENT | {"receiver": end})


def test_engines():
    for asked in ("numpy", "auto"):
        assert choose_engine(asked, None, [], Wanted()).name == "local"
    with pytest.raises(UsageError, match="--master"):
        choose_engine("local", "local[2]", [], Wanted())
