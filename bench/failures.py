"""What servers that are killed lose, and how long the gap is: the table of docs/failures.md.

Each run kills the server in the midst of the sending, and starts it again a second later.

    python -m bench.failures [--runs 10] [--kills 1] [--rate 5,000/s] [CASE …]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.runner import free_port

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
CASES = {
    "quiver-server, in memory": ("pyfast", "0"),
    "quiver-server, none": ("pyfast --durability none", "1"),
    "quiver-server, interval:100": ("pyfast --durability interval:100", "1"),
    "quiver-server, group": ("pyfast --durability group", "1"),
    "RabbitMQ 4, classic queue": ("rabbitmq-4", "1"),
    "Artemis": ("activemq-artemis", "1"),
}
"""The server of `--server`, and whether its messages are durable."""
RATES = {"full rate": (), "5,000/s": ("--rate", "5k")}
# Pauses between attempts are part of a gap.
SOON = ("--reconnect", "--reconnect-pause", "10ms,10ms")
# Seconds from kill to kill, and from the start to the first. Brokers take seconds to start.
SPAN, FIRST = 12, 3
COUNTS = ("acknowledged_received", "lost", "in_doubt", "redelivered", "duplicate")


def words_of(server: str, durable: str, rate: tuple[str, ...], kills: int) -> Iterator[str]:
    """Yield the arguments of a run."""
    yield from (f"//127.0.0.1:{free_port()}/failures", "--server", server, *rate, *SOON)
    for number in range(kills):
        yield from ("--fault", f"{FIRST + number * SPAN}s kill 1s")
    yield from (("--durable",) if durable == "1" else ())
    yield from ("--duration", f"{FIRST + kills * SPAN}s", "--json")


def measured(words: Iterator[str]) -> dict[str, Any]:
    """Return the ledger of a run.

    Raises:
        ValueError: the run has none.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [*QUIVER, *words, "--output", str(Path(folder) / "run")]
        end = subprocess.run(command, capture_output=True, text=True, check=False)
    if end.returncode or not end.stdout:
        raise ValueError(f"{' '.join(command)}: {end.stderr.strip()}")
    ledger: dict[str, Any] = json.loads(end.stdout)["ledger"]
    return ledger


def row_of(name: str, rate: str, ledgers: list[dict[str, Any]]) -> str:
    """Return the row of some runs of a case."""
    sums = [f"{sum(one[key] or 0 for one in ledgers):,}" for key in COUNTS]
    gaps = [one["receiver_gap"] for ledger in ledgers for one in ledger["failures"]]
    known = [gap for gap in gaps if gap is not None]
    spread = f"{min(known):.2f} to {max(known):.2f} s" if known else "-"
    middle = f"{statistics.median(known):.2f} s" if known else "-"
    return f"| {name} | {rate} | {len(gaps)} | {' | '.join(sums)} | {middle} | {spread} |"


def main() -> None:
    """Measure the cases, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", metavar="CASE", nargs="*", help=", ".join(CASES))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--rate", choices=[*RATES], action="append")
    args = parser.parse_args()
    print("| server | rate | kills | acknowledged, received | lost | in doubt | redelivered | "
          "duplicate | gap, median | gap, range |")  # fmt: skip
    print(f"|---|---|{'---:|' * 8}")
    for name in args.cases or CASES:
        server, durable = CASES[name]
        for rate in args.rate or RATES:
            runs = [words_of(server, durable, RATES[rate], args.kills) for _ in range(args.runs)]
            print(row_of(name, rate, [measured(words) for words in runs]), flush=True)


if __name__ == "__main__":
    main()
