"""The distributed answers are the local engine's, whatever the splits cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.peers import why_missing
from support.record_files import Traffic, write_pair

from quiver_fast.analysis.delivery import reconcile
from quiver_fast.analysis.distribution import Distribution
from quiver_fast.analysis.latency import exact_latency
from quiver_fast.analysis.series import per_second
from quiver_fast.analysis.settlement import settlement_latency
from quiver_fast.records.parser import read_transfers

if why_missing("spark") is None:
    from spark_analysis import transforms
    from spark_analysis.delivery import delivery
    from spark_analysis.reading import read_records
    from spark_analysis.splits import discover

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from quiver_fast.records.transfers import Transfers

COUNT = 20_000
RANKS = (0, 25, 50, 75, 90, 99, 99.9, 99.99, 99.999, 100)
CASES = [("v1", "ms"), ("v2", "us"), ("v3", "ms"), ("v3", "ns")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run of every format and several units, by its name."""
    top = tmp_path_factory.mktemp("runs")
    folders = {}
    for seed, (record_format, unit) in enumerate(CASES):
        folder = top / f"{record_format}-{unit}"
        write_pair(folder, Traffic(seed, COUNT, unit=unit), record_format)
        folders[f"{top.name}/{folder.name}"] = folder
    return folders


@pytest.fixture(scope="module")
def records(spark: SparkSession, runs: dict[str, Path]) -> DataFrame:
    """Records of all runs in one job, read in splits that cut lines anywhere."""
    top = next(iter(runs.values())).parent
    return read_records(spark, discover([str(top)]), split_size=223_457).cache()


@pytest.fixture(scope="module")
def histogram(records: DataFrame) -> DataFrame:
    return transforms.histograms(records).cache()


def ends(folder: Path) -> tuple[Transfers, Transfers]:
    return (
        read_transfers(folder / "sender-transfers.csv"),
        read_transfers(folder / "receiver-transfers.csv"),
    )


def latencies(folder: Path) -> tuple[Distribution, str]:
    receiver = ends(folder)[1]
    assert receiver.received is not None
    return Distribution.of_differences(receiver.received, receiver.sent), receiver.time_unit


def by_run(table: DataFrame) -> dict[str, Row]:
    rows = table.collect()
    found = {row.run: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_percentiles_are_bit_for_bit(histogram: DataFrame, runs: dict[str, Path]) -> None:
    rows = by_run(transforms.percentiles(histogram, RANKS))
    assert rows.keys() == runs.keys()
    for run, folder in runs.items():
        distribution, unit = latencies(folder)
        assert rows[run].percentiles == distribution.percentiles(RANKS)
        assert (rows[run].arrow, rows[run].unit) == ("receiver", unit)


def test_moments(histogram: DataFrame, runs: dict[str, Path]) -> None:
    rows = by_run(transforms.moments(histogram))
    for run, folder in runs.items():
        row, expected = rows[run], exact_latency(*latencies(folder))
        assert (row["count"], row.negative) == (expected["count"], expected["negative"])
        assert row.negative > 0
        assert row.mean == pytest.approx(expected["mean"], rel=1e-12)
        assert row.stddev == pytest.approx(expected["stddev"], rel=1e-9)


def test_series(histogram: DataFrame, runs: dict[str, Path]) -> None:
    rows = transforms.series(histogram).orderBy("second").collect()
    for run, folder in runs.items():
        receiver = ends(folder)[1]
        expected = per_second(receiver.received, receiver.sent, receiver.time_unit)
        found = {name: [row[name] for row in rows if row.run == run] for name in expected}
        assert found == expected


def test_send_counts_and_extents(records: DataFrame, runs: dict[str, Path]) -> None:
    counts = transforms.send_counts(records).orderBy("second").collect()
    extents = {(row.run, row.role): row for row in transforms.extents(records).collect()}
    for run, folder in runs.items():
        sender, receiver = ends(folder)
        expected = per_second(sender.sent, None, sender.time_unit)
        assert [row.second for row in counts if row.run == run] == expected["second"]
        assert [row.n for row in counts if row.run == run] == expected["count"]
        for role, times in (("sender", sender.sent), ("receiver", receiver.received)):
            row = extents[run, role]
            assert (row.n, row["first"], row["last"]) == (len(times), times[0], times[-1])


def test_delivery(records: DataFrame, runs: dict[str, Path]) -> None:
    rows = by_run(delivery(records))
    for run, folder in runs.items():
        expected = reconcile(*ends(folder))
        assert rows[run].by_ids == (expected.pop("method") == "ids")
        assert {name: rows[run][name] for name in expected} == expected
        assert min(expected["lost"], expected["reordered"], expected["foreign"]) > 0


def test_settlement(records: DataFrame, runs: dict[str, Path]) -> None:
    residuals = transforms.settlement_residuals(records).cache()
    settled = transforms.settlement_histograms(records, residuals).cache()
    every = by_run(transforms.percentiles(settled, RANKS))
    sampled = by_run(transforms.percentiles(settled.where("sampled"), RANKS))
    others = by_run(transforms.unsettled(residuals))
    for run, folder in runs.items():
        expected = settlement_latency(ends(folder)[0])
        if expected is None:
            assert run not in every.keys() | others.keys()
            continue
        assert every[run].percentiles == list(expected["all"]["percentiles"].values())
        assert sampled[run].percentiles == list(expected["sampled"]["percentiles"].values())
        assert others[run].unsettled == expected["unsettled"]
        assert others[run].unmatched == expected["unmatched"]
    # Some settlements are in another split than their sends; most are not.
    assert COUNT // 1000 < residuals.count() < COUNT // 10
