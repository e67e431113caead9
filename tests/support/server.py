"""Our server, or a launcher of another, as the test's own process: on loopback, on a free port."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from quiver_fast.proton.info import engine_version
from support.processes import START_SECONDS, Finished, Running, free_port, wait_until

END_SECONDS = 10.0
OURS = "quiver_fast.server.main"


def command(
    port: int | str, ready_file: Path | str = "-", *, module: str = OURS, **keys: object
) -> list[str]:
    """Return the server's command line.

    Args:
        port: Port to listen on.
        ready_file: The file that gets the line `ready`.
        module: The module to run.
        keys: Keys to change or add, with `_` for `-`; None leaves a key out.
    """
    values: dict[str, object] = {
        "host": "127.0.0.1",
        "port": port,
        "path": "queue0",
        "ready-file": ready_file,
        "quiet": 1,
    }
    values.update({name.replace("_", "-"): value for name, value in keys.items()})
    words = [f"{key}={value}" for key, value in values.items() if value is not None]
    return [sys.executable, "-m", module, *words]


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    running: Running
    killed: list[bool] = field(default_factory=list)
    end_seconds: float = END_SECONDS

    @property
    def process(self) -> psutil.Process:
        """The process, to look at its memory, descriptors and CPU time."""
        return psutil.Process(self.running.process.pid)

    def end(self, number: signal.Signals = signal.SIGTERM) -> Finished:
        """Tell the server to end and return its result."""
        self.running.send_signal(number)
        return self.running.wait(self.end_seconds)

    def kill(self) -> None:
        """Kill the server; its context accepts that."""
        self.killed.append(True)
        self.running.process.kill()
        self.running.process.wait()


def looking_for_leaks() -> dict[str, str]:
    """Return the variables that make a server check for leaks at its end, if its build can."""
    options = os.environ.get("QUIVER_FAST_LEAKS")
    return {} if options is None else {"ASAN_OPTIONS": options}


def is_ready(ready_file: Path) -> bool:
    """Tell whether the server has said that it accepts connections."""
    return ready_file.exists() and ready_file.read_text() == "ready\n"


def engine_is_old() -> bool:
    """Say whether the system's engine is in use, and older than the one that we bundle."""
    return tuple(map(int, engine_version().split(".")[:2])) < (0, 40)


@contextlib.contextmanager
def running_server(
    directory: Path,
    *,
    port: int = 0,
    says: str | None = "",
    start_seconds: float = START_SECONDS,
    end_seconds: float = END_SECONDS,
    environment: dict[str, str] | None = None,
    descriptors: int = 0,
    address_space: int = 0,
    **keys: object,
) -> Iterator[Server]:
    """Run a server until the end of the block, which it must reach alive or killed by the test.

    Args:
        directory: The folder of its ready file.
        port: Port to listen on; 0 for a free one.
        says: The required standard error; by default it must be empty, with None it may be any.
        start_seconds: The limit of its start.
        end_seconds: The limit of its end.
        environment: Variables besides those inherited.
        descriptors: How many it may have; 0 for as many as the test has.
        address_space: The bytes that it may map; 0 for any number. Builds that look for leaks
            map terabytes, and have no limit.
        keys: As of `command`.
    """
    port = port or free_port()
    ready_file = directory / f"ready-{port}"
    # One that was killed on this port left its own.
    ready_file.unlink(missing_ok=True)
    words = command(port, ready_file, **keys)  # type: ignore[arg-type]
    if descriptors:
        words = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *words]
    if address_space and not looking_for_leaks():
        words = ["sh", "-c", f'ulimit -v {address_space // 1024}; exec "$@"', "sh", *words]
    with Running(words, env={**looking_for_leaks(), **(environment or {})}) as running:
        wait_until(
            lambda: running.process.poll() is not None or is_ready(ready_file),
            "the server is ready",
            start_seconds,
        )
        assert running.process.poll() is None, running.wait()
        server = Server(port, running, end_seconds=end_seconds)
        yield server
        if running.process.poll() is None:
            end = server.end()
            assert end.code == 0, end
            assert says is None or (says in end.stderr if says else end.stderr == ""), end
        elif not server.killed:
            # A test that ended it on purpose has judged its result; a crash is a failure.
            assert running.process.returncode >= 0, f"the server crashed: {running.wait()}"


@contextlib.contextmanager
def connected(directory: Path, **keys: object) -> Iterator[tuple[Server, Server]]:
    """Run two servers, the second connected to the first."""
    with (
        running_server(directory, trunks="second;engine-client") as first,
        running_server(
            directory, container_id="second", trunks="engine-client",
            connect=f"127.0.0.1:{first.port}", **keys,
        ) as second,
    ):  # fmt: skip
        yield first, second
