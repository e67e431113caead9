"""The relay's faults, frame by frame."""

from __future__ import annotations

import pytest
from support.mutant import Mutator

from quiver_fast.conform.mutation import (
    Mutation,
    added,
    changed,
    dropped,
    header,
    swapped,
    twice,
)
from quiver_fast.conform.wire.frames import composite, encode_frame

HEADER = b"AMQP\x00\x01\x00\x00"
OPEN = encode_frame("open", container_id="a")
BEGIN = encode_frame("begin", next_outgoing_id=0, incoming_window=1, outgoing_window=1)
END = encode_frame("end", error=composite("error", condition="a:b", description="c"))


def relayed(fault: Mutation, *units: bytes) -> list[bytes | None]:
    """Return the units as they leave the relay."""
    mutator, waiting = Mutator(fault), list[bytes]()
    found = [part for unit in units for part in mutator.parts(unit, waiting)]
    assert mutator.happened
    return found


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (changed("open", container_id=None), [HEADER, encode_frame("open"), BEGIN, END]),
        (changed("open", container_id=lambda old: old + "b"),
         [HEADER, encode_frame("open", container_id="ab"), BEGIN, END]),
        (changed("end", error__condition="x"), [HEADER, OPEN, BEGIN, encode_frame(
            "end", error=composite("error", condition="x", description="c"))]),
        (changed("end", channel=3), [HEADER, OPEN, BEGIN, encode_frame(
            "end", channel=3, error=composite("error", condition="a:b", description="c"))]),
        (dropped("begin"), [HEADER, OPEN, END]),
        (twice("begin"), [HEADER, OPEN, BEGIN, BEGIN, END]),
        (swapped("open", "begin"), [HEADER, BEGIN, OPEN, END]),
        (added("begin", "end", channel=2),
         [HEADER, OPEN, BEGIN, encode_frame("end", channel=2), END]),
        (header(b"x"), [b"x", OPEN, BEGIN, END]),
    ],
)  # fmt: skip
def test_a_fault(fault: Mutation, expected: list[bytes]) -> None:
    assert relayed(fault, HEADER, OPEN, BEGIN, END) == expected


def test_the_nth_frame_alone() -> None:
    assert relayed(dropped("end", nth=2), END, OPEN, END, END) == [END, OPEN, END]
