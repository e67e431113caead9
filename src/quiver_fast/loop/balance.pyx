"""Debug counters: whether the server freed all its objects when it ended."""

cdef int64_t[KINDS] COUNTS
counts = COUNTS

NAMES = ("Message", "Entry", "Stream", "Link", "Connection", "Delivery", "held byte")


def is_counted() -> bool:
    """Say whether this build counts."""
    return QUIVER_COUNTED


def left() -> str:
    """Return the live objects, such as ``2 Message, 1 Entry``; empty if there are none."""
    return ", ".join(f"{counts[kind]} {name}" for kind, name in enumerate(NAMES) if counts[kind])
