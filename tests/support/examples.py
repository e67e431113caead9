"""The number of examples of an expensive property test."""

from __future__ import annotations

from hypothesis import settings


def examples(full: int) -> int:
    """Return how many examples to try: all, or a tenth of them under the profile `quick`."""
    is_quick = settings.default is not None and settings.default.max_examples < 100
    return max(10, full // 10) if is_quick else full
