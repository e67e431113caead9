"""Reconciliation against a slow twin, and by hand on the cases that matter."""

import numpy as np
import pytest
from analysis_twins import analysis, batch, reconciled, slow_reconcile
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.figures.delivery import receiver_alone
from quiver_fast.analysis.model.bounds import NOTHING_KNOWN, RunBounds
from quiver_fast.analysis.read.local import analyze_runs

times = st.integers(1_700_000_000_000, 1_700_000_000_012)
ids = st.integers(1, 12)
sends = st.lists(st.tuples(ids, times), max_size=25).map(lambda s: sorted(s, key=lambda x: x[1]))
receipts = st.lists(st.tuples(ids, times, times), max_size=25)


def ends(sent, received, with_ids):
    sender = analysis([s[1] for s in sent], ids=[s[0] for s in sent] if with_ids else None)
    receiver = batch(
        [r[1] for r in received],
        [r[2] for r in received],
        [r[0] for r in received] if with_ids else None,
    )
    return sender, receiver


@given(sends, receipts, st.booleans())
def test_against_the_twin(sent, received, with_ids):
    ours = reconciled(*ends(sent, received, with_ids))
    assert ours.pop("method") == ("ids" if with_ids else "per-millisecond lower bound")
    assert ours == slow_reconcile(sent, received, with_ids)


def test_a_perfect_run():
    sent = [(n, 1000 + n // 3) for n in range(100)]
    ours = reconciled(*ends(sent, [(n, t, t + 2) for n, t in sent], True))
    assert ours == {
        "method": "ids", "sent": 100, "received": 100, "older": 0, "foreign": 0,
        "unreceived": 0, "lost": 0, "duplicate": 0, "reordered": 0, "negative_latency": 0,
        "told_apart_by": "ids",
    }  # fmt: skip


def test_messages_of_an_earlier_run_are_older_even_with_known_ids():
    sent = [(1, 5000), (2, 5001)]
    received = [(1, 4000, 5002), (1, 5000, 5003), (2, 5001, 5003)]
    ours = reconciled(*ends(sent, received, True))
    assert (ours["older"], ours["foreign"]) == (1, 0)
    assert (ours["received"], ours["unreceived"], ours["duplicate"]) == (2, 0, 0)


def test_a_duplicate_is_no_reordering():
    sent = [(1, 5000), (2, 5001)]
    received = [(1, 5000, 5002), (2, 5001, 5002), (1, 5000, 5003)]
    ours = reconciled(*ends(sent, received, True))
    assert (ours["duplicate"], ours["reordered"]) == (1, 0)


@pytest.mark.parametrize("with_ids", [True, False])
def test_late_duplicates_are_no_reordering(with_ids):
    """Ten messages come again at the end; two of the others have changed places."""
    sent = [(number, 5000 + number) for number in range(100)]
    order = [*range(50), 51, 50, *range(52, 100), *range(20, 30)]
    received = [(*sent[number], 5200 + place) for place, number in enumerate(order)]
    ours = reconciled(*ends(sent, received, with_ids))
    assert (ours["duplicate"], ours["reordered"]) == (10, 1)


def test_without_ids_loss_and_duplicate_in_one_tick_cancel():
    """That is why the method calls itself a lower bound."""
    sent = [(1, 5000), (2, 5000)]
    received = [(1, 5000, 5001), (1, 5000, 5001)]
    without = reconciled(*ends(sent, received, False))
    assert (without["unreceived"], without["duplicate"]) == (0, 0)
    exact = reconciled(*ends(sent, received, True))
    assert (exact["unreceived"], exact["duplicate"]) == (1, 1)


def test_units_meet_in_the_coarser_one():
    start = 1_700_000_000_000
    sender = analysis([start, start + 1], unit="ms")
    stamps = [start * 1000 + 500, start * 1000 + 1999]
    receiver = batch(stamps, [stamp + 1500 for stamp in stamps])
    ours = reconciled(sender, receiver, unit="us")
    assert ours["method"] == "per-millisecond lower bound"
    assert (ours["older"], ours["foreign"], ours["unreceived"]) == (0, 0, 0)


def test_nothing_received():
    ours = reconciled(*ends([(1, 5000), (2, 5001)], [], True))
    assert (ours["sent"], ours["received"]) == (2, 0)
    assert (ours["unreceived"], ours["lost"]) == (2, None)


@pytest.mark.parametrize("with_ids", [True, False])
def test_lost_is_what_is_proven_to_be(with_ids):
    """The third message may still be in the queue, and so may the first, in spite of the gap."""
    sent = [(1, 5000), (2, 5001), (3, 5002)]
    received = [(2, 5001, 5003)]
    ours = reconciled(*ends(sent, received, with_ids))
    assert (ours["unreceived"], ours["lost"]) == (2, None)
    for run in (RunBounds(emptied=True), RunBounds(peer_to_peer=True, complete=True)):
        ours = reconciled(*ends(sent, received, with_ids), run=run)
        assert (ours["unreceived"], ours["lost"]) == (2, 2)
    unfinished = RunBounds(peer_to_peer=True, complete=False)
    assert reconciled(*ends(sent, received, with_ids), run=unfinished)["lost"] is None
    for refused, lost in ((1, 1), (2, 0), (3, 0)):
        run = RunBounds(emptied=True, refused=refused)
        assert reconciled(*ends(sent, received, with_ids), run=run)["lost"] == lost


@pytest.mark.parametrize("with_ids", [True, False])
def test_what_was_rejected_is_neither_lost_nor_unreceived(with_ids):
    sent = [(1, 5000), (2, 5001), (3, 5002), (4, 5003)]
    received = [(3, 5002, 5003)]
    for rejected, unreceived, lost in ((0, 3, None), (1, 2, None), (3, 0, 0), (9, 0, 0)):
        run = RunBounds(released=2, rejected=rejected)
        ours = reconciled(*ends(sent, received, with_ids), run=run)
        assert (ours["released"], ours["rejected"]) == (2, rejected)
        assert (ours["unreceived"], ours["lost"]) == (unreceived, lost)
        run = RunBounds(released=2, rejected=rejected, emptied=True)
        assert reconciled(*ends(sent, received, with_ids), run=run)["lost"] == unreceived


def test_an_id_that_was_sent_twice_proves_nothing_once_it_came():
    """Which of the two came nobody can say."""
    sent = [(1, 5000), (2, 5001), (1, 5002)]
    ours = reconciled(*ends(sent, [(1, 5000, 5003), (2, 5001, 5003)], True))
    assert (ours["unreceived"], ours["lost"]) == (1, None)


@given(receipts)
def test_receiver_alone(received):
    _, receiver = ends([], received, True)
    ours = receiver_alone(analyze_runs([receiver]), NOTHING_KNOWN)
    stamps = [r[1] for r in received]
    assert ours["duplicate"] == len(received) - len({r[0] for r in received})
    behind = sum(t < max(stamps[: i + 1]) for i, t in enumerate(stamps))
    assert ours["reordered"] == max(0, behind - ours["duplicate"])
    assert ours["negative_latency"] == sum(r[2] < r[1] for r in received)
    for unknown in ("sent", "older", "foreign", "unreceived", "lost", "told_apart_by"):
        assert ours[unknown] is None


@given(receipts, times)
def test_receiver_alone_with_the_start_of_the_run(received, start):
    _, receiver = ends([], received, False)
    run = RunBounds(run_start=start)
    ours = analyze_runs([receiver], run=run)
    own = [r for r in received if r[1] >= start]
    told = receiver_alone(ours, run)
    assert (told["received"], told["older"]) == (len(own), len(received) - len(own))
    assert told["told_apart_by"] == "run start"
    assert sorted(r[2] - r[1] for r in own) == [
        latency
        for part in ours.latencies.parts()
        for latency in np.repeat(part.values, part.counts).tolist()
    ]
