"""Machines without an address, a name or a file that most have; times that are too long."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.namespace import Namespace, namespace
from support.processes import Finished

from quiver_fast.cli.analyze.command import main as analyze
from quiver_fast.cli.arrow.command import main as arrow
from quiver_fast.cli.bench.command import main as bench
from quiver_fast.cli.pair.command import main as quiver
from quiver_fast.cli.server.command import main as server

BOTH_NAMES = "127.0.0.1 localhost\n::1 localhost\n"
ONLY_V6 = "ip addr del 127.0.0.1/8 dev lo"
ONLY_V4 = "ip addr del ::1/128 dev lo"
# The resolver would be asked for the name, and does not answer.
RESOLVER = "nameserver 127.0.0.2\noptions timeout:30 attempts:5\n"


@contextmanager
def machine(folder: Path, change: str, hosts: str) -> Iterator[Namespace]:
    """Yield a machine after a command that changes it."""
    commands = str(Path(sys.executable).parent)
    environment = {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    with namespace(folder, environment, hosts, RESOLVER) as space:
        if change:
            with space.start(change) as running:
                made = running.wait()
            if made.code:
                pytest.skip(f"not here: {made.stderr}")
        yield space


def done(space: Namespace, line: str) -> Finished:
    with space.start(line) as running:
        return running.wait()


@pytest.mark.parametrize(
    ("change", "hosts"),
    [
        pytest.param(ONLY_V6, BOTH_NAMES, id="v6"),
        pytest.param(ONLY_V4, BOTH_NAMES, id="v4"),
        pytest.param("", "127.0.0.1 other\n", id="no name"),
        pytest.param(ONLY_V6, "::1 localhost\n", id="v6 name", marks=pytest.mark.slow),
        pytest.param(ONLY_V6, "", id="v6, no name", marks=pytest.mark.slow),
        pytest.param(ONLY_V4, "", id="v4, no name", marks=pytest.mark.slow),
    ],
)
def test_pairs_and_servers_run(tmp_path: Path, change: str, hosts: str) -> None:
    with machine(tmp_path, change, hosts) as space:
        assert done(space, "quiver -c 10 --output pair").code == 0
        many = done(space, "quiver -c 10 --senders 2 --receivers 2 --output many")
        assert many.code == 0, many.stderr
        with space.serving("quiver-server //localhost/q0 --quiet", 5672):
            for number, line in enumerate(("-c 10", "--hold 2 -d 1", "--churn 5 -d 1")):
                end = done(space, f"quiver //localhost/q0 {line} --output to-{number}")
                assert end.code == 0, end.stderr
            assert done(space, "quiver-arrow send //a.localhost/q0 -c 1 --output s").code == 0


def test_without_proc(tmp_path: Path) -> None:
    """There the system does not tell which ports are listened on, nor who uses memory."""
    with machine(tmp_path, "", BOTH_NAMES) as space:
        # A server inside that is seen from outside.
        with space.serving("quiver-server //localhost/q0 --quiet", 5672):
            with space.start("mount -t tmpfs none /proc") as mounting:
                assert mounting.wait().code == 0
            for number, line in enumerate(("-c 10", "--hold 2 -d 1", "--churn 5 -d 1")):
                end = done(space, f"quiver //localhost/q0 {line} --output to-{number}")
                assert end.code == 0, end.stderr
        end = done(space, "quiver -c 10 --output pair")
        assert end.code == 1
        assert "/proc is not mounted" in end.stderr.splitlines()[-1]


@pytest.mark.parametrize("length", ["597h", pytest.param("10000h", marks=pytest.mark.slow)])
def test_long_durations(tmp_path: Path, length: str) -> None:
    """They are more milliseconds than fit an int of C."""
    with machine(tmp_path, "", BOTH_NAMES) as space:
        assert done(space, f"quiver -c 10 -d {length} --output pair").code == 0
        with space.serving("quiver-server //localhost/q0 --quiet", 5672):
            for number, line in enumerate(
                ("-c 10", "-c 10 -d 0", "--hold 2 -d 1", "--churn 5 -d 1", "-c 1 --declare")
            ):
                long = f"--timeout {length} --output to-{number}"
                end = done(space, f"quiver //localhost/q0 {line} {long}")
                assert end.code == 0, end.stderr


@pytest.mark.parametrize("number", ["0", "2"])
def test_a_time_out_of_zero_is_none(tmp_path: Path, number: str) -> None:
    with (
        machine(tmp_path, "", BOTH_NAMES) as space,
        space.serving("quiver-server //localhost/q0 --quiet", 5672),
    ):
        end = done(space, f"quiver //localhost/q0 --hold 2 -d 1 --timeout {number} --output h")
        assert end.code == 0, end.stderr


EMPTY = [
    (quiver, ["--output", ""]),
    (quiver, ["--hold", "1", "//localhost/q0", "--output", ""]),
    (quiver, ["--markdown", ""]),
    (quiver, ["--body-file", ""]),
    (arrow, ["send", "//localhost/q0", "--output", ""]),
    (arrow, ["send", "amqps://localhost/q0", "--cert", ""]),
    (arrow, ["send", "amqps://localhost/q0", "--trust-store", ""]),
    (bench, ["--output", ""]),
    (analyze, [".", "--html", ""]),
    (analyze, [".", "--png", ""]),
    (analyze, [".", "--parquet", ""]),
    (server, ["//localhost/q0", "--store", ""]),
    (server, ["//localhost/q0", "--ready-file", ""]),
]


@pytest.mark.parametrize(("command", "words"), EMPTY)
def test_an_empty_name_of_a_file_is_a_usage_error(
    command, words, tmp_path, monkeypatch, capsys
) -> None:
    """As of a variable that is not set: files went into the working folder, or nowhere."""
    monkeypatch.chdir(tmp_path)
    assert command(words) == 2
    error = capsys.readouterr().err
    assert f"{words[-2]}: empty, as of a variable that is not set" in error
    assert list(tmp_path.iterdir()) == []
