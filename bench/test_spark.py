"""Spark: the full summary of a file against Spark's own CSV reader making its histogram."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench

if importlib.util.find_spec("pyspark") is None:
    pytest.skip(
        "PySpark is not installed: pip install 'quiver-fast[spark]'", allow_module_level=True
    )

from bench import spark_rates
from spark_analysis.java import why_java_is_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(600), pytest.mark.benchmark(timer=RATIO_CLOCK)]

RECORDS = 30_000_000  # 840 MB


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    missing = why_java_is_missing()
    if missing is not None:
        pytest.skip(missing)
    session = spark_rates.session()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("spark") / "receiver-transfers.csv"
    spark_rates.write_records(path, RECORDS)
    yield path
    path.unlink()


def test_summary_against_sparks_csv_reader(
    bench: Bench, spark: SparkSession, records: Path
) -> None:
    def figures(action: Callable[[SparkSession, Path], int]) -> Figures:
        return {"records": RECORDS / spark_rates.seconds(action, spark, records) / 1e6}

    for action in (spark_rates.summarise, spark_rates.count_csv):
        assert action(spark, records) == RECORDS  # and both are warm
    bench.interleave(
        "summary-spark-csv",
        "records",
        lambda: figures(spark_rates.summarise),
        lambda: figures(spark_rates.count_csv),
    )
