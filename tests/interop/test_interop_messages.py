"""Messages as other engines may lay them out, and the records that pyfast makes of them."""

from __future__ import annotations

import re
import sys

import pytest
from support.arrows import INTEROP, arguments_v2, run_pyfast
from support.cases import cases
from support.judgement import assert_clean
from support.scripted_peer import ScriptedPeer

sys.path.insert(0, str(INTEROP / "peers"))

import wire_messages

pytestmark = pytest.mark.peer("proton")

SENT = 1_600_000_000_000


def receive(layout: str, size: int, times: list[int]) -> list[str]:
    """Receive one message of a layout per time; return the records without receive times."""
    maker = wire_messages.GOOD[layout]

    def encode(number: int) -> bytes:
        return maker(f"peer-{number}", times[number - 1], b"x" * size)

    with ScriptedPeer(encode=encode, to_send=len(times)) as peer:
        words = arguments_v2("receive", peer.port, count=len(times), body_size=size)
        end = run_pyfast(*words)
    assert_clean(end)
    assert all(re.fullmatch(r"[^,]+,-?\d+,\d{13}", line) for line in end.lines), end.lines
    return [line.rpartition(",")[0] for line in end.lines]


@pytest.mark.parametrize(
    ("layout", "size"),
    cases(
        sorted(wire_messages.GOOD), [0, 300, 70_000],
        gate=lambda layout, size: size == 300 or layout == "bare",
    ),
)  # fmt: skip
def test_layout(layout: str, size: int) -> None:
    names = ["1", "2", "3"] if layout == "ulong-message-id" else ["peer-1", "peer-2", "peer-3"]
    times = [SENT + 1, SENT + 2, SENT + 3]
    expected = [f"{name},{sent}" for name, sent in zip(names, times, strict=True)]
    assert receive(layout, size, times) == expected


def test_send_time_of_every_width() -> None:
    """AMQP 1.0 part 1, 1.6.13: a long from -128 to 127 may take one byte (0x55).

    The first is an ordinary one: the arrow judges the unit of the times by it.
    """
    times = [SENT, 0, 1, 127, 128, -1, -128, -129, 2**31, 2**53 + 1, 2**62, -(2**63)]
    expected = [f"peer-{number},{sent}" for number, sent in enumerate(times, 1)]
    assert receive("bare", 10, times) == expected
