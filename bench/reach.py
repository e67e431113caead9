"""Helpers for the table of the reach: busy neighbours, bytes on the wire, peers, memory."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.engine_client import EngineClient

from bench.comparison import Figures
from bench.reference import build
from bench.runner import (
    ROOT,
    Case,
    Command,
    Measured,
    RunError,
    arrow_line,
    await_exit,
    await_ready,
    free_port,
)
from bench.through import ServerLine
from quiver_fast.options.arrow import ARROW_OPTIONS

# Messages through a counting relay: few, because only their bytes count.
COUNTED = 20_000
STALLED = 3
STALLED_BYTES = 100_000_000
# A stream has stalled when its server's memory is constant for so long, in seconds.
STILL = 1.0
STILL_WITHIN = 30.0
BUSY_LINE = (sys.executable, "-c", "while True: pass")


def on_one_cpu(command: Command) -> list[str]:
    """Return a command that may use only one CPU, the same for all commands."""
    return ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run busy processes on every CPU during the block."""
    running = [subprocess.Popen(BUSY_LINE) for _ in range(processes)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
        for one in running:
            one.wait()


def knows_spin() -> bool:
    """Say whether the arrow has the key `spin`."""
    return any(option.name == "spin" for option in ARROW_OPTIONS)


# ---- Bytes of a message on the wire ------------------------------------------


def bytes_on_wire(arrow: Command, case: Case) -> float:
    """Return the bytes of one message of a case, counted between two arrows."""
    first, second = (_bytes_sent(arrow, case, count) for count in (COUNTED, 2 * COUNTED))
    return (second - first) / COUNTED


def _bytes_sent(arrow: Command, case: Case, count: int) -> int:
    counted = Case(count, body_size=case.body_size, credit=case.credit)
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as near:
        arrows = [Measured(arrow_line(arrow, counted, "receive", port), Path("/dev/null"))]
        try:
            await_ready(arrows[0], port)
            relay = CountingRelay(near, port)
            relay.start()
            line = arrow_line(arrow, counted, "send", near.getsockname()[1])
            arrows.append(Measured(line, Path("/dev/null")))
            await_exit(arrows, counted.timeout)
            relay.join()
        finally:
            for one in arrows:
                one.close()
    return relay.forward


class CountingRelay(threading.Thread):
    """Passes one connection on to a port, and counts the bytes of its client."""

    def __init__(self, near: socket.socket, port: int) -> None:
        super().__init__(daemon=True)
        self._near = near
        self._port = port
        self.forward = 0

    def run(self) -> None:
        client, _ = self._near.accept()
        with client, socket.create_connection(("127.0.0.1", self._port)) as server:
            other = {client: server, server: client}
            while other:
                for source in select.select(list(other), [], [])[0]:
                    data = self._read(source)
                    if data and source is client:
                        self.forward += len(data)
                    if data:
                        other[source].sendall(data)
                        continue
                    with contextlib.suppress(OSError):  # that end may be gone before
                        other[source].shutdown(socket.SHUT_WR)
                    del other[source]

    @staticmethod
    def _read(source: socket.socket) -> bytes:
        try:
            return source.recv(1 << 16)
        except ConnectionResetError:
            return b""


# ---- Peers -------------------------------------------------------------------


def run_program(command: Sequence[str]) -> list[str]:
    """Return the words that a reference prints.

    Raises:
        RunError: it failed; the message has the reason.
    """
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RunError(f"{command[0]}: {result.stderr.strip()}")
    return result.stdout.split()


def zmq(program: Path, count: int, size: int) -> Figures:
    """Push and pull through libzmq: rate in k/s, CPU of both in ns per message."""
    return _pair_figures(run_program([str(program), str(count), str(size)]))


def nats(program: Path, count: int, size: int) -> Figures:
    """Publish and subscribe through a new NATS server; results as of `run_through`."""
    port = free_port()
    server = nats_server(port)
    try:
        await_ready(server, port)
        found = _pair_figures(run_program([str(program), str(port), str(count), str(size)]))
        server.sample_memory()
        server.process.terminate()
        await_exit([server], 10.0)
    finally:
        server.close()
    assert server.side is not None
    return {
        "rate": found["rate"],
        "server_cpu": server.side.cpu * 1e9 / count,
        "server_rss": server.side.peak_rss / 1e6,
    }


def nats_server(port: int) -> Measured:
    """Start a NATS server; it exits with 1 after a signal."""
    program = shutil.which("nats-server", path=build.SERVER_PATH)
    assert program is not None
    return Measured([program, "-a", "127.0.0.1", "-p", str(port)], Path("/dev/null"), (0, 1))


def _pair_figures(words: Sequence[str]) -> Figures:
    rate, sender, receiver = map(float, words)
    return {"rate": rate / 1e3, "sender_cpu": sender, "receiver_cpu": receiver}


def rabbitmq_server(port: int) -> list[str]:
    """Return the command line of a RabbitMQ node."""
    program = str(ROOT / "impls" / "quiver-server-rabbitmq")
    where = ["host=127.0.0.1", f"port={port}", "path=q", "ready-file=-", "quiet=1"]
    return [sys.executable, program, *where]


# ---- Memory ------------------------------------------------------------------


def stalled_stream(server_line: ServerLine, arrow: Command) -> Figures:
    """Return the memory of a server for one more stream that nobody reads, in kB.

    The first stream allocates the memory that all share; each has its own connection.
    """
    port = free_port()
    server = Measured(server_line(port), Path("/dev/null"))
    senders: list[Measured] = []
    with contextlib.ExitStack() as stack:
        stack.callback(server.close)
        await_ready(server, port)
        held = [
            _stall(server, port, arrow, f"stalled-{number}", stack, senders)
            for number in range(STALLED + 1)
        ]
    return {"held": (held[-1] - held[0]) / STALLED / 1e3}


def _stall(
    server: Measured,
    port: int,
    arrow: Command,
    address: str,
    stack: contextlib.ExitStack,
    senders: list[Measured],
) -> int:
    """Begin a stream that nobody reads; return the server's memory when it has stalled."""
    consumer = stack.enter_context(EngineClient(port))
    consumer.receiver(address, 1)
    case = Case(1, body_size=STALLED_BYTES, credit=1, streaming=True, time_unit="us", queue=address)
    line = arrow_line(arrow, case, "send", port, through=True)
    senders.append(Measured(line, Path("/dev/null")))
    stack.callback(senders[-1].close)
    return _memory_at_rest(server)


def _memory_at_rest(server: Measured) -> int:
    begin = since = time.monotonic()
    server.sample_memory()
    last = server.rss[-1]
    while time.monotonic() - since < STILL:
        if time.monotonic() - begin > STILL_WITHIN:
            raise RunError(f"its memory does not come to rest: {server.name}")
        time.sleep(0.05)
        server.sample_memory()
        if server.rss[-1] != last:
            last, since = server.rss[-1], time.monotonic()
    return last
