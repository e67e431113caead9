"""The hosts of a fleet as processes of this machine: tasks are played here, without Spark."""

from __future__ import annotations

import argparse
import json
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from support.processes import wait_until
from support.server import Server, running_server

from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.fleet.fleet import Fleet
from quiver_fast.cli.fleet.remote import Channel, HostJob, jobs_of
from quiver_fast.cli.pair.ends_plan import EndsPlans
from quiver_fast.cli.pair.options import measuring_parser
from quiver_fast.wall_clock import wall_base
from spark_analysis.task_line import job_text

HOST = (sys.executable, "-m", "quiver_fast.cli.fleet.host", str(wall_base()))
SECONDS = 100
TOKEN = "0123456789abcdef" * 2


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


class Hosts:
    """A command and the tasks of its hosts."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        args = measuring_parser().parse_args(words, argparse.Namespace(verbose=False))
        plans = EndsPlans(args, share_processes=False)
        where = listener.getsockname()
        self.jobs = jobs_of(plans, 2, TOKEN, where, str(folder))
        self.address: tuple[str, int] = where
        self.signals = SignalWatch()
        self.fleet = Fleet(self.signals, listener)
        self.fleet.expect(self.jobs, plans.drain_timeout)
        self.tasks = [self._task(job) for job in self.jobs]
        self.folder = folder

    @staticmethod
    def _task(job: HostJob) -> subprocess.Popen[bytes]:
        task = subprocess.Popen(HOST, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert task.stdin is not None
        task.stdin.write(job_text(pickle.dumps(job)))
        task.stdin.flush()
        return task

    def start(self) -> None:
        """Do what the tasks do: all are ready, and get the time to start."""
        answers = []
        for task in self.tasks:
            assert task.stdout is not None
            self.until(lambda: len(self.fleet.hosts) == self.fleet.connected)
            answers.append(json.loads(task.stdout.readline()))
        peers = {n: ("127.0.0.1", port) for one in answers for n, port in one["ports"].items()}
        at = max(one["now"] for one in answers) + 10**8
        for task in self.tasks:
            assert task.stdin is not None
            task.stdin.write(json.dumps({"start": {"at": at, "peers": peers}}).encode() + b"\n")
            task.stdin.flush()

    def until(self, condition) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline
            self.fleet.poll()
            time.sleep(0.02)

    def reasons(self) -> set[str | None]:
        return {
            outline["reason"]
            for host in self.fleet.hosts
            for outline in (host.outlines or {}).values()
        }

    def sends(self) -> bool:
        return sum(file.stat().st_size > 500 for file in self.records("sender")) == 2

    def records(self, role: str) -> list[Path]:
        return list(self.folder.glob(f"*/host.*/{role}.*-transfers.csv"))

    def ids(self, role: str) -> set[str]:
        lines = [line for file in self.records(role) for line in file.read_text().splitlines()]
        return {line.partition(",")[0] for line in lines}


@contextmanager
def hosts(folder: Path, *words: str) -> Iterator[Hosts]:
    with ExitStack() as stack:
        found = Hosts(folder, list(words))
        stack.callback(found.fleet.close)
        for task in found.tasks:
            stack.enter_context(task)
            stack.callback(task.kill)
        yield found


def words(server: Server, *more: str) -> list[str]:
    url = f"//127.0.0.1:{server.port}/fleet"
    return [url, "--senders", "2", "--receivers", "2", "--record-format", "v2", *more]


def test_receivers_of_two_hosts_share_a_queue(server: Server, tmp_path: Path) -> None:
    """They end when they have, together, what both senders sent."""
    with hosts(tmp_path, *words(server, "--count", "3001")) as found:
        found.start()
        found.until(lambda: found.fleet.all_ended)
        counts = {end.title: end.count for end in found.fleet.ends}
    assert (counts["sender 0"], counts["sender 1"]) == (1501, 1500)
    assert counts["receiver 0"] + counts["receiver 1"] == 3001
    assert [host.lost for host in found.fleet.hosts] == [None, None]
    assert found.reasons() == {None}


def test_peer_to_peer_each_sender_has_the_next_hosts_receiver(tmp_path: Path) -> None:
    with hosts(tmp_path, "--senders", "2", "--count", "3001", "--record-format", "v2") as found:
        found.start()
        found.until(lambda: found.fleet.all_ended)
    of_hosts = [{end.title: end.count for end in host.ends} for host in found.fleet.hosts]
    assert of_hosts == [
        {"receiver 0": 1501, "sender 1": 1500}, {"receiver 1": 1500, "sender 0": 1501},
    ]  # fmt: skip


def test_a_task_that_is_gone_ends_its_arrows_in_order(server: Server, tmp_path: Path) -> None:
    """Spark kills a task without a word; the host's process notices, and tells the command."""
    with hosts(tmp_path, *words(server, "--duration", "100s", "--rate", "500")) as found:
        found.start()
        found.until(found.sends)
        assert found.tasks[1].stdin is not None
        found.tasks[1].stdin.close()
        found.until(lambda: found.fleet.hosts[1].outlines is not None)
        assert "stopped because its Spark task ended" in found.reasons()
        found.fleet.stop_all("enough")
        found.until(lambda: found.fleet.all_ended)
    assert "enough" in found.reasons()


def test_a_host_that_dies_is_lost_and_the_others_end(server: Server, tmp_path: Path) -> None:
    with hosts(tmp_path, *words(server, "--duration", "100s", "--rate", "500")) as found:
        found.start()
        found.until(found.sends)
        children = psutil.Process(found.tasks[0].pid).children()
        found.tasks[0].kill()
        for child in children:
            child.kill()
        found.until(lambda: found.fleet.all_ended)
    lost, other = found.fleet.hosts
    assert lost.lost == "its connection ended"
    assert other.lost is None
    assert found.reasons() == {f"stopped because {lost.title} was lost"}


def test_ctrl_c_ends_the_senders_first(server: Server, tmp_path: Path) -> None:
    """Nothing stays on its way, and each receipt has the record of its send."""
    with hosts(tmp_path, *words(server, "--duration", "100s", "--rate", "500")) as found:
        found.start()
        found.until(found.sends)
        found.signals.signum, found.signals.count = signal.SIGINT, 1
        found.until(lambda: found.fleet.all_ended)
    assert found.reasons() == {"interrupted by SIGINT"}
    assert found.ids("sender") == found.ids("receiver")


def test_arrows_end_when_the_command_is_gone(server: Server, tmp_path: Path) -> None:
    with hosts(tmp_path, *words(server, "--duration", "100s", "--rate", "500")) as found:
        found.start()
        found.until(found.sends)
        found.fleet.close()
        for task in found.tasks:
            assert task.wait(SECONDS) == 0


def test_nobody_else_is_taken_for_a_host(server: Server, tmp_path: Path) -> None:
    """Not without the token, and no host a second time: a load is never repeated."""
    with hosts(tmp_path, *words(server, "--count", "1000")) as found:
        found.until(lambda: found.fleet.connected == 2)
        for token, number in (("wrong", 0), (TOKEN, 0), (TOKEN, 7), (TOKEN, "0")):
            other = Channel(socket.create_connection(found.address))
            other.send(kind="hello", token=token, number=number, name="stranger")
            found.until(lambda other=other: other.received() == [] and other.closed)
        found.start()
        found.until(lambda: found.fleet.all_ended)
    assert "stranger" not in {host.name for host in found.fleet.hosts}
    assert [host.lost for host in found.fleet.hosts] == [None, None]


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with hosts(tmp_path, "//127.0.0.1:1/q", "--senders", "2", "--receivers", "2") as found:
        found.until(lambda: found.fleet.all_ended)
        wait_until(lambda: all(task.poll() == 0 for task in found.tasks), "hosts have ended", 60)
    assert any("Connection refused" in (reason or "") for reason in found.reasons())
