"""Names of facts: the column ``fact`` of ``FACTS``."""

from __future__ import annotations

# Facts that add up: n messages of this (second, value).
LATENCY = "latency"  # epoch second of receipt, latency
SENT = "sent"  # epoch second of the send
SETTLED = "settled"  # value: settlement latency of lines without the prefix S
SAMPLED = "sampled"  # value: settlement latency of lines with it
UNSETTLED = "unsettled"
UNMATCHED = "unmatched"
MALFORMED = "malformed"
OLDER = "older"  # receipts of messages that were sent before the run
FOREIGN = "foreign"  # receipts of messages that others sent meanwhile
REORDERED = "reordered"  # of a receiver: receipts of messages sent before one received earlier;
# value: the number of one that shares its file with others, else null
TRUNCATED = "truncated"
BODY_BYTES = "body bytes"  # of streaming mode
FIRST_BYTE = "first byte"  # value: first byte minus send time
# Facts of each split; the second is its place in the file. A receiver's FIRST and
# LAST are those of the run's own messages.
LINES = "lines"
FIRST = "first"  # own time of the first transfer
LAST = "last"  # own time of the last transfer
TOP = "top stamp"  # the largest send time of a receiver without a sender
# A split may have one of these twice: the more extreme value holds.
LOWEST = "lowest"  # own time of a transfer, also of messages of other runs
HIGHEST = "highest"
SET_BACK = "set back"  # the most by which such a time is below an earlier one of the split
LATE = "late"  # n receipts after the end of the sending, of which value is the latest
STREAM_START = "stream start"  # the earliest first byte
STREAM_END = "stream end"  # the latest line
HASHED_IDS = "hashed ids"  # of splits where some id is no number
# These replace LATENCY, SETTLED and SAMPLED where those have many rows (digests.py).
THINNED = "thinned latency"  # second and value as LATENCY
WINDOWED = "windowed latency"  # the same by windows; second: the first of a window
DIGEST = "told"  # text: a DistributionDigest, and its name
DIGEST_VALUES = "told rounded"  # value, n: rounded latencies; text: its name
# Arrows without a file: they have the facts of the steps of a run; the second is the step.
STEPS_SENT = "steps sent"
STEPS_RECEIVED = "steps received"
FIRST_BAD = "first malformed"  # the line's number in the split, from 1; text: its beginning
ALL_SETTLED = "all settled"  # of a digest: SETTLED and SAMPLED together

# A fact of a run (arrow ""). text: one of the counts of Reconciliation.result, or
DELIVERY = "delivery"
IDS = "ids"  # n is 1 or 0: the method
TICKS = "ticks"  # n: those of the coarser clock per second
LEDGER = "ledger"  # text: one of the sums of fates.totals_of
RECEIPT_TIMES = "receipt times"  # value: the time of receipts, next to a failure or during it
OUTCOME_TIMES = "outcome times"  # likewise, of settlements
# Facts of a sender of several, of whose messages n were received, and of a receiver, which was the
# first to receive n; value as of REORDERED.
DELIVERED = "delivered"
ARRIVED = "arrived"
# A fact of a receiver without a sender.
DISTINCT_IDS = "distinct ids"


def end_arrow(role: str, number: int | str) -> str:
    """Return the arrow without a file that has the facts of an end which shares its file."""
    return f"{role} end {number}"


def queue_arrow(number: int) -> str:
    """Return the arrow without a file that has the latencies of a queue."""
    return f"queue {number}"
