"""Reconciliation against a slow twin, and by hand on the cases that matter."""

from analysis_twins import analysis, batch, reconciled, slow_reconcile
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.delivery import receiver_alone
from quiver_fast.analysis.local import analyze_runs

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
        "method": "ids", "sent": 100, "received": 100, "foreign": 0, "lost": 0,
        "duplicate": 0, "reordered": 0, "negative_latency": 0,
    }  # fmt: skip


def test_messages_of_an_earlier_run_are_foreign_even_with_known_ids():
    sent = [(1, 5000), (2, 5001)]
    received = [(1, 4000, 5002), (1, 5000, 5003), (2, 5001, 5003)]
    ours = reconciled(*ends(sent, received, True))
    assert (ours["foreign"], ours["lost"], ours["duplicate"]) == (1, 0, 0)


def test_a_duplicate_is_no_reordering():
    sent = [(1, 5000), (2, 5001)]
    received = [(1, 5000, 5002), (2, 5001, 5002), (1, 5000, 5003)]
    ours = reconciled(*ends(sent, received, True))
    assert (ours["duplicate"], ours["reordered"]) == (1, 0)


def test_without_ids_loss_and_duplicate_in_one_tick_cancel():
    """That is why the method calls itself a lower bound."""
    sent = [(1, 5000), (2, 5000)]
    received = [(1, 5000, 5001), (1, 5000, 5001)]
    without = reconciled(*ends(sent, received, False))
    assert (without["lost"], without["duplicate"]) == (0, 0)
    exact = reconciled(*ends(sent, received, True))
    assert (exact["lost"], exact["duplicate"]) == (1, 1)


def test_units_meet_in_the_coarser_one():
    sender = analysis([1000, 1001], unit="ms")
    receiver = batch([1_000_500, 1_001_999], [1_002_000, 1_003_000])
    ours = reconciled(sender, receiver, unit="us")
    assert ours["method"] == "per-millisecond lower bound"
    assert (ours["foreign"], ours["lost"]) == (0, 0)


def test_nothing_received():
    ours = reconciled(*ends([(1, 5000), (2, 5001)], [], True))
    assert (ours["sent"], ours["received"], ours["lost"]) == (2, 0, 2)


@given(receipts)
def test_receiver_alone(received):
    _, receiver = ends([], received, True)
    ours = receiver_alone(analyze_runs([receiver]))
    stamps = [r[1] for r in received]
    assert ours["duplicate"] == len(received) - len({r[0] for r in received})
    assert ours["reordered"] == sum(t < max(stamps[: i + 1]) for i, t in enumerate(stamps))
    assert ours["negative_latency"] == sum(r[2] < r[1] for r in received)
    assert ours["sent"] is ours["lost"] is ours["foreign"] is None
