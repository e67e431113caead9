"""The classes of many messages: the slow twin in Python is `PropertyMix.class_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from quiver_fast.analysis.model.columns import Numbers
    from quiver_fast.property_mix import PropertyMix


def classes_of(mix: PropertyMix, numbers: Numbers) -> Numbers:
    """Return the place in `PropertyMix.classes` of each message.

    Args:
        mix: the properties of the sender's messages.
        numbers: the numbers of messages within their end, from 1.
    """
    numbers = numbers.astype(np.uint64)
    found = np.zeros(len(numbers), np.int64)
    for factor, bounds in mix.steps():
        places = np.searchsorted(
            np.array(bounds, np.uint64), numbers * np.uint64(factor), side="right"
        )
        found = found * (len(bounds) + 1) + places
    return found
