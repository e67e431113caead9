"""The distributed answers are the local engine's, whatever the splits cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
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
    from pyspark.sql import DataFrame, SparkSession

COUNT = 20_000
RANKS = (0, 25, 50, 75, 90, 99, 99.9, 99.99, 99.999, 100)
CASES = [("v1", "ms"), ("v2", "us"), ("v3", "ms"), ("v3", "ns")]


def case_name(case: tuple[str, str]) -> str:
    return "-".join(case)


@pytest.fixture(scope="module", params=CASES, ids=case_name)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    record_format, unit = request.param
    folder = tmp_path_factory.mktemp("runs") / "run"
    write_pair(folder, Traffic(1, COUNT, unit=unit), record_format)
    return folder


@pytest.fixture(scope="module")
def records(spark: SparkSession, pair: Path) -> DataFrame:
    """Records read in splits that cut lines anywhere."""
    return read_records(spark, discover([str(pair)]), split_size=123_457).cache()


def receiver(pair: Path) -> Any:
    return read_transfers(pair / "receiver-transfers.csv")


def sender(pair: Path) -> Any:
    return read_transfers(pair / "sender-transfers.csv")


def test_percentiles_are_bit_for_bit(records: DataFrame, pair: Path) -> None:
    [row] = transforms.percentiles(transforms.histograms(records), RANKS).collect()
    local = receiver(pair)
    expected = Distribution.of_differences(local.received, local.sent).percentiles(RANKS)
    assert row.percentiles == expected
    assert (row.run, row.arrow, row.unit) == ("run", "receiver", local.time_unit)


def test_moments(records: DataFrame, pair: Path) -> None:
    [row] = transforms.moments(transforms.histograms(records)).collect()
    local = receiver(pair)
    latencies = Distribution.of_differences(local.received, local.sent)
    expected = exact_latency(latencies, local.time_unit)
    assert (row["count"], row.negative) == (expected["count"], expected["negative"])
    assert row.negative > 0
    assert row.mean == pytest.approx(expected["mean"], rel=1e-12)
    assert row.stddev == pytest.approx(expected["stddev"], rel=1e-9)


def test_series(records: DataFrame, pair: Path) -> None:
    rows = transforms.series(transforms.histograms(records)).orderBy("second").collect()
    local = receiver(pair)
    expected = per_second(local.received, local.sent, local.time_unit)
    assert {name: [row[name] for row in rows] for name in expected} == expected


def test_send_counts(records: DataFrame, pair: Path) -> None:
    rows = transforms.send_counts(records).orderBy("second").collect()
    local = sender(pair)
    expected = per_second(local.sent, None, local.time_unit)
    assert [row.second for row in rows] == expected["second"]
    assert [row.n for row in rows] == expected["count"]


def test_extents(records: DataFrame, pair: Path) -> None:
    rows = {row.role: row for row in transforms.extents(records).collect()}
    for role, times in (("sender", sender(pair).sent), ("receiver", receiver(pair).received)):
        row = rows[role]
        assert (row.n, row.first, row.last) == (len(times), times[0], times[-1])


def test_delivery(records: DataFrame, pair: Path) -> None:
    [row] = delivery(records).collect()
    expected = reconcile(sender(pair), receiver(pair))
    found = {name: row[name] for name in expected if name != "method"}
    assert found == {name: value for name, value in expected.items() if name != "method"}
    assert row.by_ids == (expected["method"] == "ids")
    assert min(found["lost"], found["duplicate"], found["reordered"], found["foreign"]) > 0


def test_settlement(records: DataFrame, pair: Path) -> None:
    expected = settlement_latency(sender(pair))
    residuals = transforms.settlement_residuals(records)
    histogram = transforms.settlement_histograms(records, residuals)
    if expected is None:
        assert histogram.count() == 0
        assert residuals.count() == 0
        return
    for name, chosen in (("all", histogram), ("sampled", histogram.where("sampled"))):
        [row] = transforms.percentiles(chosen, RANKS).collect()
        assert row.percentiles == list(expected[name]["percentiles"].values())
    [row] = transforms.unsettled(residuals).collect()
    assert (row.unsettled, row.unmatched) == (expected["unsettled"], expected["unmatched"])
    # Some settlements are in another split than their sends; most are not.
    assert COUNT // 1000 < residuals.count() < COUNT // 4


def test_zstd_frames_give_the_same(spark: SparkSession, pair: Path, tmp_path: Path) -> None:
    """Frames that end anywhere, a skippable one among them, several to a split."""
    text = (pair / "receiver-transfers.csv").read_bytes()
    parts = [text[start : start + 50_021] for start in range(0, len(text), 50_021)]
    frames = [zstandard.compress(part) for part in parts]
    frames.insert(3, b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"index")
    (tmp_path / "receiver-transfers.csv.zst").write_bytes(b"".join(frames))
    records = read_records(spark, discover([str(tmp_path)]), split_size=123_457)
    assert records.select("split").distinct().count() > 2
    [row] = transforms.percentiles(transforms.histograms(records), RANKS).collect()
    local = receiver(pair)
    assert row.percentiles == Distribution.of_differences(local.received, local.sent).percentiles(RANKS)
    [total] = transforms.extents(records).collect()
    assert (total.n, total.first, total.last) == (len(local), local.received[0], local.received[-1])
