"""Very many frames at once: copies of one encoded frame with other numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

# Places of the number in a frame's template: a uint, and a text of eight digits.
NUMBER = 0xC0FFEE01
DIGITS = "########"

Bytes = npt.NDArray[np.uint8]


def _places(template: bytes, marker: bytes) -> Iterable[int]:
    at = template.find(marker)
    while at >= 0:
        yield at
        at = template.find(marker, at + 1)


def copies(template: bytes, numbers: Sequence[int] | npt.NDArray[np.integer]) -> bytes:
    """Return one copy of ``template`` for each number, with the number in the marked places."""
    values = np.asarray(numbers, dtype=np.uint32)
    rows: Bytes = np.tile(np.frombuffer(template, dtype=np.uint8), (len(values), 1))
    big_endian = values.astype(">u4").view(np.uint8).reshape(-1, 4)
    powers = 10 ** np.arange(7, -1, -1, dtype=np.uint32)
    digits = (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)
    for at in _places(template, NUMBER.to_bytes(4, "big")):
        rows[:, at : at + 4] = big_endian
    for at in _places(template, DIGITS.encode()):
        rows[:, at : at + 8] = digits
    return rows.tobytes()
