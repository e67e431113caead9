"""Units of record times: epoch milliseconds, microseconds or nanoseconds."""

from __future__ import annotations

__all__ = ["PER_SECOND", "per_millisecond"]

PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Ticks in one second, by unit name."""


def per_millisecond(unit: str) -> int:
    """Return the ticks of ``unit`` ("ms", "us" or "ns") in one millisecond."""
    return PER_SECOND[unit] // 1_000
