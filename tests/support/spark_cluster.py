"""A real cluster: a master and two workers as processes of this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.processes import Running, free_port, wait_until

LIMIT = 200
# Small Java machines on a small computer.
JAVA = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "SPARK_DAEMON_MEMORY": "256m",
}
SETTINGS = [
    "spark.driver.host=127.0.0.1",
    "spark.executor.memory=512m",
    "spark.sql.shuffle.partitions=2",
    # As in conftest.py: compiling a query does not pay here.
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.adaptive.enabled=false",
]


def program(name: str) -> str:
    """Return the path of one of Spark's own programs."""
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


@contextmanager
def cluster(work: Path, cores: int) -> Iterator[str]:
    """Yield the URL of a cluster with two workers of so many cores each.

    Args:
        work: a folder for their files.
        cores: those of each worker.
    """
    port = free_port()
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    environment = JAVA | {"PYSPARK_PYTHON": sys.executable}
    deploy = [program("spark-class"), "org.apache.spark.deploy"]
    with ExitStack() as stack:

        def start(kind: str, *words: str) -> Running:
            command = [deploy[0], f"{deploy[1]}.{kind}", *where, *words]
            return stack.enter_context(Running(command, env=environment))

        url = f"spark://127.0.0.1:{port}"
        first = start("master.Master", "--port", str(port))
        wait_until(
            lambda: first.listens_on(port) or first.process.poll() is not None,
            "the master listens",
            LIMIT,
        )
        for number in range(2):
            room = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(work / f"{number}")]
            start("worker.Worker", *room, url)
        yield url
