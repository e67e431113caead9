"""Two arrows through a server, the same arrows for every server, and the server's cost.

Run as a program, it prints one table (ours, the Proton C example broker, ratio):

    python -m bench.through --count 1000000 --rounds 3
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.comparison import Comparison, Figures, rows_of, table
from bench.reference import build
from bench.runner import (
    ROOT,
    Case,
    Certificate,
    Command,
    Measured,
    RunError,
    Side,
    arrow_line,
    await_exit,
    await_ready,
    free_port,
    latencies,
    percentiles,
    product_command,
    rate_together,
    records_directory,
    transferred,
)

# The command line of a server that listens on a port.
ServerLine = Callable[[int], list[str]]


def our_server(port: int) -> list[str]:
    """Return the command line of our server."""
    program = str(ROOT / "impls" / "quiver-server-pyfast")
    where = ["host=127.0.0.1", f"port={port}", "path=q", "ready-file=-", "quiet=1"]
    return [sys.executable, program, *where]


def our_tls_server(certificate: Certificate) -> ServerLine:
    """Return the command line of our server, which accepts TLS only."""
    words = ["scheme=amqps", f"cert={certificate.cert}", f"key={certificate.key}"]
    return lambda port: [*our_server(port), *words]


def example_broker(port: int) -> list[str]:
    """Return the command line of the Proton C example broker."""
    return [str(build.broker()), "127.0.0.1", str(port)]


def our_trunk(port: int, other: int) -> list[str]:
    """Return the command line of our server, connected to another one."""
    return [*our_server(port), f"connect=127.0.0.1:{other}"]


def run_through(
    server_line: ServerLine, arrow: Command, case: Case, receiver_words: Sequence[str] = ()
) -> Figures:
    """Send a case's messages through a new server.

    Args:
        receiver_words: more of the contract's ``key=value`` for the receiver.

    Returns:
        rate in thousands per second, server_cpu in ns per message, server_rss in MB
        (its peak); under a rate the percentiles of the latency, too.

    Raises:
        RunError: a process failed or hung, or records are missing.
    """
    port = free_port()
    return _run([(port, server_line(port))], arrow, case, receiver_words)


def run_trunk(arrow: Command, case: Case) -> Figures:
    """Send a case's messages through two servers of ours, from one to a consumer of the other.

    Returns:
        as of :func:`run_through`, server_cpu and server_rss of both together.
    """
    near, far = free_port(), free_port()
    return _run([(near, [*our_server(near), "trunks=*"]), (far, our_trunk(far, near))], arrow, case)


def run_queues(arrow: Command, case: Case, queues: int) -> Figures:
    """Run pairs through our server at once, each with a queue of its own.

    Args:
        arrow: the command of both ends.
        case: the workload of each pair.
        queues: the number of pairs.

    Returns:
        as of :func:`run_through`; the rate is of all pairs together, while all receive.
    """
    port = free_port()
    names = [f"q-{number}" for number in range(queues)]
    with tempfile.TemporaryDirectory(dir=records_directory()) as scratch:
        pairs = [(replace(case, queue=name), Path(scratch, name)) for name in names]
        servers = _run_pairs([(port, our_server(port))], arrow, pairs)
        rate = rate_together([received for _, received in pairs], case) / 1e3
        return {"rate": rate} | _cost(servers, queues * case.count)


def _run(
    lines: Sequence[tuple[int, list[str]]],
    arrow: Command,
    case: Case,
    receiver_words: Sequence[str] = (),
) -> Figures:
    """Run servers and one pair."""
    with tempfile.TemporaryDirectory(dir=records_directory()) as scratch:
        received = Path(scratch, "received")
        servers = _run_pairs(lines, arrow, [(case, received)], receiver_words)
        count, elapsed = transferred(received, case)
        found = {"rate": count / elapsed / 1e3} | _cost(servers, count)
        return found | (percentiles(latencies(received), case) if case.rate else {})


def _run_pairs(
    lines: Sequence[tuple[int, list[str]]],
    arrow: Command,
    pairs: Sequence[tuple[Case, Path]],
    receiver_words: Sequence[str] = (),
) -> list[Side]:
    """Run servers, senders to the first of them and receivers from the last.

    Args:
        lines: port and command line of each server.
        arrow: the command of all ends.
        pairs: the workload of each pair, and the file of its receiver's records.
        receiver_words: more of the contract for each receiver.

    Returns:
        the cost of the servers.
    """
    servers: list[Measured] = []
    arrows: list[Measured] = []
    timeout = max(case.timeout for case, _ in pairs)
    try:
        for port, line in lines:
            # The example broker ends by the signal itself.
            servers.append(Measured(line, Path("/dev/null"), (0, -signal.SIGTERM)))
            await_ready(servers[-1], port)
        for case, received in pairs:
            line = arrow_line(arrow, case, "receive", lines[-1][0], through=True)
            arrows.append(Measured([*line, *receiver_words], received))
        for case, received in pairs:
            line = arrow_line(arrow, case, "send", lines[0][0], through=True)
            arrows.append(Measured(line, received.with_suffix(".sent")))
        await_exit(arrows, timeout, watched=servers)
        for server in servers:
            server.process.terminate()
        # Under valgrind an end takes longer, too.
        await_exit(servers, timeout)
    finally:
        for process in (*servers, *arrows):
            process.close()
    return [server.side for server in servers if server.side is not None]


def _cost(servers: Sequence[Side], count: int) -> Figures:
    """Return the figures of servers that moved so many messages."""
    return {
        "server_cpu": sum(side.cpu for side in servers) * 1e9 / count,
        "server_rss": sum(side.peak_rss for side in servers) / 1e6,
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
