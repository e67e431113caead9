"""The judge of histories, on histories made by hand: each fault is found, and only that."""

from __future__ import annotations

from support.history import History, Key

A, B = Key(1, 1, "a"), Key(1, 2, "a")
MOVED = Key(2, 1, "b")


def history(*events: tuple[str, Key] | tuple[str, Key, int] | tuple[str, Key, int, int]) -> History:
    made = History()
    for kind, key, *rest in events:
        consumer, life = [*rest, *(1, 1)[len(rest) :]]
        made.note(kind, key, consumer, life)
    return made


def kinds(made: History) -> list[str]:
    return [fault.partition(":")[0] for fault in made.faults()]


def test_a_good_history() -> None:
    made = history(("received", A), ("removed", A), ("received", B), ("removed", B))
    made.accepted |= {A, B}
    assert made.faults() == []


def test_lost() -> None:
    made = history(("received", A))
    made.accepted |= {A, B}
    assert kinds(made) == ["lost"]


def test_what_nobody_heard_of_may_be_there_or_not() -> None:
    assert history().faults() == []
    assert history(("received", A)).faults() == []


def test_again_after_a_removal() -> None:
    assert kinds(history(("received", A), ("removed", A), ("received", A, 2))) == [
        "came again after its removal"
    ]
    # Another life later it is one as well.
    assert kinds(history(("received", A), ("removed", A), ("received", A, 2, 2))) == [
        "came again after its removal"
    ]


def test_a_delivery_of_an_earlier_life_is_none() -> None:
    made = history(("received", A, 1, 2), ("removed", A, 1, 2), ("received", A, 2, 1))
    assert made.faults() == []


def test_redelivery() -> None:
    """After a release, the end of a consumer or of a life it may come again."""
    assert history(("received", A), ("let_go", A), ("received", A, 2)).faults() == []
    assert history(("received", A), ("received", A, 2, 2)).faults() == []


def test_two_consumers_at_once() -> None:
    assert kinds(history(("received", A), ("received", A, 2))) == ["held by two"]


def test_order() -> None:
    made = History()
    made.note("received", B, 1, 1, first=True)
    # Redelivered, or to another consumer: its place is its own.
    made.note("received", A, 1, 2, first=False)
    made.note("received", A, 2, 3, first=True)
    assert made.faults() == []
    made.note("received", A, 1, 1, first=True)
    assert kinds(made)[-1] == "out of order"


def test_half_a_transaction() -> None:
    for committed in (True, None):
        made = history(("received", A))
        transaction = made.begin(1)
        transaction.sent, transaction.committed = [A, B], committed
        assert "half there" in kinds(made)


def test_a_commit_that_is_not_there() -> None:
    made = history()
    transaction = made.begin(1)
    transaction.sent, transaction.committed = [A, B], True
    assert kinds(made) == ["lost", "lost"]


def test_a_rollback_that_is_there() -> None:
    made = history(("received", A), ("received", B))
    transaction = made.begin(1)
    transaction.sent, transaction.committed = [A, B], False
    assert kinds(made) == ["rolled back but there"]


def test_of_several_servers_copies_may_come_again_but_nothing_is_lost_or_half_there() -> None:
    again = history(("received", A), ("removed", A), ("received", A, 2), ("received", A, 3))
    assert again.faults(trunks=True) == []
    half = history(("received", A))
    half.accepted |= {A, MOVED}
    transaction = half.begin(1)
    transaction.sent, transaction.committed = [A, B], None
    back = half.begin(1)
    back.sent, back.committed = [A], False
    kinds_of = [fault.partition(":")[0] for fault in half.faults(trunks=True)]
    assert kinds_of == ["lost", "half there", "rolled back but there"]


def moved(committed: bool | None, *events: tuple[str, Key]) -> History:
    """A transaction that takes A away and sends MOVED."""
    made = history(("received", A))
    transaction = made.begin(1)
    transaction.sent, transaction.removed, transaction.committed = [MOVED], [A], committed
    made.end(transaction, 1)
    made.events += history(*events).events
    made.accepted.add(A)
    return made


def test_a_move() -> None:
    assert moved(True, ("received", MOVED)).faults() == []
    assert moved(False, ("received", A)).faults() == []
    assert moved(None, ("received", MOVED)).faults() == []
    assert moved(None, ("received", A)).faults() == []


def test_half_a_move() -> None:
    again = "committed, but what it removed came again"
    assert kinds(moved(True, ("received", MOVED), ("received", A))) == [again]
    assert kinds(moved(None, ("received", MOVED), ("received", A))) == [again]
    gone = "rolled back, but what it removed is gone"
    assert kinds(moved(False)) == [gone]
    assert kinds(moved(None)) == [gone]


def test_one_that_is_rolled_back_and_then_moved() -> None:
    made = moved(False, ("received", A))
    later = made.begin(1)
    later.removed, later.committed = [A], True
    made.end(later, 1)
    assert made.faults() == []
