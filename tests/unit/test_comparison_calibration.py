"""How often comparisons are wrong, and what so many runs show: the tables of docs/calibration.

The quick tests take few sets of fixed seeds; the slow ones print the tables.
"""

import numpy as np
import pytest
from support.simulated_runs import (
    PLAIN,
    SHAPES,
    detected,
    drifting_alarms,
    false_alarms,
    maxima_alarms,
    samples,
)

from quiver_fast.analysis.compare.comparison import BETTER, compare

MEMORIES = (0.0, 0.3, 0.6, 0.8)


@pytest.mark.parametrize("runs", [5, 10])
@pytest.mark.parametrize("shape", SHAPES)
def test_false_alarms(shape, runs):
    """5 % of equal sets may differ; 60 are expected to have 3."""
    assert false_alarms(SHAPES[shape], sets=60, runs=runs) <= 7 / 60


@pytest.mark.parametrize(("memory", "drift"), [(0.6, 0.0), (0.0, 0.5)])
def test_false_alarms_in_turns_and_not(memory, drift):
    """AR(1) has 37 %, and a warming machine 100 %, of sides made one after the other."""
    assert drifting_alarms(memory, drift, sets=30, runs=10) <= (4 / 30, 0)
    found = drifting_alarms(memory, drift, sets=10, runs=10, one_after_the_other=True)
    assert found == (0, 1)


def test_false_alarms_of_longer_runs():
    """The maximum alone is "worse" in 48 % of these."""
    assert maxima_alarms(4, sets=8, runs=10) <= 2 / 8


def said(shape, runs, sets):
    """Return the shares of sets that show what they are said to show.

    Of a true change as large as so many runs show, by so many, and of one a quarter smaller, by
    as many as that takes.
    """
    random = np.random.default_rng(runs)

    def found(number, gain):
        sides = [{"rate": samples(shape(random, number) + more)} for more in (0.0, gain)]
        return compare(*sides, {"rate": True}, rules=PLAIN)["rate"]

    shown = []
    while len(shown) < sets:
        ours = found(runs, 0.0)
        if ours.shown_from is None:
            continue
        gain = ours.shown_from * ours.base
        needed = -(-runs * 16 // 9)
        shown.append(
            [found(*one).verdict == BETTER for one in ((runs, gain), (needed, gain * 0.75))]
        )
    return np.mean(shown, axis=0)


@pytest.mark.parametrize("shape", ["skewed", "normal"])
def test_what_so_many_runs_show_they_show(shape):
    """90 of 100 sets; 25 to 48 of them was the truth of a half of the interval."""
    scale = {"normal": 10, "skewed": 1}[shape]
    assert min(said(lambda *words: scale * (SHAPES[shape](*words) - 1) + 1, 10, 60)) >= 0.8


@pytest.mark.parametrize(
    ("gain", "wanted", "least"), [(0, "no difference", 32), (0.05, "differs", 36)]
)
def test_detect_ends_and_is_seldom_wrong(gain, wanted, least):
    random = np.random.default_rng(5)
    found = [detected(random, SHAPES["normal"], gain)[0] for _ in range(40)]
    assert found.count(wanted) >= least


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_calibration_of_equal_sets(shape, capsys):
    wrong = [false_alarms(SHAPES[shape], sets=1000, runs=runs) for runs in (5, 10, 20)]
    with capsys.disabled():
        print(shape, *(f"{share:.1%}" for share in wrong))
    assert max(wrong) <= 0.07


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("memory", "drift"), [*((one, 0.0) for one in MEMORIES), (0, 0.1), (0, 0.5)]
)
def test_the_calibration_of_turns(memory, drift, capsys):
    wrong = [drifting_alarms(memory, drift, sets=1000, runs=runs)[0] for runs in (5, 10, 20)]
    with capsys.disabled():
        print(f"AR(1) {memory}, drift {drift}", *(f"{share:.1%}" for share in wrong))
    assert max(wrong) <= 0.07


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("times", [1, 2, 4])
def test_the_calibration_of_lengths(times, capsys):
    wrong = [maxima_alarms(times, sets=400, runs=runs) for runs in (5, 10, 20)]
    with capsys.disabled():
        print(f"{times} times longer", *(f"{share:.1%}" for share in wrong))
    assert max(wrong) <= 0.07


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", ["normal", "skewed", "heavy-tailed"])
def test_the_calibration_of_power(shape, capsys):
    scale = {"normal": 10, "skewed": 1, "heavy-tailed": 10}[shape]
    found = [
        said(lambda *words: scale * (SHAPES[shape](*words) - 1) + 1, runs, 400)
        for runs in (5, 10, 20)
    ]
    with capsys.disabled():
        print(shape, *(f"{share:.1%}" for shares in found for share in shares))
    assert np.min(found) >= 0.85


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shape", ["normal", "skewed", "one in twenty ten times slower"])
def test_the_calibration_of_detect(shape, capsys):
    for gain in (0, 0.05):
        random = np.random.default_rng(5)
        found = [detected(random, SHAPES[shape], gain) for _ in range(1000)]
        verdicts = [verdict for verdict, _ in found]
        with capsys.disabled():
            print(shape, gain, {one: verdicts.count(one) for one in sorted({*verdicts})},
                  np.median([runs for _, runs in found]))  # fmt: skip
        if gain == 0:
            assert verdicts.count("differs") <= 60
