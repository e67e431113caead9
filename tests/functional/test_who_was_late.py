"""A process that stands still is named as the cause of late messages: the target, or the sender."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.documents import parsed
from support.processes import Running, wait_until
from support.server import Server, running_server

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
# So long a process stands still, in a run of five seconds.
STILL = 1.0
SECONDS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def processes(running: Running, who: str) -> list[psutil.Process]:
    """Return the processes of an end: "send" or "receive"; none of another name."""
    children = psutil.Process(running.process.pid).children(recursive=True)
    return [one for one in children if f"operation={who}" in one.cmdline()]


def is_receiving(out: Path) -> bool:
    """Say whether records of the receivers are written."""
    return any(file.stat().st_size for file in out.glob("receiver*transfers*"))


def measured(out: Path, server: Server | None, still: str, *words: str) -> dict[str, Any]:
    """Return the document of a run during which a process stands still for a second."""
    url = [] if server is None else [f"//127.0.0.1:{server.port}/{out.name}"]
    command = [*QUIVER, *url, *words, "-d", "5s", "--json", "--output", str(out)]
    with Running(command) as running:
        wait_until(lambda: is_receiving(out), "messages")
        stopped = processes(running, still)
        if still == "server" and server is not None:
            stopped = [server.process]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        time.sleep(STILL)
        for process in stopped:
            process.send_signal(signal.SIGCONT)
        end = running.wait(SECONDS)
    assert end.code == 0, end
    return parsed(end.stdout)


CASES = [
    ("credit", True, "server", ("--rate", "2k")),
    ("credit", True, "server", ("--rate", "12k", "--senders", "4", "--processes", "1")),
    ("credit", False, "receive", ("--rate", "2k", "--credit", "10")),
    # The receiver stands still by itself.
    ("credit", False, "nobody", ("--rate", "2k", "--pause-receivers", "2s:1s", "--credit", "100")),
    ("socket", False, "receive", ("--rate", "500", "--body-size", "100k")),
    ("outcomes", True, "server", ("--rate", "500", "--transaction-size", "10")),
    ("itself", True, "send", ("--rate", "2k")),
    # While it waits, too: what it waits for comes meanwhile.
    ("itself", True, "send", ("--rate", "2k", "--transaction-size", "1")),
    ("itself", False, "send", ("--rate", "15k", "--credit", "2")),
]


@pytest.mark.parametrize(("cause", "served", "still", "words"), CASES)
def test_the_cause_is_named(
    server: Server, tmp_path: Path, cause: str, served: bool, still: str, words: tuple[str, ...]
) -> None:
    document = measured(
        tmp_path / f"{cause}-{len(words)}", server if served else None, still, *words
    )
    schedule = document["sender"]["schedule"]
    parts = {name: part["max"] / 1e6 for name, part in schedule["late_by_us"].items()}
    assert parts.keys() == {"credit", "socket", "outcomes", "itself"}
    assert max(parts, key=parts.__getitem__) == cause, parts
    # Some messages pass before the sender has no credit or the socket is full.
    assert STILL / 10 < parts[cause] < 3 * STILL, parts
    assert (
        max(part["max"] for part in schedule["late_by_us"].values()) <= schedule["late_us"]["max"]
    )


def test_the_words_blame_the_target(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "words"
    command = [*QUIVER, f"//127.0.0.1:{server.port}/words", "--rate", "2k", "-d", "4s"]
    with Running([*command, "--output", str(out)]) as running:
        wait_until(lambda: is_receiving(out), "messages")
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(STILL)
        server.process.send_signal(signal.SIGCONT)
        end = running.wait(SECONDS)
    assert end.code == 0, end
    text = end.stdout
    assert " latency is the time that messages waited for credit:\nthe target took none" in text
    assert "the sender was late" not in text
    assert re.search(r"^Waited for credit \.+ p99\.9 ", text, re.MULTILINE)
