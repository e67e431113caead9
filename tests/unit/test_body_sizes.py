"""Bodies of several sizes: the text of a mix, the sequence that it makes, and messages of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.arrow.amqp.template import MessageTemplate, MixedTemplate
from quiver_fast.arrow.run.sizes import Sizes
from quiver_fast.body_sizes import BodySize, largest_body, parse_body_size
from quiver_fast.errors import UsageError

MASK = 2**64 - 1

PARTS = st.builds(
    lambda least, span, share: BodySize(least, least + span, share),
    st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 9),
)  # fmt: skip
MIXES = st.lists(PARTS, min_size=1, max_size=5).map(tuple)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100", 100),
        ("6000000000", 6_000_000_000),
        ("10k:100%", (BodySize(10_000, 10_000, 1),)),
        ("1k..64k", (BodySize(1000, 64_000, 1),)),
        ("100:80%,10k:20%", (BodySize(100, 100, 4), BodySize(10_000, 10_000, 1))),
        ("0:99.9%,1..2:0.05%,1m:0.05%",
         (BodySize(0, 0, 1998), BodySize(1, 2, 1), BodySize(10**6, 10**6, 1))),
    ],
)  # fmt: skip
def test_a_text_says_sizes(text: str, expected: object) -> None:
    assert parse_body_size(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' is not BYTES, LEAST..MOST or either with a share"),
        ("10k:20", "'10k:20' is not BYTES"),
        ("1..", "'1..' is not BYTES"),
        ("1:50%,2:49.99%", "add up to 99.99 %, not to 100 %"),
        ("1,2", "add up to 200 %"),
        ("1:100%,2:0%", "'1:100%,2:0%': a share is more than 0 %"),
        ("2..1", "sizes of a mix rise"),
        ("1..4294967296", "at most 4294967295"),
        (",".join(["1:1%"] * 101), "101 parts are more than 100"),
    ],
)
def test_a_text_without_sizes(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_body_size(text)


def drawn(mix: tuple[BodySize, ...], seed: int) -> Iterator[int]:
    """Yield the sizes of a mix as `Sizes` does, from the definition of splitmix64."""
    state = seed

    def below(limit: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & MASK
        value = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        return ((value ^ (value >> 31)) >> 32) * limit >> 32

    while True:
        block = [part for part in mix for _ in range(part.share)]
        while block:
            part = block.pop(below(len(block)))
            yield part.least + below(part.most - part.least + 1)


def sizes_sent(mix: tuple[BodySize, ...], seed: int, count: int, **words: bool) -> list[int]:
    template = MixedTemplate(largest_body(mix), sizes=Sizes(mix, seed), **words)
    found = []
    for time in range(count):
        message = proton.Message()
        encoded = template.encode(time)
        message.decode(encoded)
        body = bytes(message.body)
        assert body == b"x" * len(body)
        announced = {"BodySize": len(body)} if words.get("streaming") else {}
        assert message.properties == {**announced, "SendTime": time}
        assert message.id == (str(time + 1) if words.get("with_id") else None)
        assert len(encoded) <= template.size
        found.append(len(body))
    return found


@given(
    mix=MIXES, seed=st.integers(0, 10**6), count=st.integers(1, 60), with_id=st.booleans(),
    streaming=st.booleans(),
)  # fmt: skip
def test_messages_have_the_sizes_of_the_sequence(
    mix: tuple[BodySize, ...], seed: int, count: int, with_id: bool, streaming: bool
) -> None:
    sequence = drawn(mix, seed)
    expected = [next(sequence) for _ in range(count)]
    assert sizes_sent(mix, seed, count, with_id=with_id, streaming=streaming) == expected


def test_each_block_has_the_shares_exactly() -> None:
    mix = parse_body_size("100:62.5%,200:25%,300:12.5%")
    assert isinstance(mix, tuple)
    sizes = sizes_sent(mix, 7, 80)
    blocks = [sizes[begin : begin + 8] for begin in range(0, 80, 8)]
    assert all(Counter(block) == {100: 5, 200: 2, 300: 1} for block in blocks)
    assert len(set(map(tuple, blocks))) > 1


def test_each_end_has_a_sequence_of_its_own() -> None:
    mix = (BodySize(0, 10_000, 1),)
    assert sizes_sent(mix, 0, 50) == sizes_sent(mix, 0, 50)
    assert len(set(sizes_sent(mix, 0, 50)) & set(sizes_sent(mix, 1, 50))) < 5


@given(content=st.binary(min_size=1, max_size=400))
def test_a_message_has_the_given_content(content: bytes) -> None:
    message = proton.Message()
    message.decode(MessageTemplate(len(content), content=content).encode(1))
    assert bytes(message.body) == content
