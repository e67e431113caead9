"""The cost of an analysis on Spark: shuffled bytes, tasks, and memory.

    python -m bench.spark_costs [MESSAGES] [WORD...]

Runs of one, three and ten times MESSAGES (100,000): a receiver alone, pairs with and without ids
at a low rate (each message has its own time), one with settled sends and one with ids that
are no numbers, a receiver alone with ids, a pair without ids at a high rate, and runs without
ids with a clock of microseconds, in which nearly all latencies differ. WORDs select the runs by
name. Bytes, tasks and rows are Spark's own counts of its stages, so they are the same on a busy
machine; ``worker`` is the largest of Spark's Python processes, sampled ten times a second.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from pyspark.sql import SparkSession

from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.sources import Wanted
from spark_analysis.backend import load_run
from spark_analysis.session import make_session

# More than one, as in a large run: with one partition Spark leaves some shuffles out.
PARTITIONS = 8
START = 1_700_000_000
TICKS = {"ms": 1_000, "us": 1_000_000}
LOOK_SECONDS = 0.1
SETTLED_LATER = 100


@dataclass
class Kind:
    """A kind of run: messages per second, the fields of its records, and its clock.

    ``id_prefix`` makes ids that are no numbers. A send is settled ``SETTLED_LATER`` sends later.
    """

    rate: int
    ids: bool
    pair: bool
    unit: str = "ms"
    id_prefix: str = ""
    settled: bool = False


KINDS = {
    "receiver alone, v3": Kind(20_000, ids=False, pair=False),
    "pair with ids, v1, 500/s": Kind(500, ids=True, pair=True),
    "pair with ids and settlements, v2, 500/s": Kind(500, ids=True, pair=True, settled=True),
    "pair with ids that are no numbers, 500/s": Kind(500, ids=True, pair=True, id_prefix="m-"),
    "receiver alone with ids, v1, 500/s": Kind(500, ids=True, pair=False),
    "pair without ids, v3, 500/s": Kind(500, ids=False, pair=True),
    "pair without ids, v3, 20,000/s": Kind(20_000, ids=False, pair=True),
    "receiver alone, v3, in us": Kind(20_000, ids=False, pair=False, unit="us"),
    "pair without ids, v3, 1,000,000/s, in us": Kind(1_000_000, ids=False, pair=True, unit="us"),
}

_NAMES = "\n".join(KINDS)


@dataclass
class Cost:
    """The cost of an analysis's stages."""

    shuffled: int = 0
    tasks: int = 0
    seconds: float = 0.0
    worker: int = 0


def write_run(folder: Path, count: int, kind: Kind) -> RunFiles:
    """Write the records of ``count`` messages, one in 1,000 late."""
    random, ticks, ids = np.random.default_rng(count), TICKS[kind.unit], kind.ids
    sent = START * ticks + np.arange(count) * ticks // kind.rate
    took = 1 + (random.exponential(ticks / 500, count)).astype(np.int64)
    received = np.maximum.accumulate(sent + took) if kind.unit == "ms" else sent + took
    order = np.arange(count)
    late = random.random(count) < 0.001
    order = order[np.argsort(order + np.where(late, 40, 0), kind="stable")]
    folder.mkdir()
    receiver, sender = folder / "receiver-transfers.csv", folder / "sender-transfers.csv"
    # A record without an id begins with its time.
    names = [f"{kind.id_prefix}{number}," if ids else "" for number in range(count)]
    with receiver.open("w") as file:
        for number, time_sent, time_received in zip(
            order.tolist(), sent[order].tolist(), received.tolist(), strict=True
        ):
            file.write(f"{names[number]}{time_sent},{time_received}\n")
    if not kind.pair:
        return RunFiles("run", receiver=receiver)
    with sender.open("w") as file:
        for number, time_sent in enumerate(sent.tolist()):
            file.write(f"{names[number]}{time_sent}\n" if ids else f"{time_sent},0\n")
            if kind.settled and number >= SETTLED_LATER:
                file.write(f"s{names[number - SETTLED_LATER]}{time_sent}\n")
    return RunFiles("run", sender=sender, receiver=receiver)


def stages(spark: SparkSession) -> dict[int, tuple[int, int]]:
    """Return the bytes written for shuffles and the tasks of every stage, by its number."""
    context = spark.sparkContext
    gateway = context._gateway
    quantiles, states = gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()
    each = (
        context._jsc.sc().statusStore().stageList(None, False, False, quantiles, states).iterator()
    )
    found = {}
    while each.hasNext():
        stage = each.next()
        found[stage.stageId()] = stage.shuffleWriteBytes(), stage.numCompleteTasks()
    return found


@contextmanager
def largest_worker(cost: Cost) -> Iterator[None]:
    done = threading.Event()

    def look() -> None:
        while not done.wait(LOOK_SECONDS):
            for child in psutil.Process().children(recursive=True):
                try:
                    if "python" in child.name():
                        cost.worker = max(cost.worker, child.memory_info().rss)
                except psutil.Error:
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def measure(spark: SparkSession, files: RunFiles) -> Cost:
    cost, before = Cost(), max(stages(spark), default=-1)
    started = time.perf_counter()
    with largest_worker(cost):
        load_run(spark, files, lambda _done, _total: None, Wanted())
    cost.seconds = time.perf_counter() - started
    # Stages that another job had done already have no tasks.
    for number, (shuffled, tasks) in stages(spark).items():
        if number > before:
            cost.shuffled += shuffled
            cost.tasks += tasks
    return cost


def row(text: int, cost: Cost) -> str:
    return (
        f"{text / 1e6:8.1f} MB text {cost.shuffled / 1e6:8.2f} MB shuffled"
        f" {cost.shuffled / text:8.4f} {cost.tasks:5} tasks"
        f" {cost.worker / 2**20:6.0f} MB worker {cost.seconds:6.1f} s"
    )


def main(arguments: list[str]) -> None:
    if arguments and not arguments[0].isdigit():
        sys.exit(f"usage: python -m bench.spark_costs [MESSAGES] [WORD...]; the kinds:\n{_NAMES}")
    base = int(arguments[0]) if arguments else 100_000
    words = arguments[1:] or [""]
    spark = make_session("local[2]", PARTITIONS, conf={"spark.ui.retainedStages": "100000"})
    chosen = {name: kind for name, kind in KINDS.items() if any(word in name for word in words)}
    for name, kind in chosen.items():
        for times in (1, 3, 10):
            with tempfile.TemporaryDirectory(prefix="quiver-bench-") as folder:
                files = write_run(Path(folder, "run"), base * times, kind)
                text = sum(path.stat().st_size for path in files.paths)
                cost = measure(spark, files)
            print(f"{name:42}{times:4}x {row(text, cost)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
