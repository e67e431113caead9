"""`quiver_fast.api`: measurements, servers and pytest's fixtures from Python."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.processes import REPOSITORY, free_port, wait_until

import quiver_fast
from quiver_fast.api import QuiverError, Server, UsageError, measure

COUNT = 2000


EXAMPLES = REPOSITORY / "examples"


def process_of(server: Server) -> psutil.Process:
    (found,) = [
        each for each in psutil.Process().children() if f"port={server.port}" in each.cmdline()
    ]
    return found


def test_a_pair() -> None:
    result = measure(count=COUNT)
    assert (result.sent, result.received, result.unreceived) == (COUNT, COUNT, 0)
    assert result.rate > 0
    assert 0 < result.latency("50") <= result.latency(99) <= result.latency(99.9)
    assert result.latency(100) == pytest.approx(
        result.document["receiver"]["latency"]["max_us"] / 1000, abs=0.001
    )
    assert len(result.transfers("receiver")) == COUNT
    assert result.breaches == ()


def test_through_a_server(tmp_path: Path) -> None:
    with Server("orders", durability="none", store=tmp_path / "store") as server:
        assert server.url == f"amqp://127.0.0.1:{server.port}/orders"
        out = tmp_path / "out"
        result = measure(server.url, count=COUNT, durable=True, rate="10k", output=out)
        assert result.directory == out
        assert result.received == COUNT
        assert result.document["sender"]["config"]["durable"] is True
        other = measure(server.url_of("others"), count=10, properties="a=1")
        assert other.received == 10
        pid = process_of(server).pid
    assert not psutil.pid_exists(pid)


def test_thresholds() -> None:
    result = measure(count=COUNT, fail_if=["p99>0.001us", "p50>10s", "rate<1"])
    assert len(result.breaches) == 1
    assert result.breaches[0].startswith("threshold p99>0.001us is breached: ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"credits": 1}, "unrecognized arguments: --credits=1"),
        ({"rate": "fast"}, "rate 'fast' is no number of messages"),
        ({"runs": 3}, "runs is not for a single run"),
        ({"find_rate": "p99<1ms"}, "find_rate is not for a single run"),
        ({"sweep": "rate=1,2"}, "sweep is not for a single run"),
    ],
)
def test_wrong_options(options: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        measure(**options)


def test_a_failed_run_says_why() -> None:
    with pytest.raises(QuiverError, match="refused"):
        measure(f"//127.0.0.1:{free_port()}/q", count=1)


def test_a_server_that_cannot_start() -> None:
    with (
        Server() as one,
        pytest.raises(QuiverError, match=r"(?i)in use"),
        Server(port=one.port),
    ):
        pass
    with pytest.raises(QuiverError, match="durability"), Server(durability="always"):
        pass


def kill(process: psutil.Process) -> None:
    process.kill()
    # Nobody but the server's owner may reap it.
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "it is killed")


def test_a_server_that_was_killed() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(QuiverError, match="the server failed"))
        server = stack.enter_context(Server())
        kill(process_of(server))


def test_an_error_of_the_block_comes_first() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(ValueError, match="of the block"))
        server = stack.enter_context(Server())
        kill(process_of(server))
        raise ValueError("of the block")


TESTS = """
def test_good(amqp_server, quiver_measure):
    assert quiver_measure(amqp_server.url, count=100).received == 100
    assert quiver_measure(amqp_server.url, count=100).directory.name == "quiver-02"

def test_bad(quiver_measure):
    quiver_measure(count=100, fail_if="p50>1ns")
"""


def test_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    end = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "1 failed, 1 passed" in end.stdout
    assert "threshold p50>1ns is breached" in end.stdout
    assert "Traceback" not in end.stdout


def test_the_example_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    text = (REPOSITORY / "docs" / "api.md").read_text()
    source = text.split("```python\n")[1].split("```")[0]
    exec(compile(source, "docs/api.md", "exec"), {})
    printed = capsys.readouterr().out
    assert re.fullmatch(r"[\d,]+ messages/s, p99 [\d.]+ ms, 0 missing\n", printed)


def test_the_package_runs_as_a_program() -> None:
    words = [sys.executable, "-m", "quiver_fast", "--version"]
    end = subprocess.run(words, capture_output=True, text=True, check=True)
    assert end.stdout == f"quiver {quiver_fast.__version__}\n"


def test_the_tests_of_a_client_library(tmp_path: Path) -> None:
    """They use the fixtures as pytest's plugin gives them, without anything of this tree."""
    shutil.copytree(EXAMPLES / "client_tests", tmp_path / "client_tests")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "client_tests"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^3 passed", done.stdout, re.MULTILINE)
