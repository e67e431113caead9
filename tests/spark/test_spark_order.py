"""Arrivals by send time as few rows: the order of all of them is still told."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.peers import why_missing

if why_missing("spark") is None:
    from spark_analysis import reconcile

# A tick, messages at it, how many of others come behind them, whether a new split or file begins,
# and which of the file's receivers it was.
ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 15),
        st.integers(1, 3),
        st.sampled_from([0, 0, 0, 1]),
        st.integers(0, 9),
        st.integers(0, 1),
    )
)


def behind(rows: dict[str, Any]) -> int:
    """Count what is below an earlier arrival of its receiver, row by row in their order."""
    total, furthest = 0, {}
    names = ("file", "split", "position", "receiver", "value", "n")
    for file, _split, _position, receiver, value, n in sorted(
        zip(*(rows[x] for x in names), strict=True)
    ):
        top = furthest.get((file, receiver), value)
        total += int(n) if value < top else 0
        furthest[file, receiver] = max(top, value)
    return total


@given(ARRIVALS, st.integers(0, 4))
def test_the_order_of_arrivals_survives_their_joining(
    arrivals: list[tuple[int, int, int, int, int]], bits: int
) -> None:
    rows, place = [], [0, 0, 0]
    for tick, n, others, fresh, member in arrivals:
        if fresh == 0:
            place = [place[0] + 1, 0, 0]
        elif fresh == 1:
            place = [place[0], place[1] + 1, 0]
        rows.append((*place, member, tick, n, tick >> bits))
        place[2] += n + others
    names = ("file", "split", "position", "member", "key", "n", "range")
    own = {name: np.array([row[k] for row in rows], np.int64) for k, name in enumerate(names)}
    joined = reconcile._in_order(own)
    assert behind(joined) == behind(own | {"value": own["key"], "receiver": own["member"]})
    assert joined["n"].sum() == own["n"].sum()
    assert len(joined["n"]) <= len(rows)


def test_what_arrives_in_order_is_a_row_for_each_range() -> None:
    keys = np.arange(1000) // 3
    nothing, ones = np.zeros(1000, np.int64), np.ones(1000, np.int64)
    own = {"file": nothing, "split": nothing, "member": nothing} | {
        "position": np.arange(1000), "key": keys, "n": ones,
    }  # fmt: skip
    joined = reconcile._in_order(own | {"range": keys >> 7})
    assert joined["value"].tolist() == [127, 255, 333]
