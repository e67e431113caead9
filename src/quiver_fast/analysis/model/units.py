"""Units of record times: epoch milliseconds, microseconds or nanoseconds; latencies as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Ticks in one second, by unit name."""

_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_UNITS = tuple(_NANOSECONDS)
# Rates below have decimals; in messages/s.
_LOW_RATE = 10


def per_millisecond(unit: str) -> int:
    """Return the ticks of ``unit`` ("ms", "us" or "ns") in one millisecond."""
    return PER_SECOND[unit] // 1_000


def in_milliseconds(section: Mapping[str, Any], rank: str) -> float | None:
    """Return a percentile of a section of latencies in milliseconds; None without a latency."""
    ticks: float | None = section["percentiles"][rank]
    return None if ticks is None else ticks / per_millisecond(section["unit"])


def latency_text(value: float, unit: str) -> str:
    """Return one latency as ``10.2 us``, ``3.64 ms`` or ``1.20 s``: three significant digits.

    A clock of milliseconds knows whole ones: its latencies are truncated to them, as
    upstream does, and stay in milliseconds.

    Args:
        value: ticks of ``unit``, signed.
        unit: that of the clock: "ms", "us" or "ns".
    """
    if unit == "ms":
        return f"{int(value):,} ms"
    return _scaled_text(value, unit, 3, three_digits)


def mean_text(value: float, unit: str) -> str:
    """Return a mean or a standard deviation likewise; that of whole milliseconds is finer."""
    return f"{three_digits(value)} ms" if unit == "ms" else latency_text(value, unit)


def fine_text(value: float, unit: str) -> str:
    """Return a latency in the unit that suits it with as many as six significant digits."""
    return _scaled_text(value, unit, 6, six_digits)


def six_digits(number: float) -> str:
    """Return a number with six significant digits, or all those before its point."""
    return f"{number:,.0f}" if abs(number) >= 10**5 else f"{number:,.6g}"


def figure_text(value: float | None, unit: str) -> str:
    """Return a figure that is held against a limit: a latency in "ms", or one of ``unit``."""
    if value is None:
        return "-"
    if unit == "messages" and value == 1:
        return "1 message"
    return fine_text(value * 1000, "us") if unit == "ms" else f"{six_digits(value)} {unit}".rstrip()


NO_RATE = "too few messages for a rate"
"""Words in place of a rate where the messages span no time."""


def average_text(value: float | None, unit: str) -> str:
    """Return a mean over windows or runs: of latencies in "ms", or of messages/s."""
    if value is None:
        return "-"
    return mean_text(value * 1000, "us") if unit == "ms" else f"{rate_digits(value)}/s"


def seconds_text(seconds: float) -> str:
    """Return a duration as ``8 s``, ``8.1 s`` or, below a second, ``17.3 ms``."""
    if 0 < seconds < 1:
        return latency_text(seconds * 1e9, "ns")
    return f"{seconds:,.0f} s" if round(seconds, 1) == int(seconds) else f"{seconds:,.1f} s"


def rate_digits(rate: float) -> str:
    """Return messages/s without decimals; low rates have them."""
    return f"{rate:.3g}" if abs(rate) < _LOW_RATE else f"{rate:,.0f}"


def rate_text(rate: float) -> str:
    """Return ``500 messages/s``."""
    return f"{rate_digits(rate)} messages/s"


def body_rate_text(rate: float) -> str:
    """Return bytes/s as ``12.5 MB/s``."""
    return f"{three_digits(rate / 1e6)} MB/s"


def three_digits(value: float) -> str:
    """Return ``value`` with three significant digits, commas and no exponent; 0 as ``0``."""
    if value == 0:
        return "0"
    rounded, exponent = f"{value:.2e}".split("e")
    decimals = max(2 - int(exponent), 0)
    return f"{float(f'{rounded}e{exponent}'):,.{decimals}f}"


def percent_text(share: float) -> str:
    """Return a share as ``0 %``, ``0.85 %``, ``12 %`` or ``670 %``, without an exponent."""
    percent = 100 * share
    decimals = 0 if not percent or abs(percent) >= 9.95 else 1 if abs(percent) >= 0.995 else 2
    return f"{percent:,.{decimals}f} %"


def short_text(value: float) -> str:
    """Return a number of messages or bytes as ``412``, ``18.4 k`` or ``1.86 M``."""
    for factor, unit in ((1e3, ""), (1e6, " k"), (1e9, " M"), (1e12, " G")):
        if abs(value) * 1000 < 999.5 * factor:
            scaled = value * 1000 / factor
            whole = not unit and scaled == int(scaled)
            return (f"{int(scaled)}" if whole else three_digits(scaled)) + unit
    return f"{value:.3g}"


def _scaled_text(value: float, unit: str, significant: int, digits: Callable[[float], str]) -> str:
    """Return ``value`` in the largest unit of which it has one or more, once it is rounded."""
    nanoseconds = abs(float(f"{value * _NANOSECONDS[unit]:.{significant - 1}e}"))
    finest = _UNITS.index(unit)
    fitting = [name for name in _UNITS[finest:] if nanoseconds >= _NANOSECONDS[name]]
    shown = fitting[-1] if fitting else unit
    return f"{digits(value * _NANOSECONDS[unit] / _NANOSECONDS[shown])} {shown}"
