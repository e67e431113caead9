"""A check, before the work begins, that the Python of each executor has all packages."""

from __future__ import annotations

import importlib
import json
import socket
import sys
import zipimport
from collections.abc import Callable, Sequence

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast import __version__
from quiver_fast.errors import QuiverError

_PACKAGES = ("fsspec", "numpy", "pandas", "pyarrow", "zstandard")
# More rows than any cluster has cores, so that every task has one.
_ROWS = 4096


def check_executors(spark: SparkSession) -> None:
    """See to it that executors can run the analysis; nothing to do on this machine alone.

    One task for each core asks. Executors that come later are not asked.

    Raises:
        QuiverError: some cannot; the line says which, and what they lack.
        PySparkException: Spark failed.
    """
    master = spark.conf.get("spark.master", "") or ""
    if master.startswith("local") and not master.startswith("local-cluster") and not _remote(spark):
        return
    here = sys.modules[__name__]
    # An executor without this package cannot find the function by its name.
    cloudpickle.register_pickle_by_value(here)  # type: ignore[no-untyped-call]
    try:
        # Arrow is one of the things that may be missing.
        ask = F.udf(_asked(__version__, _PACKAGES), "string", useArrow=False)
        rows = spark.range(0, _ROWS).select(ask("id").alias("answer")).collect()
    finally:
        cloudpickle.unregister_pickle_by_value(here)  # type: ignore[no-untyped-call]
    answers = [json.loads(text) for text in sorted({row.answer for row in rows})]
    wrong = [f"on {where}: {', '.join(problems)}" for where, problems in answers if problems]
    if wrong:
        raise QuiverError(f"executors lack packages of the analysis: {'; '.join(wrong)}")


def _remote(spark: SparkSession) -> bool:
    return "connect" in type(spark).__module__


def _asked(version: str, packages: Sequence[str]) -> Callable[[int], str]:
    answers: list[str] = []

    def ask(_row: int) -> str:
        """Answer once in each process, and then repeat the answer."""
        if not answers:
            where = f"{socket.gethostname()} ({sys.executable})"
            answers.append(json.dumps([where, lacking(version, packages)]))
        return answers[0]

    return ask


def lacking(version: str, packages: Sequence[str]) -> list[str]:
    """Return in a few words each package that this Python lacks.

    Args:
        version: the quiver-fast that it must have.
        packages: other packages that it must have.
    """
    missing = []
    for name in packages:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(f"no {name}")
    return [*_quiver_fast_lacks(version, loads=not missing), *missing]


def _quiver_fast_lacks(version: str, *, loads: bool) -> list[str]:
    """Look at its compiled modules too, if the packages that they import are there."""
    try:
        package = importlib.import_module("quiver_fast")
    except ImportError:
        return ["no quiver-fast"]
    if package.__version__ != version:
        return [f"quiver-fast {package.__version__} where the driver has {version}"]
    if type(package.__loader__) is zipimport.zipimporter:
        return ["quiver-fast is in an archive, from which no compiled module loads"]
    try:
        if loads:
            importlib.import_module("spark_analysis.record_rows")
    except ImportError as error:
        return [f"quiver-fast does not load ({error})"]
    return []
