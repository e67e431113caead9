"""Numbers in sentences."""

import pytest

from quiver_fast.words import counted


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((1, "message"), "1 message"),
        ((0, "message"), "0 messages"),
        ((12_000, "entry"), "12,000 entries"),
        ((1, "line", ("is", "are")), "1 line is"),
        ((2, "line", ("is", "are")), "2 lines are"),
    ],
)
def test_a_noun_follows_its_number(words, text):
    assert counted(*words) == text
