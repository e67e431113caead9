"""Debug counters: whether the server freed all its objects when it ended."""

cdef int64_t[KINDS] COUNTS
counts = COUNTS

NAMES = ("Message", "Entry", "Stream", "Link", "Connection", "Delivery", "Target",
         "held byte")


def left() -> str:
    """Return the live objects, such as ``2 Message, 1 Entry``; empty if there are none."""
    return ", ".join(f"{counts[kind]} {name}" for kind, name in enumerate(NAMES) if counts[kind])
