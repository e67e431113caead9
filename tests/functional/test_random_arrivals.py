"""Messages at random distances: the records have exactly the times of the seed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.documents import parsed
from support.processes import run
from support.server import running_server

from quiver_fast.arrivals import Arrivals
from quiver_fast.rate_steps import parse_rate_steps, schedule_of, times_of_parts
from quiver_fast.records.parser import read_transfers

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
ANALYZE = (sys.executable, "-m", "quiver_fast.cli.analyze.command")
SECONDS = 120
STEPS = "1k:1s,100..3k:2s"


def document_of(*command: str | Path) -> dict[str, Any]:
    end = run([*map(str, command), "--json"], SECONDS)
    assert end.code == 0, end.errors
    found: dict[str, Any] = parsed(end.stdout)
    return found


def due_times(seed: int, ends: int, count: int) -> list[int]:
    """Return when the first ``count`` messages of each end are due, in nanoseconds."""
    found: list[int] = []
    for number in range(ends):
        arrivals = Arrivals(seed, number, number == 0)
        parts = [arrivals.position(index) * 1000 * ends for index in range(count)]
        found += times_of_parts(schedule_of(0, parse_rate_steps(STEPS)), parts)
    return sorted(found)


def check_times(files: list[Path], due: list[int]) -> None:
    """Compare send times in microseconds, each of which may be truncated by almost one."""
    sent = sorted(time for file in files for time in read_transfers(file).sent.tolist())
    assert len(sent) == len(due)
    assert all(
        abs(one - sent[0] - time / 1000) < 1.001 for one, time in zip(sent, due, strict=True)
    )


def test_a_pair_keeps_the_times_of_its_seed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = document_of(
        *QUIVER, "--rate-steps", STEPS, "--count", "1500", "--arrivals", "poisson:7",
        "--time-unit", "us", "--output", out,
    )  # fmt: skip
    check_times([out / "sender-transfers.csv.zst"], due_times(7, 1, 1500))
    sender = found["sender"]
    assert sender["config"]["arrivals"] == "poisson:7"
    assert (sender["schedule"]["due"], sender["schedule"]["never_sent"]) == (1500, 0)
    # The files say the same later on.
    assert document_of(*ANALYZE, out)["sender"]["schedule"] == sender["schedule"]


@pytest.mark.parametrize("processes", [["--processes", "2"], ["--processes", "6"]])
def test_each_end_has_times_of_its_own(tmp_path: Path, processes: list[str]) -> None:
    out = tmp_path / "out"
    with running_server(tmp_path) as server:
        found = document_of(
            *QUIVER, f"//127.0.0.1:{server.port}/q", "--senders", "3", "--receivers", "3",
            *processes, "--rate-steps", STEPS, "--count", "1500", "--arrivals", "poisson",
            "--time-unit", "us", "--output", out,
        )  # fmt: skip
    schedule = found["sender"]["schedule"]
    assert found["sender"]["config"]["arrivals"] == "poisson:1"
    assert (schedule["due"], schedule["never_sent"]) == (1500, 0)
    assert (found["delivery"]["sent"], found["delivery"]["unreceived"]) == (1500, 0)
    files = sorted(out.glob("sender.*-transfers.csv*"))
    assert len(files) == (3 if processes == ["--processes", "6"] else 1)
    if len(files) == 1:
        # Processes begin their schedules a little apart.
        check_times(files, due_times(1, 3, 500))
