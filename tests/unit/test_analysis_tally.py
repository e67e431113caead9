"""The compiled loops of the analysis against slow, obvious twins."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.analysis.tables.tally import located_pieces

# Gaps and lengths of the table's runs, far enough apart for a search by bisection.
tables = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=30)
runs = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40)), max_size=20)


@given(tables, runs)
@settings(deadline=None)
def test_every_number_is_in_the_piece_of_its_row(table, wanted):
    rows, end = [], 0
    for gap, length in table:
        rows.append((end + gap, length))
        end += gap + length
    found = located_pieces(*columns(rows), *columns(wanted))
    owner = {first + k: row for row, (first, length) in enumerate(rows) for k in range(length)}
    expected = [
        (origin, start + k, owner.get(start + k, -1))
        for origin, (start, length) in enumerate(wanted)
        for k in range(length)
    ]
    pieces = list(zip(*(column.tolist() for column in found), strict=True))
    assert [
        (origin, piece + k, place) for piece, size, origin, place in pieces for k in range(size)
    ] == expected
    # No piece is cut in two for nothing.
    assert all(before[2:] != after[2:] for before, after in pairwise(pieces))


def columns(rows):
    return (np.array([row[column] for row in rows], np.uint64) for column in range(2))
