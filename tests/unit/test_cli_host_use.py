"""The use of the host's CPU during a run, and its words."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import Popen

import pytest

from quiver_fast.analysis.figures.environment import host_use_text, starved_text
from quiver_fast.analysis.sections.run import lateness_lines, starved_lines
from quiver_fast.cli.arrow import host_use
from quiver_fast.cli.arrow.host_use import HostUse
from quiver_fast.process import Usage

QUIET = {"seconds": 9.0, "busy": 0.123, "stolen": 0.0, "waiting": 0.01, "throttled_seconds": 0.0}
BUSY = QUIET | {"busy": 1.0, "stolen": 0.042, "waiting": 0.5, "throttled_seconds": 1.5}


def system(folder: Path, *, cpu: str, pressure: int | None, throttled: int) -> None:
    """Write the files of a system, below a folder."""
    (folder / "stat").write_text(f"cpu  {cpu} 0 0\ncpu0 1 2\n")
    if pressure is not None:
        (folder / "cpu").write_text(f"some avg10=0.00 total={pressure}\nfull avg10=0.00 total=0\n")
    (folder / "cgroup").write_text("9:cpuset:/c\n8:cpu,cpuacct:/c\n0::/a/b\n")
    (folder / "groups" / "a" / "b").mkdir(parents=True, exist_ok=True)
    (folder / "groups" / "cpu" / "c").mkdir(parents=True, exist_ok=True)
    (folder / "groups" / "cpu" / "c" / "cpu.stat").write_text(
        f"throttled_time {throttled * 1000}\n"
    )
    (folder / "groups" / "a" / "cpu.stat").write_text(f"usage_usec 1\nthrottled_usec {throttled}\n")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, file in (("_STAT", "stat"), ("_PRESSURE", "cpu"), ("_CGROUP", "cgroup")):
        monkeypatch.setattr(host_use, name, tmp_path / file)
    monkeypatch.setattr(host_use, "_CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(host_use, "_TICKS", 100)
    return tmp_path


def test_the_use_is_the_difference_of_two_moments(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 110.0])
    monkeypatch.setattr(host_use.time, "monotonic", lambda: next(times))
    system(place, cpu="100 0 100 700 100 0 0 0", pressure=5_000_000, throttled=1_000_000)
    use = HostUse()
    # In 10 s of two cores: 12 s of work, 6 s idle, 1 s waiting for a disk, 1 s stolen.
    system(place, cpu="1000 100 300 1300 200 0 0 100", pressure=9_000_000, throttled=2_500_000)
    assert use.section(2.5) == {
        "seconds": 10.0, "busy": 0.65, "stolen": 0.05, "waiting": 0.4, "throttled_seconds": 3.0,
        "starved": 0.25, "peer": None,
    }  # fmt: skip
    assert use.section() is use.section()


def test_a_process_that_is_moved_into_a_group(place: Path) -> None:
    (place / "cgroup").write_text("0::/\n")
    use = HostUse()
    system(place, cpu="1 1 1 1 1 1 1 1", pressure=None, throttled=2_000_000)
    assert use.section()["throttled_seconds"] == 4.0


def test_an_arrow_that_is_moved_into_a_group_of_its_own(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = HostUse()
    read, groups = host_use._read, ["0::/\n"]
    monkeypatch.setattr(
        host_use, "_read", lambda file: groups[0] if file == Path("/proc/7/cgroup") else read(file)
    )
    use.follow(7)
    # What the group had before is not of the arrow.
    system(place, cpu="1 1 1 1 1 1 1 1", pressure=None, throttled=2_000_000)
    groups[0] = "0::/a/b\n"
    use.follow(7)
    system(place, cpu="1 1 1 1 1 1 1 1", pressure=None, throttled=5_000_000)
    use.follow(7)
    (place / "cgroup").write_text("0::/\n")
    assert use.section()["throttled_seconds"] == 3.0


def test_a_system_that_tells_nothing(place: Path) -> None:
    found = HostUse().section()
    assert found.pop("seconds") is not None
    assert set(found.values()) == {None}
    assert host_use_text(found) is None


def test_this_system_tells_something() -> None:
    use = HostUse()
    sum(range(2_000_000))
    found = use.section()
    assert found["busy"] is None or 0 <= found["busy"] <= 1


@pytest.mark.parametrize(
    ("use", "notable", "words"),
    [
        (QUIET, False, "CPU 12% busy"),
        (QUIET, True, None),
        (BUSY, True, "CPU 100% busy, 4.2% of it stolen by the hypervisor, tasks waited for a core "
         "in 50% of the time, throttled for 1.50 s by a control group"),
    ],
)  # fmt: skip
def test_words(use: dict[str, float], notable: bool, words: str | None) -> None:
    assert host_use_text(use, notable=notable) == words


@pytest.mark.parametrize(("cause", "whose"), [("itself", "its"), ("credit", "the sender's")])
def test_the_host_stands_beside_late_messages(cause: str, whose: str) -> None:
    late = {"p99": 600}
    latency = {"unit": "us", "percentiles": {"99": 1000}}
    lines = lateness_lines({"late_us": late, "late_by_us": {cause: late}}, latency, BUSY)
    assert lines[-1].startswith(f"({whose} host: CPU 100% busy, 4.2% ")
    assert len(lateness_lines({"late_us": late, "late_by_us": {cause: late}}, latency, QUIET)) == 2


@pytest.mark.parametrize(
    ("throttled", "starved", "words"),
    [
        (4.5, 0.6, "60% of the time: a control group held it back"),
        (4.5, 0.1, "10% of the time: a control group held it back"),
        (0.0, 0.9, "90% of the time: other processes, or a limit, held it back"),
        # Three processes on two cores.
        (0.0, 0.4, None),
        (4.5, 0.0, None),
        (None, None, None),
    ],
)
def test_an_end_without_its_cpu_is_named(
    throttled: float | None, starved: float | None, words: str | None
) -> None:
    use = QUIET | {"throttled_seconds": throttled, "starved": starved}
    found = starved_text("receiver", use)
    assert found is None if words is None else f"the receiver waited for a core in {words}" in found
    lines = starved_lines({"sender": {"host_use": QUIET}, "receiver": {"host_use": use}})
    assert lines == ([] if found is None else [found])
    assert starved_text("receiver", QUIET) is starved_text("receiver", None) is None


def test_an_arrow_that_waits_for_its_core_has_waited() -> None:
    """Two processes on one core: both wait for about half of the time."""
    words = [sys.executable, "-c", "while True: pass"]
    core = str(min(os.sched_getaffinity(0)))
    both = [Popen(["taskset", "-c", core, *words]) for _ in range(2)]
    try:
        usage = Usage(both[0].pid)
        usage.sample()
        before = usage.waited
        assert before is not None

        def has_waited() -> bool:
            usage.sample_rss()
            return (usage.waited or 0) - before > 0.05

        while not has_waited():
            pass
    finally:
        for one in both:
            one.kill()
            one.wait()
