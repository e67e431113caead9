"""Some seeds of peers that do anything, valid or not; `make fuzz TARGET=states` has more."""

from __future__ import annotations

import pytest

from tests.fuzz.states.run import BATCH, SETUPS, Fuzzer
from tests.fuzz.states.state import Ledger, Link, Session, Wrong

# The first seeds of each setup.
COUNT = 12
# A consumer whose session fails had the message before another one, which is read first.
KEPT = [10505]


@pytest.mark.parametrize("number", range(len(SETUPS)), ids=[each.name for each in SETUPS])
def test_states(number: int) -> None:
    nothing_is_found(number * BATCH, COUNT)


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_found_something(seed: int) -> None:
    nothing_is_found(seed, 1)


def nothing_is_found(first: int, count: int) -> None:
    said: list[str] = []
    fuzzer = Fuzzer({}, said.append)
    fuzzer.batch(first, count)
    assert fuzzer.count >= count
    assert not fuzzer.found, "\n".join(said)


def test_a_consumed_message_comes_to_a_session_that_lives() -> None:
    ledger, lives = Ledger(), Session()
    ledger.came(Session(), Link("first", True), 1, settled=True)
    ledger.came(lives, Link("second", True), 1, settled=False)
    with pytest.raises(Wrong, match="after its acceptance"):
        ledger.settle()


def test_a_settled_message_comes_again_to_a_session_that_ended() -> None:
    ledger, ended = Ledger(), Session(over=True)
    for name in ("first", "second"):
        ledger.came(ended, Link(name, True), 1, settled=True)
    with pytest.raises(Wrong, match="after its acceptance"):
        ledger.settle()
