"""The process at the other end of a connection: its CPU and memory are in `host_use`."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from support.documents import parsed
from support.processes import Running, wait_until
from support.server import running_server

from quiver_fast.analysis.figures.environment import peer_use_text
from quiver_fast.cli.arrow.host_use import PeerUse


def test_the_process_at_the_other_end() -> None:
    """It is seen from a socket of IPv6, too; a process that we started is none."""
    serve = "import socket; s = socket.create_server(('::', 0), family=socket.AF_INET6,"
    serve += " dualstack_ipv6=True); print(s.getsockname()[1], flush=True); c = s.accept(); input()"
    # The shell is the parent of the server, so that we are not.
    words = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", serve]
    with Popen(words, stdin=PIPE, stdout=PIPE, text=True) as shell:
        assert shell.stdout is not None
        use = PeerUse()
        use.find(os.getpid())
        assert use.section() is None
        port = int(shell.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as client:
            wait_until(lambda: found(use) is not None, "the server is found")
            assert client.fileno()
        shell.communicate("\n")
    used = use.section()
    assert used is not None
    assert used["memory_bytes"] > 1_000_000
    assert peer_use_text({"peer": used})


def found(use: PeerUse) -> dict[str, Any] | None:
    use.find(os.getpid())
    return use.section()


def test_the_server_of_a_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running_server(tmp_path) as server:
        command = [sys.executable, "-m", "quiver_fast.cli.pair.command", "-d", "2s", "--json"]
        command += [f"//127.0.0.1:{server.port}/q", "--output", str(out)]
        with Running(command) as running:
            ended = running.wait(60)
    assert ended.code == 0, ended.stderr
    for role in ("sender", "receiver"):
        peer = parsed(ended.stdout)[role]["host_use"]["peer"]
        assert peer["memory_bytes"] > 1_000_000
        assert 0 <= peer["cores"] < 64


def test_ends_without_a_server_have_no_other_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quiver_fast.cli.pair.command", "-d", "2s", "--json"]
    with Running([*command, "--output", str(tmp_path / "out")]) as running:
        ended = running.wait(60)
    assert ended.code == 0, ended.stderr
    document = parsed(ended.stdout)
    assert [document[role]["host_use"]["peer"] for role in ("sender", "receiver")] == [None, None]
