"""A signal that is ignored at the start, as by nohup or a shell's ``&``, stays ignored."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import psutil
import pytest
from support.processes import Running, free_port, wait_until
from support.server import running_server

SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]


def ignoring(number: signal.Signals, module: str, *words: str) -> Running:
    """Start a command that ignores a signal from its start on."""
    shell = ["sh", "-c", f'trap "" {number.name[3:]}; exec "$@"', "sh"]
    return Running([*shell, sys.executable, "-m", f"quiver_fast.cli.{module}.command", *words])


def send_to_all(running: Running, number: signal.Signals) -> None:
    """Signal a process and all that it started, as a terminal does."""
    process = psutil.Process(running.process.pid)
    for each in [process, *process.children(recursive=True)]:
        each.send_signal(number)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("module", ["pair", "arrow"])
def test_a_run_goes_on(tmp_path: Path, module: str, number: signal.Signals) -> None:
    output = tmp_path / "output"
    with running_server(tmp_path) as server:
        words = [f"//127.0.0.1:{server.port}/q", "-c", "400", "--rate", "400"]
        words += ["--output", str(output)]
        with ignoring(number, module, *(["send"] if module == "arrow" else []), *words) as run:
            records = output / "sender-transfers.csv"
            wait_until(lambda: records.exists() and records.stat().st_size > 0, "messages go")
            send_to_all(run, number)
            finished = run.wait()
    assert (finished.code, finished.stderr) == (0, "")
    summary = json.loads((output / "sender-summary.json").read_text())
    assert summary["results"]["message_count"] == 400


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_server_goes_on(number: signal.Signals) -> None:
    port = free_port()
    with ignoring(number, "server", f"//127.0.0.1:{port}/q", "--quiet") as server:
        process = psutil.Process(server.process.pid)

        def listens() -> bool:
            children = process.children()
            return any(c.laddr.port == port for p in children for c in p.net_connections("tcp"))

        wait_until(listens, "the server listens")
        send_to_all(server, number)
        other = signal.SIGINT if number == signal.SIGTERM else signal.SIGTERM
        assert listens()
        server.send_signal(other)
        finished = server.wait()
    assert (finished.code, finished.stderr) == (0, "")
