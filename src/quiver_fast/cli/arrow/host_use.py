"""The work of the host during a run: whoever takes the CPU makes a sender late."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

_STAT, _PRESSURE = Path("/proc/stat"), Path("/proc/pressure/cpu")
_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
# Of cgroup version 2, and of the controller of version 1: the line of a process, the folder, the
# counter of time, and its unit in seconds.
_HIERARCHIES = (
    (r"^0::/(.*)$", "", "throttled_usec", 1e-6),
    (r"^[1-9]\d*:(?:.*,)?cpu(?:,.*)?:/(.*)$", "cpu", "throttled_time", 1e-9),
)
_TICKS = os.sysconf("SC_CLK_TCK")


class HostUse:
    """The use of the host's CPU from the creation of this object to the first `section`."""

    def __init__(self) -> None:
        self._begin = _counters()
        self._found: dict[str, float | None] | None = None
        self._groups, self._before, self._throttled = "", 0.0, 0.0

    def follow(self, pid: int) -> None:
        """Look at the control groups of the arrow's process: somebody may move it into others."""
        groups = _read(Path(f"/proc/{pid}/cgroup"))
        throttled = _throttled(groups) or 0.0
        if groups != self._groups:
            self._groups, self._before = groups, throttled
        self._throttled = max(self._throttled, throttled - self._before)

    def section(self, waited: float | None = None) -> dict[str, float | None]:
        """Return what was used; None for figures that the system does not tell.

        Keys: ``seconds``; ``busy`` and ``stolen``, shares of the time of all cores (a hypervisor
        stole it); ``waiting``, the share of the time in which some task waited for a core; and
        ``throttled_seconds``, in which the limit of a control group held ours back; ``starved``,
        the share of the time in which the arrow waited for a core.

        Args:
            waited: seconds that the arrow waited for a core; None where nothing tells that.
        """
        if self._found is None:
            seconds, *used = (
                None if begin is None or end is None else end - begin
                for begin, end in zip(self._begin, _counters(), strict=True)
            )
            *cores, throttled = used
            if self._throttled:
                throttled = max(throttled or 0.0, self._throttled)
            self._found = _section(seconds or 0.0, *[*cores, throttled, waited])
        return self._found


def _section(
    seconds: float,
    cores: float | None,
    idle: float | None,
    stolen: float | None,
    waiting: float | None,
    throttled: float | None,
    waited: float | None,
) -> dict[str, float | None]:
    def share(part: float | None, whole: float | None) -> float | None:
        return round(min(part / whole, 1.0), 4) if part is not None and whole else None

    return {
        "seconds": round(seconds, 3),
        "busy": share(None if cores is None or idle is None else cores - idle, cores),
        "stolen": share(stolen, cores),
        "waiting": share(waiting, seconds),
        "throttled_seconds": None if throttled is None else round(throttled, 3),
        "starved": share(waited, seconds),
    }


def _counters() -> tuple[float | None, ...]:
    """Return now, and seconds since the start of the system: see the arguments of `_section`."""
    return time.monotonic(), *_cores(), _waiting(), _throttled(_read(_CGROUP))


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


def _throttled(groups: str) -> float | None:
    """Return the seconds for which the groups of a process, and those above, were throttled.

    A group without a limit tells none, and counts as 0; None without any control group.
    """
    found = [
        sum(_throttled_in(_CGROUPS / below, place, counter)) * unit
        for line, below, counter, unit in _HIERARCHIES
        for place in re.findall(line, groups, re.MULTILINE)
    ]
    return sum(found) if found else None


def _throttled_in(root: Path, place: str, counter: str) -> Iterator[int]:
    folder = root / place
    for each in (folder, *folder.parents):
        if each.is_relative_to(root):
            found = re.search(rf"^{counter} (\d+)", _read(each / "cpu.stat"), re.MULTILINE)
            yield int(found[1]) if found else 0


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
