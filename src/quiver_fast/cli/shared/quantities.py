"""Counts and durations as people write them: argparse types."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeVar

from quiver_fast.body_sizes import parse_body_size
from quiver_fast.errors import UsageError
from quiver_fast.quantities import COUNTS, DURATIONS, PERCENT, fixed_point, microseconds
from quiver_fast.rate_steps import parse_rate

Number = TypeVar("Number", int, float)

_SECONDS = {unit: DURATIONS[unit] // 10**6 for unit in "hms"} | {"": 1}
# Digits behind the point of a percentage.
_PLACES = 4
# Other spellings of the units.
_COUNT_WORDS = {"kb": "k", "mb": "m", "million": "m"}
_DURATION_WORDS = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m",
    "minute": "m", "minutes": "m", "hr": "h", "hour": "h", "hours": "h",
}  # fmt: skip

_NUMBER_AND_WORD = re.compile(
    r"(?P<number>\d{1,3}(?:[,_]\d{3}){1,9}|\d{1,30}(?:\.\d{1,30})?)\s*(?P<word>[a-z]*)", re.ASCII
)
# Words that an option's name says already.
_MESSAGES_PER_SECOND = re.compile(r" *(?:messages?|msgs?)?(?: */ *s(?:ec|econd)?)?$")


def count(text: str) -> int:
    """Parse a count such as ``100``, ``10k`` or ``1m``.

    Raises:
        ArgumentTypeError: it is not one; the message may propose a correction.
    """
    number = fixed_point(text, COUNTS)
    if number is None:
        raise _mistake(text, COUNTS, _COUNT_WORDS, "such as 500, 10k or 1m")
    return number


def positive_count(text: str) -> int:
    """Parse a count that must not be 0.

    Raises:
        ArgumentTypeError: it is 0, or no count.
    """
    number = count(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def body_size(text: str) -> int | str:
    """Parse a size of message bodies into a number. A mix of sizes remains text.

    Raises:
        ArgumentTypeError: it looks like a number and is not one.
        UsageError: it looks like a mix and is not one.
    """
    if not re.search(r"\.\.|[:%]", text):
        return count(text)
    parse_body_size(text, "--body-size")
    return text


def rate(text: str) -> float:
    """Parse a rate such as ``500``, ``10k`` or ``0.5``; a whole number becomes an integer.

    Raises:
        ArgumentTypeError: it is not one; the message may propose a correction.
    """
    try:
        number = parse_rate(text)
    except UsageError as error:
        guess = _guess(text, COUNTS, _COUNT_WORDS)
        hint = f"; write {guess}" if guess else ""
        raise argparse.ArgumentTypeError(f"{error}{hint}") from None
    return number if isinstance(number, int) else float(number)


def duration(text: str) -> int:
    """Parse a duration such as ``30``, ``30s``, ``1m30s`` or ``2000ms`` into seconds.

    Raises:
        ArgumentTypeError: it is not one; the message may propose a correction.
    """
    found = microseconds(text)
    if found is None:
        raise _mistake(text, _SECONDS, _DURATION_WORDS, "such as 30, 30s, 1m30s or 1h")
    if found % 10**6:
        raise argparse.ArgumentTypeError(f"must be whole seconds, 1s at least, not {text}")
    return found // 10**6


def part_duration(text: str) -> float:
    """Parse a duration such as ``30``, ``500ms`` or ``1m30s`` into seconds, whole or not.

    Raises:
        ArgumentTypeError: it is not one.
    """
    found = microseconds(text)
    whole = found is None or found % 10**6 == 0
    return duration(text) if whole or found is None else found / 10**6


def fine_duration(text: str) -> int:
    """Parse a duration such as ``5ms``, ``200us`` or ``1m30s`` into microseconds.

    Raises:
        ArgumentTypeError: it is not one.
    """
    found = microseconds(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a duration (units h, m, s, ms, us): such as 5ms, 200us or 1m30s"
        )
    return found


def within(parse: Callable[[str], Number], least: float, most: float) -> Callable[[str], Number]:
    """Return a parser like ``parse`` that refuses values below ``least`` or above ``most``."""

    def checked(text: str) -> Number:
        number = parse(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"must be at least {least:,}, not {text}")
        if number > most:
            raise argparse.ArgumentTypeError(f"must be at most {most:,}, not {text}")
        return number

    return checked


def _mistake(
    text: str, units: Mapping[str, int], words: Mapping[str, str], examples: str
) -> argparse.ArgumentTypeError:
    guess = _guess(text, units, words)
    hint = f"write {guess}" if guess else examples
    names = ", ".join(reversed([unit for unit in units if unit]))
    expected = f"a whole number with an optional unit ({names})"
    return argparse.ArgumentTypeError(f"'{text}' is not {expected}: {hint}")


def _guess(text: str, units: Mapping[str, int], words: Mapping[str, str]) -> str | None:
    """Return the valid text that ``text`` means: ``1500k`` for ``1.5m``, ``1k`` for ``1KB``."""
    match = _NUMBER_AND_WORD.fullmatch(_MESSAGES_PER_SECOND.sub("", text.lower().strip()))
    if match is None:
        return None
    unit = words.get(match["word"], match["word"])
    if unit not in units:
        return None
    number = Decimal(re.sub("[,_]", "", match["number"])) * units[unit]
    return _shortest(int(number), units) if number == int(number) else None


def _shortest(number: int, units: Mapping[str, int]) -> str:
    for name, factor in units.items():
        if number and number % factor == 0:
            return f"{number // factor}{name}"
    return str(number)


def percent(text: str) -> str:
    """Refuse text that is no share such as ``5%`` or ``0.1%``: an argparse type.

    Raises:
        ArgumentTypeError: it is not one.
    """
    if fixed_point(text, PERCENT, _PLACES) is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a share, such as 5% or 0.1%")
    return text


def share(text: str) -> float:
    """Return a share that :func:`percent` let through, 0 to 1."""
    return (fixed_point(text, PERCENT, _PLACES) or 0) / 10**6


def named(text: str) -> str:
    """Refuse an empty name, as of a variable that is not set: an argparse type."""
    if not text:
        raise argparse.ArgumentTypeError("empty, as of a variable that is not set")
    return text
