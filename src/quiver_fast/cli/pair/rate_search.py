"""The search for the highest rate that a target sustains: which rate to try next.

Nothing here measures. The caller tries :attr:`RateSearch.rate` and says what happened, so that
a simulated target can be searched as well.
"""

from __future__ import annotations

import math
from collections.abc import Generator

__all__ = ["PRECISION", "RateSearch"]

PRECISION = 0.02
"""How far above the answer the rate is that fails, as a share of the answer."""

CONFIRMATIONS = 3
_MAJORITY = 2
_HIGHEST = 1_000_000_000

_Steps = Generator[int, bool, None]


class RateSearch:
    """Doubles the rate until it fails, bisects, and confirms both sides of the answer.

    A rate that fails is tried again, and the third trial decides between two that differ:
    machines hiccup at any rate. A rate is confirmed when two of three more runs at it are
    sustained, and two of three runs just above it are not. The runs at both alternate, so that
    a machine that slows down or recovers affects both alike. Where a side is refuted, the
    search goes on from there.

    Attributes:
        low: the highest rate that was sustained and not refuted since; None for none.
        high: the lowest one that failed and was not refuted since; None for none.
        confirmed: the search came to its end: ``low`` is the answer.
    """

    def __init__(self, start: int) -> None:
        """Begin at ``start`` messages per second, at least 1."""
        self.low: int | None = None
        self.high: int | None = None
        self.confirmed = False
        self._steps = self._search(start)
        self._rate: int | None = next(self._steps)

    @property
    def rate(self) -> int | None:
        """The rate to try next, in messages per second; None at the end of the search."""
        return self._rate

    def take(self, sustained: bool) -> None:
        """Take what came of :attr:`rate`."""
        try:
            self._rate = self._steps.send(sustained)
        except StopIteration:
            self._rate = None

    def _search(self, start: int) -> _Steps:
        yield from self._enclose(start, 2.0)
        while self.low is not None and self.high is not None:
            yield from self._bisect()
            if (yield from self._confirm(self.low, self.high)):
                self.confirmed = True
                return
            yield from self._enclose_again()

    def _enclose(self, rate: int, factor: float) -> _Steps:
        """Go up from a rate until one fails, or down until one is sustained."""
        while (self.low is None or self.high is None) and 1 <= rate <= _HIGHEST:
            if (yield from _tried(rate)):
                self.low, rate = rate, max(math.floor(rate * factor), rate + 1)
            else:
                self.high, rate = rate, min(math.ceil(rate / factor), rate - 1)
            factor *= factor if factor < 2 else 1

    def _bisect(self) -> _Steps:
        while self.low is not None and self.high is not None:
            middle = round(math.sqrt(self.low * self.high))
            if self.high <= _above(self.low) or middle in (self.low, self.high):
                return
            if (yield from _tried(middle)):
                self.low = middle
            else:
                self.high = middle

    def _confirm(self, low: int, high: int) -> Generator[int, bool, bool]:
        """Try both sides of the answer in turns; forget a side that is refuted."""
        held = failed = 0
        for _ in range(CONFIRMATIONS):
            failed += not (yield high)
            held += yield low
        if held < _MAJORITY:
            self.low, self.high = None, low
        elif failed < _MAJORITY:
            self.low, self.high = high, None
        return held >= _MAJORITY and failed >= _MAJORITY

    def _enclose_again(self) -> _Steps:
        """Look for the side that was refuted, in steps that grow."""
        if self.low is None and self.high is not None:
            yield from self._enclose(min(math.floor(self.high / (1 + PRECISION)), self.high - 1),
                                     1 + PRECISION)  # fmt: skip
        elif self.low is not None:
            yield from self._enclose(_above(self.low), 1 + PRECISION)


def _tried(rate: int) -> Generator[int, bool, bool]:
    """Say whether a rate is sustained: at once, or in two of three trials."""
    if (yield rate):
        return True
    if not (yield rate):
        return False
    return (yield rate)


def _above(rate: int) -> int:
    """Return the rate just above: the next that the search tells apart."""
    return max(math.ceil(rate * (1 + PRECISION)), rate + 1)
