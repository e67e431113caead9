"""The names of files of records, and of the files beside them."""

from __future__ import annotations

from pathlib import Path

from quiver_fast.records.compression import READ_SUFFIXES, SUFFIXES, without_suffix

_TRANSFERS = "transfers.csv"

RECORD_FILES = tuple(f"*{_TRANSFERS}{suffix}" for suffix in ("", *SUFFIXES))
"""Patterns of the names of files of records, also of forms that are not read."""

PATTERNS_TEXT = f"*{_TRANSFERS}, plain or with {', '.join(READ_SUFFIXES)}"
"""The names that users are told."""


def beside(records: Path, name: str) -> Path | None:
    """Return where the same arrow has its file ``name``; None if ``records`` has another name."""
    plain = without_suffix(records.name)
    if not plain.endswith(_TRANSFERS):
        return None
    return records.with_name(f"{plain.removesuffix(_TRANSFERS)}{name}")
