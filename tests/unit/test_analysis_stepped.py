"""Clocks that stepped, and any times at all: analysed, or refused by an error of records.

What they take of memory is measured by test_analysis_memory.py.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from test_analysis_memory import (
    EPOCH,
    STEPPED,
    TIME_PAIRS,
    write_stepped_receipt,
    write_stepped_send,
)
from test_analysis_runs import load

from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.errors import RecordError


def counts(directory):
    run = load(directory)
    run_statistics(run)
    return run.delivery["received"], run.delivery["unreceived"]


@pytest.mark.parametrize("stamp", STEPPED.values(), ids=STEPPED)
def test_one_record_of_a_clock_that_stepped(tmp_path, stamp):
    write_stepped_receipt(tmp_path, stamp)
    assert counts(tmp_path) == (5001, None)


def test_one_send_of_a_clock_that_stepped(tmp_path):
    write_stepped_send(tmp_path)
    assert counts(tmp_path) == (5000, 1)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TIME_PAIRS)
def test_any_times_at_all(tmp_path, pairs):
    lines = "".join(f"{sent},{received}\n" for sent, received in pairs)
    (tmp_path / "receiver-transfers.csv").write_text(lines)
    try:
        received, _ = counts(tmp_path)
    except RecordError:
        assert min(map(min, pairs)) < EPOCH or max(map(max, pairs)) > EPOCH + 10**7
    else:
        assert received <= len(pairs)
