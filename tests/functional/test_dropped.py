"""One acknowledged message in 100,000 that never arrives is found, whichever it is."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.documents import parsed
from support.forging_relay import ForgingRelay
from support.processes import run
from support.server import Server, running_server

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
WORDS = ("--settlement", "--rate", "50k", "--drain-timeout", "2s", "--fail-if", "lost>0")


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def measured(server: Server, number: int, count: int, out: Path, *words: str) -> Any:
    """Run with the message of this number swallowed; return exit code and document."""
    with ForgingRelay(server.port, number) as relay:
        url = f"//127.0.0.1:{relay.port}/dropped"
        end = run([*QUIVER, url, "-c", str(count), *WORDS, "--output", str(out), "--json", *words])
        assert relay.forged == (number <= count)
    return end.code, parsed(end.stdout)


@pytest.mark.parametrize("number", [1, 7_003, 20_000])
def test_a_dropped_message_is_found(server: Server, tmp_path: Path, number: int) -> None:
    code, document = measured(server, number, 20_000, tmp_path / "out")
    delivery = document["delivery"]
    assert (delivery["unreceived"], delivery["lost"], code) == (1, 1, 99)


def test_the_ledger_has_a_dropped_message_beside_a_failure(server: Server, tmp_path: Path) -> None:
    words = ("--reconnect", "--resend", "--fault", "200ms cut")
    code, document = measured(server, 9_000, 20_000, tmp_path / "out", *words)
    ledger = document["ledger"]
    assert (ledger["acknowledged_unreceived"], ledger["lost"], code) == (1, 1, 99)
    assert (ledger["acknowledged_received"], ledger["in_doubt"]) == (19_999, 0)
    assert len(ledger["failures"]) == 1


def test_nothing_is_found_where_nothing_was_dropped(server: Server, tmp_path: Path) -> None:
    code, document = measured(server, 20_001, 20_000, tmp_path / "out")
    delivery = document["delivery"]
    assert (delivery["unreceived"], delivery["lost"], code) == (0, 0, 0)


@pytest.mark.slow
def test_one_in_100_000_is_found_in_20_of_20_runs(server: Server, tmp_path: Path) -> None:
    draw = random.Random(53)
    for number in range(20):
        dropped = draw.randint(1, 100_000)
        code, document = measured(server, dropped, 100_000, tmp_path / str(number))
        assert (document["delivery"]["lost"], code) == (1, 99), dropped


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_healthy_runs_with_faults_raise_no_alarm(server: Server, tmp_path: Path, seed: int) -> None:
    """Connections are lost, messages wait, and copies are sent: 100 runs lose no message."""
    draw = random.Random(seed)
    kinds = ("cut", "cut 50%", "refuse 100ms", "freeze 100ms", "half 100ms", "delay 20ms 100ms")
    for number in range(10):
        # The connections are back before the next fault.
        times = [draw.randint(first, first + 100) for first in (0, 300, 600)]
        faults = [f"{time}ms {draw.choice(kinds)}" for time in times]
        words = [word for fault in faults for word in ("--fault", fault)]
        ends = ("--senders", "2", "--receivers", "2") if number % 2 else ()
        resend = ("--resend",) if number % 4 > 1 else ()
        url = f"//127.0.0.1:{server.port}/healthy-{seed}-{number}"
        out = tmp_path / str(number)
        soon = ("--reconnect", "--reconnect-pause", "5ms,10ms")
        watch = (*soon, *resend, *ends, "--rate", "20k", "-d", "1s", "--json")
        alarms = ("--fail-if", "lost>0", "--fail-if", "duplicate>0")
        end = run([*QUIVER, url, *watch, *alarms, *words, "--output", str(out)])
        ledger = parsed(end.stdout)["ledger"]
        assert (ledger["lost"], ledger["duplicate"], end.code) == (0, 0, 0), (faults, end.stderr)
