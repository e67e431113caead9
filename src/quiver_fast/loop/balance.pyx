"""Debug counters: whether all that the server made was freed when it ended."""

cdef int64_t[KINDS] COUNTS
counts = COUNTS

NAMES = ("Message", "Entry", "Stream", "Link", "Connection", "Delivery", "held byte")


def is_counted() -> bool:
    """Say whether this build counts."""
    return QUIVER_COUNTED


def left() -> str:
    """Say what is not freed, such as ``2 Message, 1 Entry``; empty for nothing."""
    return ", ".join(f"{counts[kind]} {name}" for kind, name in enumerate(NAMES) if counts[kind])
