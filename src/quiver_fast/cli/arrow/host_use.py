"""The work of the host during a run: whoever takes the CPU makes a sender late."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

_STAT, _PRESSURE = Path("/proc/stat"), Path("/proc/pressure/cpu")
_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_TICKS = os.sysconf("SC_CLK_TCK")


class HostUse:
    """The use of the host's CPU from the creation of this object to the first `section`."""

    def __init__(self) -> None:
        self._begin = _counters()
        self._found: dict[str, float | None] | None = None

    def section(self) -> dict[str, float | None]:
        """Return what was used; None for figures that the system does not tell.

        Keys: ``seconds``; ``busy`` and ``stolen``, shares of the time of all cores (a hypervisor
        stole it); ``waiting``, the share of the time in which some task waited for a core; and
        ``throttled_seconds``, in which the limit of a control group held ours back.
        """
        if self._found is None:
            seconds, *used = (
                None if begin is None or end is None else end - begin
                for begin, end in zip(self._begin, _counters(), strict=True)
            )
            self._found = _section(seconds or 0.0, *used)
        return self._found


def _section(
    seconds: float,
    cores: float | None,
    idle: float | None,
    stolen: float | None,
    waiting: float | None,
    throttled: float | None,
) -> dict[str, float | None]:
    def share(part: float | None, whole: float | None) -> float | None:
        return round(min(part / whole, 1.0), 4) if part is not None and whole else None

    return {
        "seconds": round(seconds, 3),
        "busy": share(None if cores is None or idle is None else cores - idle, cores),
        "stolen": share(stolen, cores),
        "waiting": share(waiting, seconds),
        "throttled_seconds": None if throttled is None else round(throttled, 3),
    }


def _counters() -> tuple[float | None, ...]:
    """Return now, and seconds since the start of the system: see the arguments of `_section`."""
    return time.monotonic(), *_cores(), _waiting(), _throttled()


def _cores() -> tuple[float | None, float | None, float | None]:
    """Return all, idle and stolen seconds of all cores (proc(5))."""
    line = _read(_STAT).partition("\n")[0].split()
    if len(line) < 9:
        return None, None, None
    ticks = [int(word) / _TICKS for word in line[1:9]]
    return sum(ticks), ticks[3] + ticks[4], ticks[7]


def _waiting() -> float | None:
    found = re.search(r"^some .*total=(\d+)", _read(_PRESSURE))
    return int(found[1]) / 1e6 if found else None


def _throttled() -> float | None:
    """Return the seconds for which our control group and those above it were throttled."""
    place = re.search(r"^0::/(.*)$", _read(_CGROUP), re.MULTILINE)
    if place is None:
        return None
    folder = _CGROUPS / place[1]
    found = [
        int(one[1])
        for each in (folder, *folder.parents)
        if each.is_relative_to(_CGROUPS)
        and (one := re.search(r"^throttled_usec (\d+)", _read(each / "cpu.stat"), re.MULTILINE))
    ]
    return sum(found) / 1e6 if found else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
