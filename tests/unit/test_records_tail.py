"""Records that a tail leaves out, and settlements that it joins, against slow twins."""

import math
import tempfile

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.records import sampled_settlements
from quiver_fast.records.formats import RECEIVE, SEND, TIME_DIGITS, V1, V2, V3
from quiver_fast.records.log_histogram import LogHistogram
from quiver_fast.records.parser import TransferTail

RUN_START = 1472344673324
TICKS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def tail_of(pieces, *arguments, **keywords):
    """Yield the batches of a file that grows by ``pieces``, each with its latencies."""
    with (
        tempfile.NamedTemporaryFile() as file,
        TransferTail(file.name, *arguments, **keywords) as tail,
    ):
        for piece in pieces:
            file.write(piece)
            file.flush()
            yield tail.read(), tail.latencies


def near(unit):
    """Return times of ``unit`` at both sides of the start of the run."""
    return st.integers(-3 * TICKS[unit], 3 * TICKS[unit]).map(
        lambda away: RUN_START * TICKS[unit] + away
    )


receipts = st.tuples(
    st.sampled_from(sorted(TICKS)).flatmap(near),
    st.one_of(st.integers(1, 10**9).map(str), st.sampled_from(["other-7", "a%2Cb", "00"])),
)


def is_own(sent, unit, message_id, by_ids):
    in_unit = len(str(sent)) == TIME_DIGITS[unit]
    of_run = not by_ids or (message_id.isdigit() and not message_id.startswith("0"))
    return in_unit and sent >= RUN_START * TICKS[unit] and of_run


def slow_percentile(latencies, rank):
    """Return the smallest latency that at least ``rank`` percent are not above; None of none."""
    if not latencies:
        return None
    needed = max(math.ceil(rank * len(latencies) / 100), 1)
    return sorted(latencies)[needed - 1]


def assert_near(found, expected):
    """Expect what lies in the same cell of the histogram: 0.2 %, of latencies below 0 as well."""
    assert (found is None) == (expected is None)
    if expected is not None:
        assert abs(found - expected) <= 0.002 * abs(expected)


latencies_of_all_sizes = st.integers(0, 62).flatmap(
    lambda bits: st.integers(-(2**bits), 2**bits - 1)
)


@given(st.lists(latencies_of_all_sizes, min_size=1, max_size=50))
@settings(deadline=None)
def test_percentiles_are_near_the_twins_whatever_the_latencies(latencies):
    histogram = LogHistogram()
    histogram.add(numpy.array(latencies, numpy.int64))
    for rank in (0, 1, 50, 99, 100):
        assert_near(histogram.percentile(rank), slow_percentile(latencies, rank))
    histogram.clear()
    assert histogram.percentile(50) is None


@given(
    st.lists(latencies_of_all_sizes, max_size=50),
    st.lists(st.integers(0, 2**40), min_size=1, max_size=8),
)
def test_counts_up_to_bounds_are_near_the_twins(latencies, bounds):
    """Latencies within a cell of a bound may be on either side."""
    histogram = LogHistogram()
    histogram.add(numpy.array(latencies, numpy.int64))
    bounds = sorted(bounds)
    counts = histogram.counts_up_to(bounds)
    assert counts == sorted(counts)
    for bound, found in zip(bounds, counts, strict=True):
        below = sum(latency <= bound * 0.996 for latency in latencies)
        above = sum(latency <= bound * 1.004 for latency in latencies)
        assert below <= found <= above


@given(
    st.lists(st.lists(receipts, max_size=20), min_size=1, max_size=3),
    st.sampled_from(sorted(TICKS)),
    st.booleans(),
)
@settings(deadline=None)
def test_only_messages_of_the_run_count(pieces, unit, by_ids):
    received = (RUN_START + 10) * TICKS[unit]
    texts = [
        "".join(f"{id_},{sent},{received}\n" if by_ids else f"{sent},{received}\n"
                for sent, id_ in piece).encode()
        for piece in pieces
    ]  # fmt: skip
    batches = tail_of(texts, RECEIVE, V1 if by_ids else V3, run_start=RUN_START, own_ids=by_ids)
    for piece, (batch, histogram) in zip(pieces, batches, strict=True):
        own = [sent for sent, id_ in piece if is_own(sent, unit, id_, by_ids)]
        assert batch.count == len(own)
        latencies = [received - sent for sent in own]
        assert batch.latency_sum == sum(latencies)
        assert_near(histogram.percentile(50), slow_percentile(latencies, 50))
        assert_near(histogram.percentile(99), slow_percentile(latencies, 99))


@given(st.lists(st.integers(0, 200), min_size=1, max_size=6))
@settings(deadline=None)
def test_a_tail_reads_up_to_where_it_is_told_to(limits):
    """Also within a line, and to a place that it is beyond already."""
    line = b"1472344673324,0\n"
    with tempfile.NamedTemporaryFile() as file, TransferTail(file.name, SEND) as tail:
        file.write(10 * line)
        file.flush()
        count = furthest = 0
        for limit in limits:
            count, furthest = count + tail.read(limit).count, max(furthest, limit)
            assert count == min(furthest // len(line), 10)
        assert count + tail.read().count == 10


def test_without_a_start_everything_counts():
    [(batch, _)] = tail_of([b"5,1472344673324\n1472344673324000,1472344673324\n"], RECEIVE, V3)
    assert batch.count == 2


def slow_join(lines):
    """Join every S line to the first unsettled send of its id."""
    waiting, count, total = {}, 0, 0
    for kind, id_, time in lines:
        if kind == "":
            waiting.setdefault(id_, []).append(time)
        elif waiting.get(id_):
            count, total = (
                (count + 1, total + time - waiting[id_][0]) if kind == "S" else (count, total)
            )
            waiting[id_].pop(0)
    return count, total


@st.composite
def senders(draw):
    """Draw the lines of a sender: ids in any order, each settled at most once, after its send."""
    ids = draw(st.lists(st.integers(0, 10**6), unique=True, max_size=40))
    lines = [("", id_, RUN_START + n) for n, id_ in enumerate(ids)]
    for n, id_ in enumerate(ids):
        kind = draw(st.sampled_from(["", "s", "S"]))
        if kind:
            at = draw(st.integers(lines.index(("", id_, RUN_START + n)) + 1, len(lines)))
            lines.insert(at, (kind, id_, RUN_START + n + draw(st.integers(0, 500))))
    return lines


@given(senders(), st.integers(1, 7))
@settings(deadline=None)
def test_sampled_settlements_equal_the_twin(lines, size):
    texts = [f"{kind}{id_},{time}\n".encode() for kind, id_, time in lines]
    pieces = [b"".join(texts[at : at + size]) for at in range(0, len(texts), size)]
    batches = [batch for batch, _ in tail_of(pieces, SEND, V2, settlements=True)]
    found = sum(batch.sampled for batch in batches), sum(batch.sampled_sum for batch in batches)
    assert found == slow_join(lines)


def test_a_sender_without_settlements_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(sampled_settlements, "MOST_UNSETTLED", 3)
    lines = [b"%d,%d\n" % (n, RUN_START) for n in range(6)]
    settled = [b"S%d,%d\n" % (n, RUN_START + 7) for n in range(6)]
    _, (batch, _) = tail_of([b"".join(lines), b"".join(settled)], SEND, V2, settlements=True)
    # The latest sends are kept; what settles earlier ones finds no send.
    assert (batch.sampled, batch.sampled_sum) == (3, 21)
