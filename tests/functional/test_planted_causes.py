"""A planted cause of late messages or of a growing queue is named, in each of ten runs."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from support.planted import Relay, neighbour, throttled
from support.processes import Running, wait_until
from support.server import Server, running_server

pytestmark = [pytest.mark.measured, pytest.mark.slow]

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
RUNS = 10
ITSELF = r"latency arose before sending, because the sender was late"
CREDIT = r"latency is the time that messages waited for\s+credit"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server"), queue_limit=1_000_000) as server:
        yield server


def ends(running: Running, operation: str) -> list[psutil.Process]:
    children = psutil.Process(running.process.pid).children(recursive=True)
    return [one for one in children if f"operation={operation}" in one.cmdline()]


@contextlib.contextmanager
def stopped(*processes: psutil.Process) -> Iterator[None]:
    time.sleep(0.5)
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    for process in processes:
        process.send_signal(signal.SIGCONT)
    yield


@dataclass(frozen=True)
class Case:
    """How a cause is planted, the options, and patterns that the report has and does not have."""

    plant: Callable[[Server, Running], contextlib.AbstractContextManager[None]]
    words: tuple[str, ...]
    named: str
    blamed: str
    relayed: bool = False


CASES = {
    "broker stopped": Case(
        lambda server, _: stopped(server.process), ("--rate", "2k"), CREDIT, ITSELF
    ),
    "full queue": Case(
        lambda _, running: stopped(*ends(running, "receive")),
        ("--rate", "2k", "--body-size", "2000"), CREDIT, ITSELF,
    ),
    "longer path": Case(
        lambda *_: contextlib.nullcontext(),
        ("--rate", "10k", "--credit", "10"), CREDIT, ITSELF, relayed=True,
    ),
    "sender throttled": Case(
        lambda _, running: throttled(ends(running, "send"), 0.2),
        ("--rate", "40k"), rf"{ITSELF}[^\x00]*throttled for", CREDIT,
    ),
    "receiver throttled": Case(
        lambda _, running: throttled(ends(running, "receive"), 0.05),
        ("--rate", "20k"), r"the receiver waited for a core in [^\n]*: a control group", ITSELF,
    ),
    # All ends of this host suffer, the server too, so that either may be late first.
    "neighbour": Case(
        lambda *_: neighbour(), ("--rate", "20k"), r"host: CPU (9\d|100)% busy", "stopped by"
    ),
}  # fmt: skip


def report(server: Server, port: int, out: Path, case: Case) -> str:
    url = f"//127.0.0.1:{port}/{out.name}"
    command = [*QUIVER, url, *case.words, "-d", "5s", "--output", str(out)]
    with Running(command) as running:
        wait_until(
            lambda: any(one.stat().st_size for one in out.glob("receiver*transfers*")), "messages"
        )
        with case.plant(server, running):
            end = running.wait(120)
    assert end.code == 0, end
    return end.stdout


@pytest.mark.parametrize("cause", CASES)
@pytest.mark.timeout(900)
def test_a_planted_cause_is_named(server: Server, tmp_path: Path, cause: str) -> None:
    case, wrong = CASES[cause], []
    with Relay(server.port, 0.002) as relay:
        port = relay.port if case.relayed else server.port
        for number in range(RUNS):
            text = report(server, port, tmp_path / f"run-{number}", case)
            if not re.search(case.named, text) or re.search(case.blamed, text):
                wrong.append(text)
    assert not wrong, f"{len(wrong)} of {RUNS}:\n{wrong[0]}"
