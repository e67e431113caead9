"""Messages as other engines may lay them out, and the records that pyfast makes of them."""

from __future__ import annotations

import re
import sys

import pytest
from support.arrows import INTEROP, arguments_v2, run_pyfast
from support.judgement import assert_clean
from support.scripted_peer import ScriptedPeer

sys.path.insert(0, str(INTEROP / "peers"))

import wire_messages

pytestmark = pytest.mark.peer("proton")

SENT = 1_600_000_000_000


def receive(layout: str, size: int, first: int = SENT) -> list[str]:
    """Receive three messages of a layout; return the records without the receive times."""
    maker = wire_messages.GOOD[layout]

    def encode(number: int) -> bytes:
        return maker(f"peer-{number}", first + number, b"x" * size)

    with ScriptedPeer(encode=encode) as peer:
        words = arguments_v2("receive", peer.port, count=3, body_size=size)
        end = run_pyfast(*words)
    assert_clean(end)
    assert all(re.fullmatch(r"[^,]+,-?\d+,\d{13}", line) for line in end.lines), end.lines
    return [line.rpartition(",")[0] for line in end.lines]


@pytest.mark.parametrize("layout", sorted(wire_messages.GOOD))
@pytest.mark.parametrize("size", [0, 300, 70_000])
def test_layout(layout: str, size: int) -> None:
    names = ["1", "2", "3"] if layout == "ulong-message-id" else ["peer-1", "peer-2", "peer-3"]
    expected = [f"{name},{SENT + number}" for number, name in enumerate(names, 1)]
    assert receive(layout, size) == expected


@pytest.mark.parametrize("first", [0, 100, 127, 128, -3, 2**62])
def test_send_time_of_every_width(first: int) -> None:
    """AMQP 1.0 part 1, 1.6.13: a long from -128 to 127 may take one byte (0x55)."""
    expected = [f"peer-{number},{first + number}" for number in (1, 2, 3)]
    assert receive("bare", 10, first) == expected
