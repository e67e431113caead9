"""How a receiver is asked to treat its messages: the options' texts, read into numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from quiver_fast.errors import UsageError
from quiver_fast.quantities import PERCENT, fixed_point, microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST = 2**31 * 10**6
# Shares are in millionths: a percent has four more digits.
_PLACES, _WHOLE = 4, 10**6
_MODIFICATIONS = ("failed", "undeliverable")


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


class Modify(NamedTuple):
    """The deliveries that a receiver answers with *modified* (AMQP 1.0 part 3.4.5).

    Attributes:
        share: of the deliveries, in millionths; 0 for none.
        failed: they count as failed attempts.
        undeliverable: they do not come to this receiver again.
        annotations: of the message, by their names.
    """

    share: int = 0
    failed: bool = False
    undeliverable: bool = False
    annotations: tuple[tuple[str, str], ...] = ()


def parse_modify(text: str, name: str = "modify") -> Modify:
    """Return the deliveries of a text such as ``1%:failed:undeliverable:x-why=test``.

    Raises:
        UsageError: the text is malformed; the message calls the option ``name``.
    """
    share, *parts = text.split(":")
    annotations: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if part not in _MODIFICATIONS and not (key and equals and key.isascii()):
            raise UsageError(f"{name}: '{part}' is not failed, undeliverable or KEY=VALUE")
        if equals:
            annotations[key] = value
    failed, undeliverable = (word in parts for word in _MODIFICATIONS)
    # No text is no share, but `:failed` is a mistake.
    share = share if share or not text else text
    return Modify(parse_share(name, share), failed, undeliverable, tuple(annotations.items()))


def parse_shares(
    given: Mapping[str, str], name: Callable[[str], str] = str
) -> tuple[int, int, Modify]:
    """Return the shares to release and to reject, in millionths, and the deliveries to modify.

    Args:
        given: the texts of ``release``, ``reject`` and ``modify``, as far as they are there.
        name: returns the name of an option for messages.

    Raises:
        UsageError: a text is malformed, or the shares leave nothing to accept.
    """
    release, reject, modify = (given.get(key, "") for key in ("release", "reject", "modify"))
    shares = parse_share(name("release"), release), parse_share(name("reject"), reject)
    modified = parse_modify(modify, name("modify"))
    if sum(shares) + modified.share >= _WHOLE:
        asked = [name(key) for key in ("release", "reject", "modify") if given.get(key)]
        together = " together" if len(asked) > 1 else ""
        raise UsageError(f"{' and '.join(asked)}: less than 100%{together}")
    return *shares, modified


def asked_silence(delay: int, pauses: Pauses) -> float:
    """Return for how many seconds the options keep a receiver from moving anything.

    Args:
        delay: microseconds for each message.
        pauses: its pauses.
    """
    return (delay + pauses.length) / 1e6
