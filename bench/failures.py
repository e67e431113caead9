"""What servers that are killed lose, and how long the gap is: the table of docs/failures.md.

Each run kills the server in the midst of the sending, and starts it again soon.

    python -m bench.failures [--runs 10] [--kills 1] [--rate 5,000/s] [CASE …]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.runner import free_port

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")


class Case(NamedTuple):
    """A server of ``--server``.

    Attributes:
        server: its name and options.
        durable: the messages are durable.
        span: seconds from kill to kill; a broker of others takes seconds to start.
        variables: of the server's environment.
    """

    server: str
    durable: bool = True
    span: int = 12
    variables: Mapping[str, str] = {}


CASES = {
    "quiver-server, in memory": Case("pyfast", durable=False, span=4),
    "quiver-server, none": Case("pyfast --durability none", span=4),
    "quiver-server, interval:100": Case("pyfast --durability interval:100", span=4),
    "quiver-server, group": Case("pyfast --durability group", span=4),
    "RabbitMQ 4, classic queue": Case("rabbitmq-4"),
    "RabbitMQ 4, quorum queue": Case("rabbitmq-4", variables={"RABBITMQ_QUEUE_TYPE": "quorum"}),
    "Artemis": Case("activemq-artemis"),
}
RATES = {"full rate": (), "5,000/s": ("--rate", "5k")}
# Pauses between attempts are part of a gap.
SOON = ("--reconnect", "--reconnect-pause", "10ms,10ms")
# Seconds from the start to the first kill.
FIRST = 3
COUNTS = ("acknowledged_received", "lost", "in_doubt", "redelivered", "duplicate")


def words_of(case: Case, rate: tuple[str, ...], kills: int) -> Iterator[str]:
    """Yield the arguments of a run."""
    yield from (f"//127.0.0.1:{free_port()}/failures", "--server", case.server, *rate, *SOON)
    for number in range(kills):
        yield from ("--fault", f"{FIRST + number * case.span}s kill 1s")
    yield from (("--durable",) if case.durable else ())
    yield from ("--duration", f"{FIRST + kills * case.span}s", "--json")


def measured(case: Case, rate: tuple[str, ...], kills: int) -> dict[str, Any]:
    """Return the ledger of a run.

    Raises:
        ValueError: the run has none.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [*QUIVER, *words_of(case, rate, kills), "--output", str(Path(folder) / "run")]
        environment = os.environ | case.variables
        end = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
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
        for rate in args.rate or RATES:
            ledgers = [measured(CASES[name], RATES[rate], args.kills) for _ in range(args.runs)]
            print(row_of(name, rate, ledgers), flush=True)


if __name__ == "__main__":
    main()
