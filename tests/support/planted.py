"""Causes that a test plants: a throttled process, a longer path, a neighbour on all cores."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

CHUNK = 65536
PERIOD_US = 100_000
_GROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def throttled(processes: Sequence[psutil.Process], share: float) -> Iterator[None]:
    """Let processes have a share of one core, by a control group of version 1 or 2."""
    old = _GROUPS / "cpu"
    root = old if old.is_dir() else _GROUPS
    group, quota = root / f"planted-{os.getpid()}", round(PERIOD_US * share)
    try:
        group.mkdir()
        if root is old:
            (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
            (group / "cpu.cfs_quota_us").write_text(f"{quota}")
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
    except OSError as error:
        pytest.skip(f"this system lets nobody throttle a process: {error}")
    try:
        for process in processes:
            (group / "cgroup.procs").write_text(f"{process.pid}")
        yield
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (root / "cgroup.procs").write_text(pid)
        group.rmdir()


@contextlib.contextmanager
def neighbour() -> Iterator[None]:
    """Keep all cores busy, twice over."""
    words = [sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(words) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


class Relay:
    """A path to a server of this host: each byte comes ``delay`` seconds later, both ways."""

    def __init__(self, target: int, delay: float) -> None:
        self.port = 0
        self._target, self._delay = target, delay
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        self.port = server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._carry(reader, ours), self._carry(theirs, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                self._loop.call_later(self._delay, writer.write, data)
        self._loop.call_later(self._delay, writer.close)
