"""The work of the host during a run: whoever takes the CPU makes a sender late."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

_STAT, _PRESSURE = Path("/proc/stat"), Path("/proc/pressure/cpu")
_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
# Of cgroup version 2, and of the controller of version 1: the line of a process, the folder, the
# counter of time, and its unit in seconds.
_HIERARCHIES = (
    (r"^0::/(.*)$", "", "throttled_usec", 1e-6),
    (r"^[1-9]\d*:(?:.*,)?cpu(?:,.*)?:/(.*)$", "cpu", "throttled_time", 1e-9),
)
# The other end of a connection has no process before it is accepted, or one of another user.
_TRIES = 10
Address = tuple[str, int]
_TICKS = os.sysconf("SC_CLK_TCK")


class HostUse:
    """The use of the host's CPU from the creation of this object to the first `section`."""

    def __init__(self) -> None:
        self._begin = _counters()
        self._found: dict[str, Any] | None = None
        self._peer = PeerUse()
        self._groups, self._before, self._throttled = "", 0.0, 0.0

    def follow(self, pid: int) -> None:
        """Look at the control groups of the arrow's process: somebody may move it into others."""
        groups = _read(Path(f"/proc/{pid}/cgroup"))
        throttled = _throttled(groups) or 0.0
        if groups != self._groups:
            self._groups, self._before = groups, throttled
        self._throttled = max(self._throttled, throttled - self._before)
        self._peer.look()

    def find_peer(self, pid: int) -> None:
        """Find the process to which the arrow's process is connected, as soon as it is."""
        self._peer.find(pid)

    def section(self, waited: float | None = None) -> dict[str, Any]:
        """Return what was used; None for figures that the system does not tell.

        Keys: ``seconds``; ``busy`` and ``stolen``, shares of the time of all cores (a hypervisor
        stole it); ``waiting``, the share of the time in which some task waited for a core; and
        ``throttled_seconds``, in which the limit of a control group held ours back; ``starved``,
        the share of the time in which the arrow waited for a core; ``peer``, see
        :meth:`PeerUse.section`.

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
            self._found = {
                **_section(seconds or 0.0, *[*cores, throttled, waited]),
                "peer": self._peer.section(),
            }
        return self._found


class PeerUse:
    """The use of CPU and memory of the process at the other end of an arrow's connection.

    It has to be a process of this host, and one that we may look at.
    """

    def __init__(self) -> None:
        self._tries = _TRIES
        self._process: psutil.Process | None = None
        self._begin = self._last = (0.0, 0.0)
        self._name, self._memory = "", 0

    def find(self, pid: int) -> None:
        """Find the process at the other end of the connections of an arrow, whose pid is given."""
        import psutil

        if not self._tries:
            return
        with contextlib.suppress(psutil.Error, OSError):
            connections = psutil.Process(pid).net_connections("tcp")
            mine = {_ends(one) for one in connections if one.status == psutil.CONN_ESTABLISHED}
            if not mine:
                return
            pids = [
                one.pid for one in psutil.net_connections("tcp")
                if one.raddr and _ends(one)[::-1] in mine
            ]  # fmt: skip
            found = next((psutil.Process(one) for one in pids if one), None)
            # Another arrow of ours is no server.
            if found is not None and found.ppid() != os.getpid():
                self._process = found
                self.look()
                self._begin = self._last
            # Without another end here it is on another host.
            self._tries = self._tries - 1 if pids and not any(pids) else 0

    def look(self) -> None:
        """Note the use until now."""
        import psutil

        if self._process is None:
            return
        with contextlib.suppress(psutil.Error, OSError):
            times, self._name = self._process.cpu_times(), self._process.name()
            self._last = (time.monotonic(), times.user + times.system)
            self._memory = max(self._memory, self._process.memory_info().rss)

    def section(self) -> dict[str, Any] | None:
        """Return what the process used since it was found; None where it was not.

        Keys: ``name``; ``cores``, its CPU time by the time that passed, None where none did; and
        ``memory_bytes``, the most that was resident when it was looked at.
        """
        self.look()
        if not self._memory:
            return None
        seconds, used = (b - a for a, b in zip(self._begin, self._last, strict=True))
        cores = round(used / seconds, 3) if seconds else None
        return {"name": self._name, "cores": cores, "memory_bytes": self._memory}


def _ends(connection: Any) -> tuple[Address, Address]:
    """Return both addresses; those of IPv4 look the same in a socket of IPv6."""
    ours, theirs = connection.laddr, connection.raddr
    return (_plain(ours.ip), ours.port), (_plain(theirs.ip), theirs.port)


def _plain(ip: str) -> str:
    return ip.removeprefix("::ffff:")


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
