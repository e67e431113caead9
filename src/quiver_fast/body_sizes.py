"""The sizes of message bodies, read from their text.

`100` is one size. `1k..64k` is a range, whose sizes are equally likely. With `100:80%,10k:20%`
four bodies of five have 100 bytes, and one has 10,000.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from quiver_fast.errors import UsageError
from quiver_fast.quantities import COUNTS, PERCENT, fixed_point

# The limit of one Data section; only a streamed body has several, all of one size.
_LARGEST_MIXED = 2**32 - 1
_MOST_PARTS = 100
# Shares are in hundredths of a percent.
_PLACES = 2
WHOLE = 10_000
"""100 % in the unit of the shares, which are hundredths of a percent."""


class BodySize(NamedTuple):
    """A part of a mix.

    Attributes:
        least: the smallest of its sizes.
        most: the largest; all sizes between are equally likely.
        share: the part's messages in each block; a block has the shares of all parts.
    """

    least: int
    most: int
    share: int


def parse_body_size(text: str, name: str = "body-size") -> int | tuple[BodySize, ...]:
    """Return the one size of all bodies, or the parts of a mix.

    Raises:
        UsageError: the text is neither; the message calls the option ``name``.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    parts = [_part(part, name) for part in text.split(",")]
    if len(parts) > _MOST_PARTS:
        raise UsageError(f"{name}: {len(parts)} parts are more than {_MOST_PARTS}")
    check_shares((part.share for part in parts), text, name)
    divisor = math.gcd(*(part.share for part in parts))
    return tuple(part._replace(share=part.share // divisor) for part in parts)


def _part(text: str, name: str) -> BodySize:
    sizes, colon, percent = text.partition(":")
    first, dots, last = sizes.partition("..")
    least = fixed_point(first, COUNTS)
    most = fixed_point(last, COUNTS) if dots else least
    share = parse_share(percent) if colon else WHOLE
    if least is None or most is None or share is None:
        raise UsageError(
            f"{name}: '{text}' is not BYTES, LEAST..MOST or either with a share, such as 10k:20%"
        )
    if not least <= most <= _LARGEST_MIXED:
        raise UsageError(f"{name}: '{text}': sizes of a mix rise, and are at most {_LARGEST_MIXED}")
    return BodySize(least, most, share)


def parse_share(text: str) -> int | None:
    """Return a share such as `12.5%` in hundredths of a percent; None if the text is none."""
    return fixed_point(text, PERCENT, _PLACES)


def check_shares(shares: Iterable[int], text: str, name: str) -> None:
    """Refuse shares of 0 %, and shares that are not 100 % together.

    Raises:
        UsageError: the shares of ``text`` are wrong; the message calls the option ``name``.
    """
    shares = list(shares)
    if 0 in shares:
        raise UsageError(f"{name}: '{text}': a share is more than 0 %")
    if sum(shares) != WHOLE:
        together = f"{sum(shares) / 100:g}"
        raise UsageError(f"{name}: the shares of '{text}' add up to {together} %, not to 100 %")


def mean_body(sizes: int | tuple[BodySize, ...]) -> float:
    """Return the mean size."""
    if isinstance(sizes, int):
        return sizes
    total = sum(part.share for part in sizes)
    return sum((part.least + part.most) / 2 * part.share for part in sizes) / total


def largest_body(sizes: int | tuple[BodySize, ...]) -> int:
    """Return the largest size."""
    return sizes if isinstance(sizes, int) else max(part.most for part in sizes)
