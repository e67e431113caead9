"""Numbers with units as people write them: ``10k``, ``0.5``, ``0.1%``, ``1m30s``."""

from __future__ import annotations

import re
from collections.abc import Mapping

COUNTS = {"m": 10**6, "k": 1000, "": 1}
PERCENT = {"%": 1}
DURATIONS = {"h": 3600 * 10**6, "m": 60 * 10**6, "s": 10**6, "ms": 1000, "us": 1}
"""Units of a duration, in microseconds."""

# Compiled when they are used: every arrow imports this module.
_NUMBER = r"([0-9]{1,60})(?:\.([0-9]{1,60}))?([km%]?)"
_DURATION = "".join(rf"(?:([0-9]{{1,60}}){unit})?" for unit in DURATIONS)


def fixed_point(text: str, units: Mapping[str, int], places: int = 0) -> int | None:
    """Return a number with one of the units, times 10 to the power of ``places``.

    None if the text is no such number, or has more decimals than ``places``.
    """
    match = re.fullmatch(_NUMBER, text)
    if match is None or match[3] not in units or len(match[2] or "") > places:
        return None
    return int(match[1] + (match[2] or "").ljust(places, "0")) * units[match[3]]


def microseconds(text: str) -> int | None:
    """Return a duration such as ``30`` (seconds), ``5ms`` or ``1m30s``; None if it is none."""
    match = re.fullmatch(_DURATION, f"{text}s" if text.isdigit() else text)
    if match is None or not text:
        return None
    numbers = zip(match.groups(), DURATIONS.values(), strict=True)
    return sum(int(number or 0) * factor for number, factor in numbers)


def duration_text(value: int) -> str:
    """Return so many microseconds as :func:`microseconds` reads them: ``1s500ms``."""
    seconds, rest = divmod(value, 10**6)
    parts = ((seconds, "s"), (rest // 1000, "ms"), (rest % 1000, "us"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0"
