"""Two arrows through a server, the same arrows whatever the server, and what the server costs.

Run as a program, it prints one table (ours, the Proton C example broker, ratio):

    python -m bench.through --count 1000000 --rounds 3
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.comparison import Comparison, Figures, rows_of, table
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
    product_command,
    records_directory,
    transferred,
)

# How a server is told where to listen.
ServerLine = Callable[[int], list[str]]


def our_server(port: int) -> list[str]:
    """Return the command line of our server."""
    program = str(ROOT / "impls" / "quiver-server-pyfast")
    where = ["host=127.0.0.1", f"port={port}", "path=q", "ready-file=-", "quiet=1"]
    return [sys.executable, program, *where]


def example_broker(port: int) -> list[str]:
    """Return the command line of the Proton C example broker."""
    return [str(build.broker()), "127.0.0.1", str(port)]


def run_through(server_line: ServerLine, arrow: Command, case: Case) -> Figures:
    """Send a case's messages through a server of their own.

    Returns:
        rate in thousands per second, server_cpu in ns per message, server_rss in MB
        (its peak).

    Raises:
        RunError: a process failed or hung, or records are missing.
    """
    with tempfile.TemporaryDirectory(dir=records_directory()) as scratch:
        port = free_port()
        received = Path(scratch, "received")
        # The example broker ends by the signal itself.
        server = Measured(server_line(port), Path("/dev/null"), (0, -signal.SIGTERM))
        processes = [server]
        try:
            await_ready(server, port)
            for operation, records in (("receive", received), ("send", Path(scratch, "sent"))):
                line = arrow_line(arrow, case, operation, port, through=True)
                processes.append(Measured(line, records))
            await_exit(processes[1:], case.timeout, watched=[server])
            server.process.terminate()
            await_exit([server], 10.0)
        finally:
            for process in processes:
                process.close()
        assert server.side is not None
        count, elapsed = transferred(received, case)
        return {
            "rate": count / elapsed / 1e3,
            "server_cpu": server.side.cpu * 1e9 / count,
            "server_rss": server.side.peak_rss / 1e6,
        }


def main(arguments: Sequence[str]) -> int:
    """Print the table of one comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="messages")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--body-size", type=int, default=100, help="bytes")
    parser.add_argument("--credit", type=int, default=1000, help="messages")
    options = parser.parse_args(arguments)
    case = Case(options.count, body_size=options.body_size, credit=options.credit)
    comparison = Comparison()
    try:
        for _ in range(options.rounds):
            reference = run_through(example_broker, product_command(), case)
            comparison.add(run_through(our_server, product_command(), case), reference)
    except (RunError, build.BuildError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    for line in table(rows_of("through-server", comparison, {})):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
