"""How a receiver is asked to treat its messages: the options' texts, read into numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from quiver_fast.errors import UsageError
from quiver_fast.quantities import PERCENT, fixed_point, microseconds

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 2**31 * 10**6
# Shares are in millionths: a percent has four more digits.
_PLACES, _WHOLE = 4, 10**6


class Pauses(NamedTuple):
    """The repeated pauses of a receiver.

    Attributes:
        after: the time of receiving before each pause, in microseconds.
        length: the length of a pause, in microseconds; 0 for none.
    """

    after: int
    length: int


NO_PAUSES = Pauses(0, 0)


def parse_pauses(text: str, name: str = "pause") -> Pauses:
    """Return the pauses of a text such as ``10s:5s``; no pauses for no text.

    Raises:
        UsageError: the text has no pauses; the message calls the option ``name``.
    """
    if not text:
        return NO_PAUSES
    after, colon, length = text.partition(":")
    found = (microseconds(after), microseconds(length))
    if not colon or None in found:
        raise UsageError(f"{name}: '{text}' is not RECEIVE:PAUSE, such as 10s:5s or 2s:500ms")
    pauses = Pauses(found[0] or 0, found[1] or 0)
    if not 0 < min(pauses) <= max(pauses) <= _LONGEST:
        raise UsageError(f"{name}: '{text}': both times are more than 0, and at most 2^31 s")
    return pauses


def parse_share(key: str, text: str) -> int:
    """Return a share such as ``1%`` or ``0.1%`` in millionths; 0 for no text.

    Raises:
        UsageError: the text is no share; the message names ``key``.
    """
    share = fixed_point(text or "0%", PERCENT, _PLACES)
    if share is None:
        raise UsageError(f"{key}: '{text}' is not a share, such as 1% or 0.1%")
    return share


def parse_shares(release: str, reject: str, name: Callable[[str], str] = str) -> tuple[int, int]:
    """Return the shares to release and to reject, in millionths.

    ``name`` returns the name of an option for messages.

    Raises:
        UsageError: a text is no share, or the shares leave nothing to accept.
    """
    shares = parse_share(name("release"), release), parse_share(name("reject"), reject)
    if sum(shares) >= _WHOLE:
        raise UsageError(f"{name('release')}: with {name('reject')} it is less than 100%")
    return shares


def asked_silence(delay: int, pauses: Pauses) -> float:
    """Return for how many seconds the options keep a receiver from moving anything.

    Args:
        delay: microseconds for each message.
        pauses: its pauses.
    """
    return (delay + pauses.length) / 1e6
