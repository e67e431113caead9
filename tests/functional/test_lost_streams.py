"""Standard streams that are closed or full: a command does its work, with its own exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.processes import Running, free_port, wait_until
from support.server import running_server

LOST = [
    *(pytest.param(one, marks=pytest.mark.slow) for one in ("2>&-", "<&-", "2>/dev/full")),
    ">&-", "<&- >&- 2>&-", ">/dev/full",
]  # fmt: skip
FULL, CLOSED = "No space left on device", "Bad file descriptor"
# Why a text that somebody asked for is lost.
REASONS = {">/dev/full": FULL, ">&-": CLOSED, "<&- >&- 2>&-": CLOSED}


def shell(words: Sequence[str], redirections: str) -> list[str]:
    """Return the words that run an installed command with the redirections of a shell."""
    program = Path(sys.executable).with_name(words[0])
    return ["sh", "-c", f'exec "$@" {redirections}', "sh", str(program), *words[1:]]


def done(words: Sequence[str], redirections: str) -> subprocess.CompletedProcess[str]:
    """Run an installed command to its end, with the redirections of a shell."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    return subprocess.run(
        shell(words, redirections), capture_output=True, text=True, env=environ, timeout=120,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def warning(words: Sequence[str], redirections: str) -> str:
    """Return what the standard error has: a line if standard output is full."""
    line = f"{words[0]}: warning: the standard output cannot be written: {FULL}\n"
    return line if redirections == ">/dev/full" else ""


@pytest.mark.parametrize("redirections", LOST)
def test_runs_go_on(tmp_path: Path, redirections: str) -> None:
    """Each command that measures or analyses."""
    run, sent = str(tmp_path / "run"), str(tmp_path / "sent")
    with running_server(tmp_path) as server:
        url = f"//127.0.0.1:{server.port}/q"
        for words, file in (
            (["quiver", url, "-c", "10", "--output", run], "run/receiver-summary.json"),
            (
                ["quiver-arrow", "send", url, "-c", "9", "--summary", "--output", sent],
                "sent/sender-summary.json",
            ),
            (["quiver-analyze", run, "--html", str(tmp_path / "page.html")], "page.html"),
        ):
            ended = done(words, redirections)
            assert (ended.returncode, ended.stderr) == (0, warning(words, redirections)), words
            assert (tmp_path / file).exists()


def test_many_runs_go_on(tmp_path: Path) -> None:
    words = ["quiver-bench", "-c", "10", "--output", str(tmp_path)]
    words += ["--include-senders", "pyfast", "--include-receivers", "pyfast", "--peer-to-peer"]
    ended = done(words, ">/dev/full 2>&-")
    assert ended.returncode == 0
    assert list(tmp_path.rglob("receiver-summary.json"))


@pytest.mark.parametrize("redirections", LOST)
def test_a_verdict_is_the_exit_code(tmp_path: Path, redirections: str) -> None:
    words = ["quiver", "-c", "10", "--fail-if", "count>=1", "--output", str(tmp_path / "run")]
    ended = done(words, redirections)
    assert ended.returncode == 99
    assert ("threshold count>=1 is breached" in ended.stderr) == ("2>" not in redirections)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("redirections", LOST)
def test_a_server_serves(redirections: str) -> None:
    url = f"//127.0.0.1:{free_port()}/q"
    with Running(shell(["quiver-server", url], redirections)) as server:
        wait_until(lambda: done(["quiver", url, "-c", "10"], "").returncode == 0, "it serves")
        server.send_signal(signal.SIGTERM)
        finished = server.wait()
    assert finished.code == 0
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("redirections", LOST)
def test_entries_are_appended(tmp_path: Path, redirections: str) -> None:
    queue = str(tmp_path / "q")
    ended = done(["quiver-queue", "append", queue, '"a"'], redirections)
    full = redirections == ">/dev/full"
    assert ended.returncode == full
    assert ended.stderr.count("\n") == full
    dumped = done(["quiver-queue", "dump", queue, "--json"], "")
    assert dumped.stdout.count("\n") == 1


@pytest.mark.parametrize("redirections", LOST)
@pytest.mark.parametrize(
    "words",
    [
        ["quiver", "--help"],
        ["quiver-arrow", "--version"],
        ["quiver-server", "--completion"],
        ["quiver", "schema", "run"],
        ["quiver-arrow-pyfast"],
        ["quiver-server-pyfast", "--help"],
        ["quiver-server-rabbitmq", "--version"],
    ],
    ids=" ".join,
)
def test_a_text_is_lost_in_words(words: list[str], redirections: str) -> None:
    """The text is all that these have to give."""
    ended = done(words, redirections)
    lost = REASONS.get(redirections)
    line = f"{words[0]}: error: the standard output cannot be written: {lost}\n"
    told = lost is not None and "2>" not in redirections
    assert (ended.returncode, ended.stderr) == (lost is not None, line * told)


@pytest.mark.parametrize("redirections", [">/dev/full", ">&-"])
def test_a_document_is_lost_in_words(tmp_path: Path, redirections: str) -> None:
    words = ["quiver", "-c", "10", "--json", "--output", str(tmp_path)]
    error = f" error: the standard output cannot be written: {REASONS[redirections]}\n"
    ended = done(words, redirections)
    assert ended.returncode == 1
    assert ended.stderr.endswith(error)
    assert json.loads((tmp_path / "receiver-summary.json").read_text())
    for more in ([], ["--json"]):
        ended = done(["quiver-analyze", str(tmp_path), *more], redirections)
        assert (ended.returncode, ended.stderr) == (1, f"quiver-analyze:{error}")
    ended = done(["quiver-analyze", str(tmp_path), "--quiet"], redirections)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_entries_and_details_are_lost_in_words(tmp_path: Path) -> None:
    queue = str(tmp_path / "q")
    assert done(["quiver-queue", "append", queue, '"a"'], "").returncode == 0
    for words in (
        ["quiver-queue", "dump", queue],
        ["quiver-queue", "tail", queue],
        ["quiver-arrow", "--info"],
    ):
        ended = done(words, ">&-")
        line = f"{words[0]}: error: the standard output cannot be written: {CLOSED}\n"
        assert (ended.returncode, ended.stderr) == (1, line)


@pytest.mark.parametrize("redirections", LOST)
def test_errors_keep_their_code(redirections: str) -> None:
    for command in ("", "-arrow", "-server", "-bench", "-analyze", "-queue", "-fleet"):
        ended = done([f"quiver{command}", "--cuont", "1"], redirections)
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == ("2>" not in redirections)


@pytest.mark.parametrize("redirections", ["2>&-", ">&-", "<&-", "2>/dev/full"])
def test_an_arrow_of_the_contract(tmp_path: Path, redirections: str) -> None:
    with running_server(tmp_path) as server:
        keys = {"connection-mode": "client", "channel-mode": "active", "operation": "send"}
        keys |= {"id": "s", "host": "127.0.0.1", "port": str(server.port), "path": "q"}
        keys |= {"duration": "0", "count": "10", "body-size": "1", "credit-window": "10"}
        keys |= {"transaction-size": "0", "durable": "0", "scheme": "amqp", "settlement": "1"}
        words = [f"{key}={value}" for key, value in keys.items()]
        ended = done(["quiver-arrow-pyfast", *words, "unknown=1"], redirections)
    assert ended.returncode == 0
    # A line for each message, and a line for each outcome.
    assert ended.stdout.count("\n") == (0 if redirections == ">&-" else 20)
