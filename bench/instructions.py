"""Instructions per message and per record, counted by valgrind, held within 2 %.

Wall clocks of shared machines flake; instruction counts do not. Each workload runs
with N and with 2 N items, and the difference over N is the cost of one item: start-up
and connection cancel out. Only the measured side runs under valgrind, its peer natively.
A start takes 173 million instructions, and some 100,000 more or less each time: N is so large
that this is less than one of an item.

    python -m bench.instructions             compare with bench/instructions.toml
    python -m bench.instructions --update    write the counts of this machine into it

Counts depend on the architecture and on the CPython minor, so baselines are kept by both.
The build of `make dev` is not optimized: it has no baseline, and is compared with itself.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import quiver_fast
from bench import record_workload
from bench.comparison import load_toml
from bench.reference import build
from bench.runner import ROOT, Case, Command, RunError, product_command, run_pair
from bench.through import our_server, run_through

BASELINES = Path(__file__).with_name("instructions.toml")
TOLERANCE = 0.02
MESSAGES = 200_000
RECORDS = 200_000
# The batches of a peer's frames depend on the machine's load, and small batches cost more.
# The run with the largest batches has the fewest instructions.
ARROW_REPEATS = 3


class CountError(Exception):
    """The instructions could not be counted; the message has the reason."""


def valgrind() -> bool:
    """Say whether valgrind is installed."""
    return shutil.which("valgrind") is not None


def _under_valgrind(command: Command, result: Path) -> list[str]:
    # Avoid two sources of variation: hash seeds, and the idle threads of NumPy's OpenBLAS.
    return [
        "env", "PYTHONHASHSEED=0", "OPENBLAS_NUM_THREADS=1",
        "valgrind", "--tool=callgrind", f"--callgrind-out-file={result}", *command,
    ]  # fmt: skip


def _total(result: Path) -> int:
    for line in result.read_text().splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise CountError(f"{result}: callgrind wrote no totals")


def per_item(count_instructions: Callable[[int], int], items: int, repeats: int) -> float:
    """Return the instructions of one item: runs of ``2 * items`` minus runs of ``items``."""
    larger = min(count_instructions(2 * items) for _ in range(repeats))
    smaller = min(count_instructions(items) for _ in range(repeats))
    return (larger - smaller) / items


def per_message(command: Command, peer: Command, operation: str) -> float:
    """Return the instructions that ``command`` spends per 100-byte message.

    Args:
        command: the arrow that is measured.
        peer: the arrow at the other end, run natively.
        operation: ``send`` or ``receive``.
    """

    def count_instructions(messages: int) -> int:
        with tempfile.TemporaryDirectory() as scratch:
            result = Path(scratch, "callgrind")
            measured = _under_valgrind(command, result)
            sender, receiver = (measured, peer) if operation == "send" else (peer, measured)
            run_pair(sender, receiver, Case(messages, timeout=300))
            return _total(result)

    return per_item(count_instructions, MESSAGES, ARROW_REPEATS)


def per_relayed_message(arrow: Command) -> float:
    """Return the instructions that our server spends per 100-byte message, in and out.

    Credit stops the sender after each half of its window, so all batches are equally large.

    Args:
        arrow: both ends, run natively.
    """

    def count_instructions(messages: int) -> int:
        with tempfile.TemporaryDirectory() as scratch:
            result = Path(scratch, "callgrind")
            run_through(
                lambda port: _under_valgrind(our_server(port), result),
                arrow,
                Case(messages, timeout=300),
            )
            return _total(result)

    return per_item(count_instructions, MESSAGES, ARROW_REPEATS)


def per_record(operation: str) -> float:
    """Return the instructions of writing, or of parsing, one received record."""

    def count_instructions(records: int) -> int:
        with tempfile.TemporaryDirectory() as scratch:
            operand = str(records)
            if operation == "parse":
                operand = str(Path(scratch, "transfers.csv"))
                record_workload.write_file(operand, *record_workload.make_times(records))
            return _count_program(["-m", "bench.record_workload", operation, operand])

    return per_item(count_instructions, RECORDS, repeats=1)


def _count_program(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch, "callgrind")
        command = _under_valgrind([sys.executable, *arguments], result)
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if run.returncode != 0:
            raise CountError(f"{shlex.join(command)}: exit code {run.returncode}\n{run.stderr}")
        return _total(result)


@dataclass(frozen=True)
class Count:
    """A counted workload and its baseline, if that is known."""

    name: str
    counted: float
    baseline: float | None

    @property
    def passed(self) -> bool:
        """Whether the count is within the tolerance. A lower one fails too: a stale baseline."""
        if self.baseline is None:
            return False
        return abs(self.counted / self.baseline - 1) <= TOLERANCE

    def __str__(self) -> str:
        if self.baseline is None:
            return f"{self.name:10}{self.counted:>10.1f}{'none':>12}"
        change = self.counted / self.baseline - 1
        verdict = "" if self.passed else "  FAILED"
        return f"{self.name:10}{self.counted:>10.1f}{self.baseline:>12.1f}{change:>+9.2%}{verdict}"


def platform_key() -> str:
    """Name the section of the baselines that belongs to this machine and interpreter."""
    key = f"{platform.machine()}-cpython-{sys.version_info.major}.{sys.version_info.minor}"
    return key if _is_optimized() else f"{key}, built in place without optimization"


def _is_optimized() -> bool:
    """Whether the build is a wheel's: `make dev` builds beside the sources."""
    return not Path(quiver_fast.__file__).is_relative_to(ROOT / "src")


def load_baselines(path: Path = BASELINES) -> dict[str, dict[str, float]]:
    """Return the counts by platform and workload; nothing if there is no file yet."""
    return load_toml(path) if path.is_file() else {}


def save_baselines(baselines: dict[str, dict[str, float]], path: Path = BASELINES) -> None:
    """Write the counts, one section for each platform."""
    lines = [
        "# Instructions per message or record (bench/instructions.py); written by --update.",
        "# send and receive: 100-byte bodies, credit 1000, records of today's revision.",
        "# server: a message from a sender's link to a receiver's, accepted and settled by both.",
    ]
    for key, counts in sorted(baselines.items()):
        lines += ["", f'["{key}"]', *(f"{name} = {count:.1f}" for name, count in counts.items())]
    path.write_text("\n".join(lines) + "\n")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.instructions", description="Count instructions with valgrind."
    )
    parser.add_argument("--update", action="store_true", help="write the baselines")
    parser.add_argument(
        "--only", choices=WORKLOADS, action="append", help="count only this (may be repeated)"
    )
    parser.add_argument(
        "--reference", action="store_true", help="count the C reference's arrow, to look at"
    )
    return parser.parse_args(arguments)


WORKLOADS: dict[str, Callable[[Command, Command], float]] = {
    "send": lambda arrow, peer: per_message(arrow, peer, "send"),
    "receive": lambda arrow, peer: per_message(arrow, peer, "receive"),
    "server": lambda arrow, _peer: per_relayed_message(arrow),
    "write": lambda _arrow, _peer: per_record("write"),
    "parse": lambda _arrow, _peer: per_record("parse"),
}


def _print_reference(peer: Command) -> None:
    for name in ("send", "receive"):
        print(Count(name, per_message(peer, peer, name), None))


def _count_all(names: Sequence[str], known: dict[str, float]) -> list[Count]:
    # The reference is the peer of both sides, because its pace does not change with the product.
    peer = [str(build.build().arrow)]
    counts = []
    for name in names:
        counts.append(Count(name, WORKLOADS[name](product_command(), peer), known.get(name)))
        print(counts[-1], flush=True)
    return counts


def run(options: argparse.Namespace) -> int:
    """Count, and compare with or write the baselines; return the exit code."""
    if not valgrind():
        raise CountError("valgrind is not installed (Debian: valgrind)")
    if options.reference:
        _print_reference([str(build.build().arrow)])
        return 0
    if options.update and not _is_optimized():
        raise CountError("a build in place is not optimized: run the Python of .venv (make test)")
    baselines = load_baselines()
    known = baselines.get(platform_key(), {})
    print(f"{platform_key()}\n{'':10}{'counted':>10}{'baseline':>12}{'change':>9}")
    counts = _count_all(options.only or list(WORKLOADS), known)
    if options.update:
        baselines[platform_key()] = known | {count.name: count.counted for count in counts}
        save_baselines(baselines)
        return 0
    return 0 if all(count.passed for count in counts) or not _is_optimized() else 1


def main(arguments: Sequence[str]) -> int:
    """Run as a program; failures are one line on standard error."""
    try:
        return run(_parse(arguments))
    except (CountError, RunError, build.BuildError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
