"""Sorted rows in files against lists in memory."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from quiver_fast.analysis.tables.sorted_rows import SortedLookup, SortedRows, aligned, summed

keys = st.integers(-5, 40) | st.sampled_from([-(2**63), 2**63 - 1])
added = st.lists(st.lists(st.tuples(keys, st.integers(-3, 9)), max_size=40), max_size=30)
# Bytes: from room for two rows, and many files, to one that is never exceeded.
rooms = st.sampled_from([1, 100, 1000, 1 << 20])
many = settings(deadline=None, max_examples=examples(80))


def table(parts, room, *, keys=1, combine=None):
    rows = SortedRows(2, keys=keys, combine=combine, room=room)
    for part in parts:
        rows.add(*(np.array([row[column] for row in part], np.int64) for column in range(2)))
    return rows


def distinct(rows):
    return np.unique(rows, axis=0)


def listed(chunks):
    return [tuple(row) for chunk in chunks for row in chunk.tolist()]


@given(added, rooms)
@many
def test_rows_come_sorted_and_equal_keys_as_they_were_added(parts, room):
    rows = table(parts, room)
    everything = [row for part in parts for row in part]
    assert listed(rows.chunks()) == sorted(everything, key=lambda row: row[0])
    assert listed(rows.chunks()) == sorted(everything, key=lambda row: row[0])


@given(added, rooms)
@many
def test_a_key_is_whole_within_its_chunk(parts, room):
    seen = [set(chunk[:, 0].tolist()) for chunk in table(parts, room).chunks()]
    assert sum(map(len, seen)) == len(set().union(*seen))


@given(added, rooms)
@many
def test_two_keys(parts, room):
    rows = table(parts, room, keys=2, combine=distinct)
    assert listed(rows.chunks()) == sorted({row for part in parts for row in part})


@given(added, rooms)
@many
def test_equal_rows_are_summed(parts, room):
    expected = Counter()
    for part in parts:
        for key, count in part:
            expected[key] += count
    assert listed(table(parts, room, combine=summed).chunks()) == sorted(expected.items())


@given(added, rooms, st.lists(keys, max_size=30))
@many
def test_look_up(parts, room, asked):
    rows = table(parts, room, combine=summed)
    expected = dict(listed(rows.chunks()))
    found = SortedLookup(rows).values(np.array(asked, np.int64))
    assert found.tolist() == [expected.get(key, 0) for key in asked]


@given(added, added, rooms)
@many
def test_aligned(left, right, room):
    tables = [table(parts, room) for parts in (left, right)]
    pairs = list(aligned(*tables))
    for side, rows in enumerate(tables):
        assert listed(pair[side] for pair in pairs) == listed(rows.chunks())
    met = [set(a[:, 0].tolist()) | set(b[:, 0].tolist()) for a, b in pairs]
    assert sum(map(len, met)) == len(set().union(*met))


def test_what_becomes_few_by_summing_stays_in_memory():
    rows = SortedRows(2, combine=summed, room=1600)
    for _ in range(100):
        rows.add(np.arange(20), np.ones(20, np.int64))
    assert rows.in_memory
    assert listed(rows.chunks()) == [(n, 100) for n in range(20)]


def test_files_are_merged_before_they_are_many():
    rows = SortedRows(1, room=80)
    for start in range(3000):
        rows.add(np.array([start * 7919 % 3000]))
    assert listed(rows.chunks()) == [(n,) for n in range(3000)]
    assert sum(len(level) for level in rows._levels) < 48
