"""A bystander in a process of its own, which times each of its round trips through a server.

    python -m support.watcher PORT PID

It begins at a line on its standard input, says so, and stops at the next line; with the input
it ends. At a stop it prints two numbers for each round trip, and a line with a dot: the
milliseconds that it took, and those of the server's CPU meanwhile. Others who use the machine's
cores lengthen the first; the second is what the server itself did before it came to this client.
"""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path

from support.bystander import Bystander

PAUSE_SECONDS = 0.005


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process, to the nanosecond."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total += int(path.read_bytes().split()[0])
    return total / 1e9


def main() -> None:
    """Time round trips from one line of the input to the next, until it ends."""
    port, pid = int(sys.argv[1]), int(sys.argv[2])
    bystander = Bystander(port)
    bystander.client.socket.settimeout(120)
    print("watching", flush=True)
    while sys.stdin.readline():
        # The next line comes only after this answer, so that `select` below sees it: a line
        # that came together with the first would be in Python's buffer, where it sees none.
        print("begun", flush=True)
        trips = []
        while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            began, cpu = time.monotonic(), cpu_seconds(pid)
            bystander.check()
            trips.append((time.monotonic() - began, cpu_seconds(pid) - cpu))
        sys.stdin.readline()
        tell(trips)


def tell(trips: list[tuple[float, float]]) -> None:
    """Print what was timed."""
    for seconds, cpu in trips:
        print(f"{seconds * 1000:.3f} {cpu * 1000:.3f}")
    print(".", flush=True)


if __name__ == "__main__":
    main()
