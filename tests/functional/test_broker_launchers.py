"""The life of a launcher, with a router of a few lines in place of the real one."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import psutil
import pytest
from support.processes import Finished, Running, free_port, wait_until
from support.server import command, is_ready

from quiver_fast.ready_file import WITHDRAWN

MODULE = "quiver_fast.brokers.skrouterd"

# It takes the configuration that skrouterd takes. FAKE_ROUTER says how to behave:
#   ok       answer SASL headers until SIGTERM
#   fail     write a line to standard error and exit 1
#   stubborn the same as ok, but ignore SIGTERM
ROUTER = (
    f"#!{sys.executable}"
    + r"""
import json, os, signal, socket, sys

mode = os.environ["FAKE_ROUTER"]
if mode == "fail":
    sys.exit("router: no")
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
listener = dict(json.load(open(sys.argv[sys.argv.index("--conf") + 1])))["listener"]
server = socket.create_server((listener["host"], int(listener["port"])))
while True:
    connection, _ = server.accept()
    connection.sendall(connection.recv(8))
    connection.close()
"""
)


class Launch:
    """A launcher with the fake router on its PATH, and a place of its own for temporary files."""

    def __init__(self, directory: Path, mode: str, **keys: object) -> None:
        program = directory / "bin" / "skrouterd"
        program.parent.mkdir()
        program.write_text(ROUTER)
        program.chmod(0o755)
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        self.port = free_port()
        self.ready_file = directory / "ready"
        self.running = Running(
            command(self.port, self.ready_file, module=MODULE, **keys),
            env={"PATH": str(program.parent), "TMPDIR": str(self.temporary), "FAKE_ROUTER": mode},
        )

    def wait_until_ready(self) -> psutil.Process:
        """Return the router's process, once the launcher says that it serves."""
        wait_until(
            lambda: is_ready(self.ready_file) or self.running.process.poll() is not None,
            "the router is ready",
        )
        [router] = psutil.Process(self.running.process.pid).children()
        assert [path.name[:23] for path in self.temporary.iterdir()] == ["quiver-server-skrouterd"]
        return router

    def ended(self) -> Finished:
        """Return how the launcher ended; it must leave nothing behind."""
        end = self.running.wait()
        assert list(self.temporary.iterdir()) == []
        return end


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_broker_and_takes_its_files(tmp_path: Path, signum: int) -> None:
    launch = Launch(tmp_path, "ok")
    with launch.running:
        router = launch.wait_until_ready()
        launch.running.send_signal(signal.Signals(signum))
        end = launch.ended()
        assert (end.code, end.stdout, end.stderr) == (0, "", "")
        assert not router.is_running()


def test_it_says_where_it_listens_unless_quiet(tmp_path: Path) -> None:
    launch = Launch(tmp_path, "ok", quiet=None)
    with launch.running:
        launch.wait_until_ready()
        launch.running.send_signal(signal.SIGTERM)
        where = f"amqp://127.0.0.1:{launch.port}"
        assert launch.ended().stderr == f"quiver-server-skrouterd: listening on {where}\n"


def test_a_broker_that_ends_by_itself_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    launch = Launch(tmp_path, "fail")
    with launch.running:
        end = launch.ended()
        assert end.code == 1
        assert end.stderr.splitlines() == [
            "skrouterd.output: router: no",
            "quiver-server-skrouterd: error: skrouterd ended by itself: exit code 1",
        ]
        assert not launch.ready_file.exists()


def test_a_crash_dump_goes_to_the_run_s_own_folder(tmp_path: Path) -> None:
    """A broker writes it to its working folder, which was the user's."""
    launch = Launch(tmp_path, "ok")
    with launch.running:
        router = launch.wait_until_ready()
        (folder,) = launch.temporary.iterdir()
        assert router.cwd() == str(folder)
        launch.running.send_signal(signal.SIGTERM)
        assert launch.ended().code == 0


def test_a_broker_that_dies_later_is_a_failure(tmp_path: Path) -> None:
    launch = Launch(tmp_path, "ok")
    with launch.running:
        launch.wait_until_ready().kill()
        end = launch.ended()
        assert end.code == 1
        assert "skrouterd ended by itself: killed by SIGKILL" in end.stderr


def test_a_ready_file_that_somebody_removed_changes_nothing(tmp_path: Path) -> None:
    launch = Launch(tmp_path, "ok")
    with launch.running:
        router = launch.wait_until_ready()
        launch.ready_file.unlink()
        router.kill()
        assert "skrouterd ended by itself: killed by SIGKILL" in launch.ended().stderr


def test_a_broker_that_is_killed_on_purpose_starts_again(tmp_path: Path) -> None:
    launch = Launch(tmp_path, "ok")
    with launch.running:
        router = launch.wait_until_ready()
        folder = [*launch.temporary.iterdir()]
        launch.ready_file.write_text(WITHDRAWN)
        router.kill()
        wait_until(lambda: not router.is_running(), "the launcher has seen it")
        assert launch.running.process.poll() is None
        launch.ready_file.write_text("")
        assert launch.wait_until_ready() != router
        assert [*launch.temporary.iterdir()] == folder
        launch.running.send_signal(signal.SIGTERM)
        assert launch.ended().code == 0


def test_the_broker_does_not_outlive_a_killed_launcher(tmp_path: Path) -> None:
    launch = Launch(tmp_path, "stubborn")
    with launch.running:
        router = launch.wait_until_ready()
        launch.running.send_signal(signal.SIGKILL)
        wait_until(lambda: not router.is_running(), "the router is gone")


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    """Another listener would be measured in place of the broker."""
    first = Launch(tmp_path, "ok")
    with first.running:
        first.wait_until_ready()
        with Running(
            command(first.port, tmp_path / "second", module=MODULE),
            env={"PATH": str(tmp_path / "bin"), "FAKE_ROUTER": "ok"},
        ) as second:
            end = second.wait()
        assert (end.code, len(end.stderr.splitlines())) == (1, 1)
        assert "cannot listen" in end.stderr
        assert not (tmp_path / "second").exists()
        first.running.send_signal(signal.SIGTERM)
        assert first.ended().code == 0


def test_temporary_files_are_private(tmp_path: Path) -> None:
    launch = Launch(tmp_path, "ok")
    with launch.running:
        launch.wait_until_ready()
        [directory] = launch.temporary.iterdir()
        assert directory.stat().st_mode & 0o777 == 0o700
        launch.running.send_signal(signal.SIGTERM)
        assert launch.ended().code == 0
