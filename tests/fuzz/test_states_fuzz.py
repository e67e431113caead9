"""Some seeds of peers that do anything, valid or not; `make fuzz TARGET=states` has more."""

from __future__ import annotations

import pytest

from tests.fuzz.states.run import BATCH, SETUPS, Fuzzer

# The first seeds of each setup.
COUNT = 12


@pytest.mark.parametrize("number", range(len(SETUPS)), ids=[each.name for each in SETUPS])
def test_states(number: int) -> None:
    said: list[str] = []
    fuzzer = Fuzzer({}, said.append)
    fuzzer.batch(number * BATCH, COUNT)
    assert fuzzer.count >= COUNT
    assert not fuzzer.found, "\n".join(said)
