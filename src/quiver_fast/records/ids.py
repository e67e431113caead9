"""Message ids as pairs of numbers, and how to compare these.

An id that is a decimal integer of 63 bits, written without leading zeros, is that integer,
and the upper half of its pair is 0. Any other id is a hash of 126 bits (SipHash-2-4-128,
:mod:`quiver_fast.records.id_hash`) under a secret key: 63 bits stand in the lower half, the
others in the upper one, which is below 0. So no number is ever taken for a hash, and two
hashes are equal by chance only, which is 6 in 10^21 for a thousand million ids.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

KEY_SIZE = 16
"""Bytes of a key."""

EXACT = "exact"
HASHED = "keyed 126-bit hash"

_OWN_KEY = os.urandom(KEY_SIZE)
# If there are hashes too, numbers are shifted by this: the hashes, which are fewer, are below.
_HASHES = np.uint64(1 << 62)


def key_or_own(key: bytes | None) -> bytes:
    """Return ``key``, or where it is None the one that this process drew when it began.

    Raises:
        ValueError: the key has not :data:`KEY_SIZE` bytes.
    """
    if key is not None and len(key) != KEY_SIZE:
        raise ValueError(f"a key of ids has {KEY_SIZE} bytes, not {len(key)}")
    return _OWN_KEY if key is None else key


def how_compared(hashed: bool) -> str:
    """Say how the ids of a file are compared: :data:`EXACT` or :data:`HASHED`."""
    return HASHED if hashed else EXACT


def comparable(*tables: tuple[Int64Array | None, Int64Array]) -> list[UInt64Array]:
    """Return numbers that are equal where ids are, one array for each table.

    They are meant for these tables only. Ids that count up give numbers that count up, and
    the numbers of pairs in ascending order ascend.

    Args:
        tables: upper halves (None for numbers throughout; any that is not negative means a
            number) and lower halves of ids, each int64[n].
    """
    hashed = [None if high is None else high < 0 for high, _ in tables]
    if not any(some is not None and some.any() for some in hashed):
        return [low.view(np.uint64) for _, low in tables]
    found = [low.view(np.uint64) + _HASHES for _, low in tables]
    pairs = [
        (index, some, high[some], low[some])
        for index, ((high, low), some) in enumerate(zip(tables, hashed, strict=True))
        if high is not None and some is not None
    ]
    ranks = _ranks(np.concatenate([p[2] for p in pairs]), np.concatenate([p[3] for p in pairs]))
    start = 0
    for index, some, high, _ in pairs:
        found[index][some] = ranks[start : start + len(high)]
        start += len(high)
    return found


def _ranks(highs: Int64Array, lows: Int64Array) -> UInt64Array:
    """Number the pairs in their order; equal ones have one number."""
    order = np.lexsort((lows, highs))
    fresh = (np.diff(highs[order]) != 0) | (np.diff(lows[order]) != 0)
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.cumsum(np.append(False, fresh))
    return ranks
