"""Our server for minutes at full rate: its memory and descriptors must stay flat.

    python -m bench.soak [--seconds 600] [--rate 50000]

Arrows send and receive for the whole time, while other connections come, attach, hold
messages and are killed. Fails if the server has more memory or descriptors at the end than
after it had settled, or if a receiver misses a message.

Without a rate the sender may be faster than the receiver. Then the queue is at its limit and
needs memory, and only the end, when it is empty, is compared with the beginning. With a
rate at which the receiver keeps up nothing should queue, so memory must not grow at any
time after it has settled.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.runner import (
    Case,
    Measured,
    RunError,
    arrow_line,
    await_exit,
    await_ready,
    free_port,
    product_command,
    records_directory,
    transferred,
)
from bench.through import our_server

# Time for buffers, pools and spare entries to settle.
SETTLE_SECONDS = 10.0
GROWTH = 1.05
# Memory that the server may keep after the machine stalled and messages queued up.
HICCUP = 4_000_000
CHURN_PERIOD = 0.05
# Protocol header, open, begin, and an attach of a consumer of the queue "churn" (parts 2.7
# and 3.5.3), in the smallest form.
GREETING = bytes.fromhex(
    "414d515000010000"
    "0000001502000000005310c00801a105636875726e"
    "0000001402000000005311c007044043527f527f"
    "0000002a02000000005312c01d07a105636875726e43414040005328c00801a105636875726e00532945"
)


class UnsoundError(Exception):
    """The server grew or lost something."""


@contextlib.contextmanager
def churn(port: int) -> Iterator[None]:
    """Open and cut connections again and again, from a child process."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
                one.sendall(GREETING)
                one.recv(64)
                time.sleep(CHURN_PERIOD)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def descriptors(server: Measured) -> int:
    """Return how many descriptors the server has open."""
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def soak(seconds: int, rate: int = 0) -> str:
    """Run it and return one line of figures; a rate of 0 means full speed.

    Raises:
        RunError: a process failed or hung.
        UnsoundError: memory or descriptors grew, or messages are missing.
    """
    case = Case(0, duration=seconds, rate=rate, timeout=seconds + 60.0)
    with tempfile.TemporaryDirectory(dir=records_directory()) as scratch:
        port = free_port()
        server = Measured(our_server(port), Path("/dev/null"))
        processes = [server]
        received, sent = Path(scratch, "received"), Path(scratch, "sent")
        try:
            await_ready(server, port)
            with churn(port):
                return _watch(case, server, processes, port, received, sent)
        finally:
            for process in processes:
                process.close()


def _watch(
    case: Case, server: Measured, processes: list[Measured], port: int, received: Path, sent: Path
) -> str:
    command = product_command()
    # The receiver stops a little later, with the queue empty.
    for operation, records, extra in (("receive", received, 3), ("send", sent, 0)):
        line = arrow_line(command, case, operation, port, through=True)
        duration = f"duration={case.duration + extra}"
        line = [duration if word.startswith("duration=") else word for word in line]
        processes.append(Measured(line, records))
    time.sleep(SETTLE_SECONDS)
    server.sample_memory()
    settled, opened = server.rss[-1], descriptors(server)
    await_exit(processes[1:], case.timeout, watched=[server])
    peak = max(server.rss)
    time.sleep(1.0)
    server.sample_memory()
    final, left = server.rss[-1], descriptors(server)
    server.process.send_signal(signal.SIGTERM)
    await_exit([server], 10.0)
    count, elapsed = transferred(received, case)
    with sent.open("rb") as stream:
        wanted = sum(1 for _ in stream)
    line = (
        f"{count} messages in {elapsed:.0f} s, {count / elapsed / 1e3:.0f} k/s; "
        f"memory {settled / 1e6:.1f}, at most {peak / 1e6:.1f}, -> {final / 1e6:.1f} MB, "
        f"descriptors {opened} -> {left}"
    )
    if count != wanted:
        raise UnsoundError(f"{wanted} messages were sent, {count} came: {line}")
    most, slack = (max(peak, final), HICCUP) if case.rate else (final, 0)
    if most > settled * GROWTH + slack or left > opened + 2:
        raise UnsoundError(f"the server grew: {line}")
    return line


def main(arguments: Sequence[str]) -> int:
    """Run a soak and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--rate", type=int, default=0, help="messages a second (0: all it can)")
    options = parser.parse_args(arguments)
    try:
        print(soak(options.seconds, options.rate))
    except (RunError, UnsoundError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
