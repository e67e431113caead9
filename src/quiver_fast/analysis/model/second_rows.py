"""Rows of neighbouring seconds or windows: silent ones have a row too, made when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from quiver_fast.analysis.model.columns import Column, Numbers
from quiver_fast.analysis.model.distribution import Int64Array

Pairs: TypeAlias = Iterator[tuple[Int64Array, Numbers]]
"""Seconds that have messages, ascending, and a value of each; in pieces, none empty."""

_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class SecondRows:
    """Which seconds have a row.

    Attributes:
        seconds: int64, ascending: those with messages.
        every: whether all between them have one too.
        step: seconds from a row to the next.
    """

    seconds: Int64Array
    every: bool
    step: int = 1

    def __len__(self) -> int:
        """Return the number of rows."""
        if not self.every or len(self.seconds) == 0:
            return len(self.seconds)
        return int(self.seconds[-1] - self.seconds[0]) // self.step + 1

    def between(self, start: int, end: int) -> Int64Array:
        """Return the seconds of the rows from the index ``start`` to before ``end``."""
        if not self.every:
            return self.seconds[start:end]
        return np.arange(start, end, dtype=np.int64) * self.step + int(self.seconds[0])

    def rows(self) -> Iterator[Int64Array]:
        """Yield the second of each row, in pieces."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield self.between(start, min(start + _ROWS_AT_ONCE, len(self)))

    def column(self, pairs: Callable[[], Pairs], silent: float) -> Column:
        """Return the value of ``pairs`` for each row, and ``silent`` for rows without one."""
        return Column(len(self), lambda: self._filled(pairs(), silent))

    def _filled(self, pairs: Pairs, silent: float) -> Iterator[Numbers]:
        row = 0
        for seconds, values in pairs:
            if not self.every:
                yield values
                continue
            places = (seconds - self.seconds[0]) // self.step
            end = int(places[-1]) + 1
            filled = np.full(end - row, silent, values.dtype)
            filled[places - row] = values
            row = end
            yield filled
