"""The wrapper's snapshots beside records: CPU and memory of an arrow while it ran."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from quiver_fast.analysis.model.distribution import Float64Array
from quiver_fast.analysis.read.record_names import beside
from quiver_fast.analysis.read.summary_file import check_regular
from quiver_fast.errors import RecordError

# Fields of a line that are read here; upstream's files have the same.
_TIMESTAMP, _PERIOD, _PERIOD_CPU, _RSS = 0, 1, 6, 7
_FIELDS = 8
_LARGEST = 64 << 20


@dataclass(frozen=True)
class Snapshots:
    """The CPU and the memory that an arrow used.

    Attributes:
        seconds: when, epoch seconds, float64[n], ascending.
        cpu: processors in use since the snapshot before, float64[n]; NaN where no time passed.
        rss: resident bytes, float64[n].
    """

    seconds: Float64Array
    cpu: Float64Array
    rss: Float64Array


def read_snapshots(records: str) -> Snapshots | None:
    """Return the snapshots beside the file ``records``; None where there are none.

    The last line of an arrow that was killed may be cut: it is left out.

    Raises:
        RecordError: the file has a line that is no snapshot.
        OSError: it cannot be read.
    """
    place = beside(Path(records), "snapshots.csv")
    if place is None or not place.exists():
        return None
    check_regular(place)
    if place.stat().st_size > _LARGEST:
        raise RecordError(f"{place} has no snapshots: it is too large")
    lines = place.read_bytes().removeprefix(BOM_UTF8).split(b"\n")[:-1]
    if not lines:
        return None
    rows = [_row(place, number, line) for number, line in enumerate(lines, start=1)]
    table = np.array(rows, np.float64)
    periods = np.where(table[:, 1] > 0, table[:, 1], np.nan)
    return Snapshots(table[:, 0] / 1000, table[:, 2] / periods, table[:, 3])


def _row(place: Path, number: int, line: bytes) -> tuple[int, int, int, int]:
    fields = line.split(b",")
    try:
        if len(fields) < _FIELDS:
            raise ValueError
        found = [int(fields[n]) for n in (_TIMESTAMP, _PERIOD, _PERIOD_CPU, _RSS)]
        if min(found) < 0 or max(found) >= 2**63:
            raise ValueError
    except ValueError:
        shown = line[:40].decode(errors="replace")
        raise RecordError(f"{place}: line {number} is no snapshot: {shown!r}") from None
    return found[0], found[1], found[2], found[3]
