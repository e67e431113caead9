"""What a comparison proves or would show: bounds of a change, and the runs that show one."""

from __future__ import annotations

import math

NO_DIFFERENCE = "no difference above"

SMALL_CHANGE = 0.05
"""A larger bound of a change is not worth a verdict: the runs scatter too much."""
_STEPS = 1000


def no_difference(bound: float) -> str:
    """Return the verdict that no change is above a bound, such as 0.012."""
    return f"{NO_DIFFERENCE} {100 * bound:.1f} %"


def proven_bound(base: float, interval: tuple[float, float], tick: float) -> float | None:
    """Return the share of the base that the change is proven not to exceed.

    None of a base of 0 and where it is above :data:`SMALL_CHANGE`. It is rounded up to a tenth
    of a percent. As the whole 95 % interval lies within it, each side is tested at 2.5 %
    (Schuirmann's two one-sided tests, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).

    Args:
        base: the mean of the base.
        interval: of the difference.
        tick: the step that the clock cuts figures to: a difference of one does not show.
    """
    if base == 0:
        return None
    largest = (max(map(abs, interval)) + tick) / abs(base)
    # Less than a millionth of a step is an error of rounding.
    bound = max(math.ceil(largest * _STEPS - 1e-6), 1) / _STEPS
    return bound if bound <= SMALL_CHANGE else None


def shown_from(base: float, interval: tuple[float, float]) -> float | None:
    """Return the change, as a share of the base, that leaves 0 out of an interval so wide."""
    return (interval[1] - interval[0]) / 2 / abs(base) if base else None


def runs_to_show(runs: int, difference: float, interval: tuple[float, float]) -> int | None:
    """Return how many runs of each set would show a difference of this size.

    The width of an interval falls with the root of the number of runs.

    Args:
        runs: how many there are of the smaller set.
        difference: candidate - base, as found; None is returned of 0.
        interval: of the difference.
    """
    if difference == 0:
        return None
    half = (interval[1] - interval[0]) / 2
    return max(math.ceil(runs * (half / difference) ** 2), runs + 1)
