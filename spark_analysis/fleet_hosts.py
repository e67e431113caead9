"""The barrier stages of `quiver-fleet`: a task for each host, all at once.

A task starts the process that runs the arrows. By allGather
the tasks agree on the start, and peer-to-peer they learn where receivers listen.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from pyspark import RDD, BarrierTaskContext
from pyspark.resource import ResourceProfile, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from quiver_fast.errors import QuiverError
from quiver_fast.own_process import own_command, own_environment
from quiver_fast.wall_clock import WallClock
from spark_analysis.host_clock import ClockServer, Offset, measure_offset
from spark_analysis.task_line import job_text

# From the agreement to the start. A task asks once a second whether the others are ready: it may
# learn of the last one a second late.
_LEAD_NS = 2_000_000_000
_LOCAL = "local["


class Executor:
    """An executor, as the driver knows it."""

    def __init__(self, name: str, place: str, cores: int) -> None:
        self.name, self.cores = name, cores
        self.host = place.rpartition(":")[0]


def executors_of(spark: SparkSession) -> list[Executor]:
    """Return the executors that there are; with ``local[N]`` the driver is the only one."""
    store = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    every = [store.apply(number) for number in range(store.size())]
    found = [Executor(one.id(), one.hostPort(), one.totalCores()) for one in every]
    local = [one for one in found if one.name == "driver"]
    return [one for one in found if one.name != "driver"] or local


def one_to_each(spark: SparkSession) -> ResourceProfile | None:
    """Return the resources with which an executor has one task at a time; None by default."""
    sc = spark.sparkContext
    cores = min((one.cores for one in executors_of(spark)), default=1)
    if str(sc.master).startswith(_LOCAL) or cores <= int(sc.getConf().get("spark.task.cpus", "1")):
        return None
    builder = ResourceProfileBuilder().require(TaskResourceRequests().cpus(cores))
    profile: ResourceProfile = builder.build
    return profile


def run_hosts(spark: SparkSession, jobs: Sequence[bytes], module: str) -> list[dict[str, Any]]:
    """Run a job on each host, in a process of ``module``; return the answer of each task.

    Raises:
        PySparkException: a task or an executor was lost.
    """
    found: list[dict[str, Any]] = _barrier(spark, jobs, partial(_run_host, module)).collect()
    return sorted(found, key=lambda one: int(one["number"]))


def on_every_executor(
    spark: SparkSession, work: Callable[[BarrierTaskContext], Iterable[Any]]
) -> list[Any]:
    """Return the results of ``work`` in a task on each executor, all at once."""

    def task(_rows: Iterable[bytes]) -> Iterable[Any]:
        return work(BarrierTaskContext.get())

    count = len(executors_of(spark))
    found: list[Any] = _barrier(spark, [b""] * count, task).collect()
    return found


def _barrier(
    spark: SparkSession, rows: Sequence[bytes], task: Callable[[Iterable[bytes]], Iterable[Any]]
) -> RDD[Any]:
    tasks = spark.sparkContext.parallelize(rows, len(rows))
    profile = one_to_each(spark)
    if profile is not None:
        tasks = tasks.withResources(profile)
    return tasks.barrier().mapPartitions(task)


def _run_host(module: str, rows: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Run the job of one host: the work of a barrier task."""
    context = BarrierTaskContext.get()
    number = context.partitionId()
    hosts = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
    (job,) = rows
    # This host has one clock for everything, so that its offset holds for the whole run.
    own = WallClock()
    server = ClockServer(own.now_ns)
    with _HostProcess(module, job, own) as process:
        clock = hosts[0], _gathered(context, server.port)[0]
        before = _offset(clock, number, own)
        ready = process.answer("ready", "failed", "done")
        mine = {"ports": ready.get("ports"), "now": own.now_ns() + _shift(before)}
        everyone = _gathered(context, mine)
        process.say(start=_start(everyone, hosts, before))
        done = process.answer("failed", "done")
        _gathered(context, None)
        after = _offset(clock, number, own)
        # The host that tells the time stays until all have asked it.
        _gathered(context, None)
    server.close()
    yield {
        "number": number,
        "address": hosts[number],
        "offsets": [None if one is None else asdict(one) for one in (before, after)],
        "failed": ready.get("failed") or done.get("failed"),
    }


def _gathered(context: BarrierTaskContext, mine: Any) -> list[Any]:
    return [json.loads(text) for text in context.allGather(json.dumps(mine))]


def _offset(clock: tuple[str, int], number: int, own: WallClock) -> Offset | None:
    """Return how far the clock of host 0 is ahead; None where it cannot be reached."""
    if number == 0:
        return Offset(0, 0)
    try:
        return measure_offset(clock, own.now_ns)
    except OSError:
        return None


def _shift(offset: Offset | None) -> int:
    return 0 if offset is None else offset.nanoseconds


def _start(
    everyone: Sequence[dict[str, Any]], hosts: Sequence[str], offset: Offset | None
) -> dict[str, Any] | None:
    """Return when to start by our own clock, and where receivers listen; None if one is not ready.

    The time is agreed by the clock of host 0.
    """
    if any(one["ports"] is None for one in everyone):
        return None
    at = max(one["now"] for one in everyone) + _LEAD_NS
    peers = {
        number: (host, port)
        for one, host in zip(everyone, hosts, strict=True)
        for number, port in one["ports"].items()
    }
    return {"at": at - _shift(offset), "peers": peers}


class _HostProcess:
    """The process of a host, from the view of its task."""

    def __init__(self, module: str, job: bytes, clock: WallClock) -> None:
        # Its standard error is a file: nobody reads a pipe while the task waits in a barrier.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        self._process = subprocess.Popen(
            [*own_command(module), str(clock.base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=own_environment(),
            start_new_session=True,
        )
        self._write(job_text(job))

    def __enter__(self) -> _HostProcess:
        return self

    def __exit__(self, *_exception: object) -> None:
        # The end of its standard input ends the process in order.
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._errors.close()

    def say(self, **document: Any) -> None:
        self._write(json.dumps(document).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        if self._process.stdin is None:
            raise RuntimeError("the process has no standard input")
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except OSError:
            pass  # It has ended: its answer says why.

    def answer(self, *names: str) -> dict[str, Any]:
        """Return the next answer that has one of ``names``; it waits for it."""
        if self._process.stdout is None:
            raise RuntimeError("the process has no standard output")
        for line in self._process.stdout:
            found: dict[str, Any] = json.loads(line)
            if found.keys() & set(names):
                return found
        self._errors.seek(0)
        words = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        why = words[-1] if words else "no word of why"
        raise QuiverError(f"the process that runs a host's arrows ended: {why}")
