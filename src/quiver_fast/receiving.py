"""How a receiver is asked to be slow: the texts of its options, and what they mean."""

from __future__ import annotations

from typing import NamedTuple

from quiver_fast.durations import microseconds
from quiver_fast.errors import UsageError

__all__ = ["NO_PAUSES", "Pauses", "asked_silence", "parse_pauses"]

_LONGEST = 2**31 * 10**6


class Pauses(NamedTuple):
    """Pauses of a receiver that follow each other.

    Attributes:
        after: how long it receives before each of them, in microseconds.
        length: how long each of them is; 0 for none.
    """

    after: int
    length: int


NO_PAUSES = Pauses(0, 0)


def parse_pauses(text: str) -> Pauses:
    """Return the pauses that a text such as ``10s:5s`` says; none for no text.

    Raises:
        UsageError: it says none.
    """
    if not text:
        return NO_PAUSES
    after, colon, length = text.partition(":")
    found = (microseconds(after), microseconds(length))
    if not colon or None in found:
        raise UsageError(f"pause: '{text}' is not RECEIVE:PAUSE, such as 10s:5s or 2s:500ms")
    pauses = Pauses(found[0] or 0, found[1] or 0)
    if not 0 < min(pauses) <= max(pauses) <= _LONGEST:
        raise UsageError(f"pause: '{text}': both times are more than 0, and at most 2^31 s")
    return pauses


def asked_silence(delay: int, pauses: Pauses) -> float:
    """Return for how many seconds a receiver moves nothing because it was asked to.

    Args:
        delay: microseconds for each message.
        pauses: its pauses.
    """
    return (delay + pauses.length) / 1e6
