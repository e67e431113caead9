"""Latencies between hosts, corrected by the offsets of their clocks; nothing else depends on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.errors import QuiverError
from quiver_fast.records.formats import IDS_OF_AN_END
from spark_analysis.files import RecordFile
from spark_analysis.schema import RECEIVER

_NS = 10**9


def skew_of(files: Sequence[RecordFile], titles: Sequence[str], ahead: Mapping[str, int]) -> Column:
    """Return how far the clock of each receipt's receiver is ahead of its sender's.

    The sender is told by the message's id.

    Args:
        files: the files of the run.
        titles: of each of them, whose it is, such as "sender 3".
        ahead: by end, how far its host's clock is ahead of host 0's, nanoseconds.

    Raises:
        QuiverError: some records have no ids, so that their sender is not known.
    """
    without = [
        title
        for file, title in zip(files, titles, strict=True)
        if file.record_format is not None and not file.has_ids
    ]
    if without:
        raise QuiverError(f"--correct-clocks: the records of {without[0]} have no message ids")
    units = {file.unit for file in files if file.record_format is not None}
    ticks = PER_SECOND[max(units, key=PER_SECOND.__getitem__, default="ms")]
    receivers = {
        file.number: _ticks(ahead[title], ticks)
        for file, title in zip(files, titles, strict=True)
        if file.role == RECEIVER
    }
    senders = {
        int(title.partition(" ")[2]): _ticks(nanoseconds, ticks)
        for title, nanoseconds in ahead.items()
        if title.startswith("sender ")
    }
    # The ids of sender K begin with K * IDS_OF_AN_END + 1.
    sender = F.call_function("div", F.col("id") - 1, F.lit(IDS_OF_AN_END))
    return _of(receivers, F.col("file")) - _of(senders, sender)


def _ticks(nanoseconds: int, per_second: int) -> int:
    """Return the nearest tick."""
    return round(nanoseconds * per_second / _NS)


def _of(values: Mapping[int, int], key: Column) -> Column:
    """Return the value of a key, 0 of one that is not there."""
    pairs = [F.lit(number).cast("bigint") for pair in values.items() for number in pair]
    zero = F.lit(0).cast("bigint")
    if not pairs:
        return zero
    return F.coalesce(F.try_element_at(F.create_map(*pairs), key.cast("bigint")), zero)
