"""Whatever call fails: no crash, nothing that was accepted is lost, and the next start works.

As SQLite's tests do it: the same short workload again and again, and each time the next
call of a kind fails, until all of them had their turn. CI takes some of the numbers
(QUIVER_FAST_FAULTS=1 takes all).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.durable_client import DurableClient
from support.faults import Faults, Kind
from support.preload import compile_preload
from support.processes import Finished, Running, free_port, wait_until
from support.server import command, is_ready, running_server

from tests.faults.workload import Account, run_workload

# Each workload makes queues, which are synced: where there is one, a disk of memory.
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
# Workloads with a fault that one server sees before it is ended and its files are judged.
BATCH = 8
# Every so many-th number is tried; in the short form one in the middle of a start, and a batch.
STEP = int(os.environ.get("QUIVER_FAST_FAULTS", "0"))
PATIENCE = 60.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("nth_call.c")
    return compile_preload(source, tmp_path_factory.mktemp("faults"))


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


class Faulty:
    """Servers over one store, of whose calls some fail."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.faults = Faults(folder, library)
        self.store = folder / "store"
        self.port, self.csp_port = free_port(), free_port()

    def command(self) -> list[str]:
        (self.folder / "ready").unlink(missing_ok=True)
        return command(
            self.port, self.folder / "ready", store=self.store, durability="group",
            csp_port=self.csp_port, path="q",
        )  # fmt: skip

    def arm_start(self, kind: Kind, number: int) -> None:
        """Have a call of the next start fail, of those since the store was first looked into."""
        self.faults.arm(kind, number, path=str(self.store))

    @contextmanager
    def started(self) -> Iterator[Running]:
        """Start a server, and go on when it is ready or has ended."""
        with Running(self.command(), env=self.faults.environment) as running:
            wait_until(
                lambda: running.process.poll() is not None or is_ready(self.folder / "ready"),
                "the server is ready", PATIENCE,
            )  # fmt: skip
            yield running

    def judge(self, accounts: list[Account]) -> None:
        """Start a server without faults, and see that all is there that must be."""
        self.faults.disarm()
        with self.started() as running:
            assert running.process.poll() is None, running.wait()
            with DurableClient(self.port) as client:
                for account in accounts:
                    account.judge(*map(client.drain, account.queues))
            running.send_signal(signal.SIGTERM)
            ended = running.wait()
        assert (ended.code, ended.stderr) == (0, "")
        for account in accounts:
            account.judge_entries(self.store)


def check_words(ended: Finished) -> None:
    """A fault is told in one line each, and nothing else is."""
    for line in ended.stderr.splitlines():
        assert re.match(r"quiver-server-pyfast: .", line), ended.stderr


def run_batch(faulty: Faulty, kind: Kind, numbers: list[int], *, lasting: bool) -> bool:
    """Try these numbers on one server; say whether the last was beyond all calls."""
    accounts = []
    beyond = False
    with faulty.started() as running:
        for number in numbers:
            faulty.faults.arm(kind, number, lasting=lasting)
            account = run_workload(faulty.port, faulty.csp_port, f"{kind.name}-{number}-{lasting}")
            beyond = faulty.faults.failed == 0
            faulty.faults.disarm()
            accounts.append(account)
            assert running.process.poll() is None, (number, running.wait())
            assert account.whole or not beyond, f"{account}, and nothing failed"
            if beyond:
                break
        # A failure of one queue does not affect others.
        after = run_workload(faulty.port, faulty.csp_port, f"{kind.name}-{numbers[0]}-after")
        assert after.whole, f"{after} after {kind.name} {numbers}"
        accounts.append(after)
        running.send_signal(signal.SIGTERM if numbers[0] % 2 else signal.SIGKILL)
        ended = running.wait()
    check_words(ended)
    assert ended.code in (0, 1, -signal.SIGKILL), ended
    faulty.judge(accounts)
    return beyond


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Account]]:
    """A store whose server was killed, and what must be in it."""
    folder = tmp_path_factory.mktemp("left")
    store = folder / "store"
    port, csp_port = free_port(), free_port()
    keys = {"store": store, "durability": "group", "csp_port": csp_port, "path": "q"}
    with running_server(folder, port=port, **keys) as server:
        accounts = [run_workload(port, csp_port, f"before-{number}") for number in range(2)]
        server.kill()
    assert all(account.whole for account in accounts)
    return store, accounts


def run_start(faulty: Faulty, left: tuple[Path, list[Account]], kind: Kind, number: int) -> int:
    """Start a server of which a call fails, and judge; return how many calls there were."""
    store, accounts = left
    shutil.rmtree(faulty.store, ignore_errors=True)
    shutil.copytree(store, faulty.store)
    faulty.arm_start(kind, number)
    with faulty.started() as running:
        seen, failed = faulty.faults.seen, faulty.faults.failed
        faulty.faults.disarm()
        is_up = running.process.poll() is None
        if is_up:
            running.send_signal(signal.SIGTERM)
        ended = running.wait()
    check_words(ended)
    assert is_up or failed, f"no call failed, but: {ended}"
    assert is_up or (ended.code == 1 and ended.stderr), ended
    faulty.judge(accounts)
    return seen


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.timeout(3600)
def test_start(folder: Path, library: Path, left: tuple[Path, list[Account]], kind: Kind) -> None:
    """A server that cannot start says why, and has changed nothing for the worse."""
    faulty = Faulty(folder, library)
    calls = run_start(faulty, left, kind, 0)
    print(f"{kind.name}: {calls} calls in a start")
    first = 1 if STEP else calls // 2 + 1
    for number in range(first, calls + 1, STEP or calls):
        run_start(faulty, left, kind, number)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.timeout(3600)
def test_workload(folder: Path, library: Path, kind: Kind, lasting: bool) -> None:
    faulty = Faulty(folder, library)
    with faulty.started() as running:
        faulty.faults.arm(kind, 0)
        assert run_workload(faulty.port, faulty.csp_port, "count").whole
        calls = faulty.faults.seen
        running.process.kill()
        running.wait()
    print(f"{kind.name}: {calls} calls in the workload")
    step = STEP or max(1, calls // BATCH + 1)
    first = 1
    beyond = False
    while not beyond:
        numbers = list(range(first, first + BATCH * step, step))
        beyond = run_batch(faulty, kind, numbers, lasting=lasting) or (
            STEP == 0 and numbers[-1] > calls
        )
        first = numbers[-1] + step
