"""The golden files: the same answers for ever, of the local backend."""

import numpy as np
import pytest
from support.golden import GOLDEN, expected, golden_run, told

from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.read.sources import load_run


@pytest.mark.parametrize("record_format", GOLDEN)
def test_golden_records(record_format):
    run = load_run(golden_run(record_format), lambda _done, _total: None)
    assert told(run, run_statistics(run)) == expected(record_format)


def test_the_expected_figures_are_numpys():
    """Figures of the v3 file, whose lines all count, directly from the text."""
    [path] = golden_run("v3").paths
    sent, received = np.loadtxt(path, np.int64, delimiter=",").T
    latency = expected("v3")["receiver"]["latency"]
    assert (latency["unit"], latency["count"]) == ("ns", len(sent))
    ranks = [float(rank) for rank in latency["percentiles"]]
    figures = np.percentile(received - sent, ranks)
    assert list(latency["percentiles"].values()) == pytest.approx(figures, rel=1e-11)
    assert latency["mean"] == pytest.approx(np.mean(received - sent), rel=1e-11)
    assert latency["stddev"] == pytest.approx(np.std(received - sent), rel=1e-11)
