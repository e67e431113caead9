"""Durations as people write them: ``30``, ``500ms``, ``1m30s``."""

from __future__ import annotations

import re

# Compiled when it is used: every arrow imports this module.
_TEXT = (
    r"(?:([0-9]{1,12})h)?(?:([0-9]{1,12})m)?(?:([0-9]{1,12})s)?"
    r"(?:([0-9]{1,12})ms)?(?:([0-9]{1,12})us)?"
)
_FACTORS = (3600 * 10**6, 60 * 10**6, 10**6, 1000, 1)


def microseconds(text: str) -> int | None:
    """Return a duration such as ``30`` (seconds), ``5ms`` or ``1m30s``; None if it is none."""
    match = re.fullmatch(_TEXT, f"{text}s" if text.isdigit() else text)
    if match is None or not text:
        return None
    return sum(int(n or 0) * factor for n, factor in zip(match.groups(), _FACTORS, strict=True))


def duration_text(value: int) -> str:
    """Return so many microseconds as :func:`microseconds` reads them: ``1s500ms``."""
    seconds, rest = divmod(value, 10**6)
    parts = ((seconds, "s"), (rest // 1000, "ms"), (rest % 1000, "us"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0"
