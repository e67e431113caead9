"""How much memory this process may use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

# The limit of the control group. In a container it is at this path.
GROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_of_machine() -> int:
    """Return the machine's memory in bytes, or its control group's limit if that is less."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in GROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):
            # If there is no limit, the file has the word `max`.
            most = min(most, int(path.read_text()))
    return most
