"""The wall clock is set while a run goes on: figures measured on one host stay right."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clock_steps import SteppedClock, compile_clock
from support.documents import parsed
from support.processes import Running, wait_until
from support.remote import serving
from support.server import running_server

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
# Far apart in both directions. The run ends a minute behind the clock of its start.
STEPS = (3600, -3660)
SOME = 100
SECOND_US = 1_000_000


@pytest.fixture(name="library", scope="module")
def a_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes the clock of a process step."""
    return compile_clock(tmp_path_factory.mktemp("so"))


@pytest.fixture(name="clock")
def a_clock(tmp_path: Path, library: Path) -> SteppedClock:
    return SteppedClock(tmp_path, library)


@pytest.fixture(name="targets", scope="module")
def a_target_of_each_scheme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Servers of both protocols, whose own clocks are not stepped."""
    folder = tmp_path_factory.mktemp("servers")
    with running_server(folder) as server, serving(folder / "store") as port:
        yield {
            "amqp": f"amqp://127.0.0.1:{server.port}/clock",
            "csp": f"csp://127.0.0.1:{port}/clock",
        }


def records(folder: Path) -> list[Path]:
    """Return the records of all receivers."""
    return sorted(folder.glob("receiver*-transfers.csv"))


def count(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in records(folder))


def stepped(clock: SteppedClock, folder: Path, *words: str) -> tuple[dict[str, Any], str, float]:
    """Run `quiver` until it has transferred some messages before, between and after the steps.

    Returns:
        The document, what was said on the standard error, and how many seconds it took.
    """
    begin = time.monotonic()
    command = [*QUIVER, *words, "--json", "--duration", "1h", "--output", str(folder)]
    with Running(command, env=clock.environment) as running:
        wait_until(lambda: count(folder) >= SOME, "some messages")
        for seconds in STEPS:
            clock.step(seconds)
            before = count(folder)
            wait_until(lambda before=before: count(folder) >= before + SOME, "more of them")
        running.send_signal(signal.SIGINT)
        done = running.wait()
    assert done.code == 128 + signal.SIGINT, done.stderr
    return parsed(done.stdout), done.stderr, time.monotonic() - begin


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("", []),
        ("", ["--rate", "5k", "--record-format", "v2", "--settlement"]),
        ("", ["--rate", "5k", "--senders", "4", "--receivers", "4"]),
        ("", ["--rate", "1k", "--streaming", "--body-size", "10k"]),
        ("amqp", ["--rate", "5k", "--unique-queue"]),
        ("amqp", ["--rate", "5k", "--unique-queue", "--record-format", "v1"]),
        ("csp", ["--rate", "5k", "--record-format", "v2", "--settlement"]),
    ],
    ids=lambda value: " ".join(value) or "unpaced" if isinstance(value, list) else value or "peers",
)
def test_nothing_that_a_run_measures_follows_a_step(
    clock: SteppedClock, targets: dict[str, str], tmp_path: Path, scheme: str, words: list[str]
) -> None:
    target = [targets[scheme]] if scheme else []
    document, said, seconds = stepped(clock, tmp_path / "out", *target, *words)
    delivery = document["delivery"]
    faults = ("older", "foreign", "duplicate", "negative_latency")
    assert {key: delivery[key] for key in faults} == dict.fromkeys(faults, 0)
    # The signal may have left some in the queue.
    assert delivery["unreceived"] == delivery["sent"] - delivery["received"] >= 0
    assert delivery["received"] == document["receiver"]["results"]["message_count"] > 0
    assert 0 < document["results"]["duration"] < seconds
    latency = document["receiver"]["latency"]
    assert 0 <= latency["percentiles"]["0"] <= latency["percentiles"]["100"] < seconds * SECOND_US
    late = (document["sender"].get("schedule") or {}).get("late_us")
    assert late is None or 0 <= late["max"] < seconds * SECOND_US
    settlement = document["sender"].get("settlement")
    assert settlement is None or settlement["all"]["negative"] == 0
    told = document["clock_step"]
    # Messages may go faster than the wrapper looks, so that it does not see the first step.
    assert any(abs(told["milliseconds"] - 1000 * ahead) < 1000 for ahead in (3600, -60))
    assert 0 < told["after_seconds"] < seconds
    assert told["in_times"] is False
    assert said.count("the wall clock was set") == 1
    assert "the times of the arrows do not follow it" in said
