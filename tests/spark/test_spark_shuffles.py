"""Shuffled bytes, and the number of partitions: both follow the text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.peers import why_missing
from support.spark_events import await_events

if why_missing("spark") is None:
    from bench import spark_costs
    from bench.spark_costs import KINDS, measure, write_run
    from spark_analysis.session import fit_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"


# A pair whose messages are shuffled twice takes more than a byte for each of its text.
@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("receiver alone, v3", 0.0),
        pytest.param("pair with ids, v1, 500/s", 0.8, marks=pytest.mark.slow),
        pytest.param("pair with ids and settlements, v2, 500/s", 0.8, marks=pytest.mark.slow),
        pytest.param("pair without ids, v3, 500/s", 0.8, marks=pytest.mark.slow),
    ],
)
def test_a_message_is_shuffled_once_at_most(
    spark: SparkSession, tmp_path: Path, kind: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = spark_costs.stages

    def of_all_that_ended(session: SparkSession) -> dict[int, tuple[int, int]]:
        await_events(session)
        return stages(session)

    monkeypatch.setattr(spark_costs, "stages", of_all_that_ended)
    files = write_run(tmp_path / "run", 10_000, KINDS[kind])
    text = sum(path.stat().st_size for path in files.paths)
    assert measure(spark, files).shuffled <= most * text


def test_partitions_follow_the_data_unless_somebody_chose(spark: SparkSession) -> None:
    before = spark.conf.get(PARTITIONS)
    try:
        spark.conf.set(PARTITIONS, "200")  # as Spark has it
        found = []
        for parts in (3, 70_000, 1):
            fit_partitions(spark, parts)
            found.append(spark.conf.get(PARTITIONS))
        assert found == ["3", "20000", "1"]
        spark.conf.set(PARTITIONS, "5")
        fit_partitions(spark, 9)
        assert spark.conf.get(PARTITIONS) == "5"
    finally:
        spark.conf.set(PARTITIONS, before)
