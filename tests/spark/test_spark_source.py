"""The data source as Spark's own are: filters, columns, limits of a stream, bad lines, options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.peers import why_missing
from support.record_files import Traffic, receiver_lines, write, write_pair
from support.spark_events import patiently

if why_missing("spark") is None:
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.errors import PySparkException

    from spark_analysis import schema
    from spark_analysis.session import reason
    from spark_analysis.source import QuiverSource, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 3000
UNFILTERED = "every row"


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the source in it, and once more without filters handed over."""

    class Unfiltered(QuiverSource):
        @classmethod
        def name(cls) -> str:
            return UNFILTERED

    register(spark)
    spark.dataSource.register(Unfiltered)
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, of v2 and v3, with a bad line in one."""
    top = tmp_path_factory.mktemp("source")
    for number, record_format in enumerate(("v2", "v3")):
        write_pair(top / f"run{number}", Traffic(number, COUNT, rate=200), record_format)
    with (top / "run1" / "receiver-transfers.csv").open("a") as lines:
        lines.write("no record\n")
    return top


def read(spark: SparkSession, path: Path, name: str = "quiver", **options: Any) -> DataFrame:
    return spark.read.format(name).options(**options).load(str(path))


def filters(rows: DataFrame) -> list[str]:
    """Return the steps of the plan in which Spark itself looks at rows."""
    plan = str(rows._jdf.queryExecution().executedPlan().toString())
    return [line for line in plan.splitlines() if line.strip(" +-:*(1)").startswith("Filter")]


MIDDLE = 1_700_000_007_000
CONDITIONS = [
    "kind = 'transfer'",
    "kind in ('settled', 'bad') and role = 'sender'",
    "run like '%run1' and kind <> 'transfer'",
    f"received >= {MIDDLE} and received < {MIDDLE + 1000} and arrow = 'receiver'",
    f"not (sent < {MIDDLE})",
    "sampled = true",
    "sampled in (false)",
    "id is null and received is not null",
    "id not in (3, 4)",
    "text = 'no record'",
    "unit = 'us'",
    "kind = 'transfer' and kind = 'bad'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_filters_leave_the_rows_that_spark_would(
    source: SparkSession, runs: Path, condition: str
) -> None:
    columns = sorted(schema.RECORDS.names)
    found, expected = (
        read(source, runs, name).where(condition).select(*columns).toArrow().to_pylist()
        for name in ("quiver", UNFILTERED)
    )
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_filters_are_the_sources(source: SparkSession, runs: Path) -> None:
    """Spark does not repeat pushed filters, and files without such rows are not read."""
    top = runs.name
    chosen = read(source, runs).where(f"run = '{top}/run0' and role = 'sender' and sent > 5")
    assert not filters(chosen)
    assert chosen.rdd.getNumPartitions() == 1
    assert read(source, runs, UNFILTERED).rdd.getNumPartitions() == 4
    left = read(source, runs).where("arrow like '%r'")
    assert filters(left)


def test_a_schema_chooses_columns(source: SparkSession, runs: Path) -> None:
    rows = source.read.schema("run string, n bigint").format("quiver").load(str(runs / "run1"))
    total = rows.groupBy("run").agg(F.sum("n").alias("n")).collect()
    whole = read(source, runs / "run1").agg(F.sum("n")).collect()
    assert [(row.run, row.n) for row in total] == [("run1", whole[0][0])]
    only = source.read.schema("run string").format("quiver").load(str(runs / "run1"))
    assert only.count() == read(source, runs / "run1").count()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("run string, rum string", "the schema has a column 'rum'; records have file, kind, "),
        ("run string, n int", "the column 'n' is bigint, not int"),
        ("n bigint, id bigint not null", "the column 'id' may be null"),
    ],
)
def test_a_wrong_schema_is_one_line(
    source: SparkSession, runs: Path, columns: str, said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        source.read.schema(columns).format("quiver").load(str(runs)).count()
    assert reason(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"splitSize": "abc"}, "the option 'splitSize' is a number from 1 on, not 'abc'"),
        ({"splitSize": "-1"}, "the option 'splitSize' is a number from 1 on, not '-1'"),
        ({"maxFilesPerTrigger": "0"}, "the option 'maxFilesPerTrigger' is a number from 1"),
        ({"mode": "LAX"}, "the option 'mode' is PERMISSIVE, FAILFAST or DROPMALFORMED, not 'LAX'"),
        ({"splitsize": "1", "spiltSize": "1"}, "the source 'quiver' has no option 'spiltsize'"),
    ],
)
def test_a_wrong_option_is_one_line(
    source: SparkSession, runs: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        read(source, runs, **options)
    assert reason(caught.value).startswith(said)


def test_paths_are_a_list(source: SparkSession) -> None:
    for text in ("[1]", "{}", "runs"):
        with pytest.raises(PySparkException) as caught:
            source.read.format("quiver").option("paths", text).load()
        assert reason(caught.value) == "the option 'paths' is a list of strings in JSON"


def test_bad_lines_by_mode(source: SparkSession, runs: Path) -> None:
    kinds = {
        mode: {row.kind for row in read(source, runs / "run1", mode=mode).collect()}
        for mode in ("permissive", "DROPMALFORMED")
    }
    assert kinds["permissive"] - kinds["DROPMALFORMED"] == {"bad"}
    with pytest.raises(PySparkException) as caught:
        read(source, runs / "run1", mode="FAILFAST").where("kind = 'transfer'").count()
    path = runs / "run1" / "receiver-transfers.csv"
    assert reason(caught.value).startswith(f"{path}: line ")
    assert reason(caught.value).endswith(" is no record: no record")
    assert read(source, runs / "run0", mode="FAILFAST").count() > 0


def batches(source: SparkSession, folder: Path, **options: Any) -> list[dict[str, int]]:
    """Follow ``folder`` to its end; return the lines of each file in each batch."""
    found: list[dict[str, int]] = []

    def take(rows: DataFrame, _number: int) -> None:
        lines = rows.where("kind = 'extent'").groupBy("arrow").agg(F.sum("n").alias("n"))
        found.append({row.arrow: row.n for row in lines.collect()})

    rows = source.readStream.format("quiver").options(**options)
    rows = rows.option("paths", json.dumps([str(folder)])).load()
    checkpoint = folder.parent / f"checkpoint-{len(options)}-{sorted(options)}"
    query = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    patiently(lambda: query.trigger(availableNow=True).start().awaitTermination())
    return found


def test_limits_of_a_stream(source: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    lines = receiver_lines(Traffic(1, 200), "v3")
    for name in ("a", "b", "c"):
        write(folder / f"{name}-transfers.csv", lines)
    size = (folder / "a-transfers.csv").stat().st_size
    whole = {name: len(lines) for name in ("a", "b", "c")}
    assert batches(source, folder) == [whole]
    one_each = batches(source, folder, maxFilesPerTrigger="1")
    assert one_each == [{name: len(lines)} for name in ("a", "b", "c")]
    halves = batches(source, folder, maxBytesPerTrigger=str(size // 2 + 50))
    assert len(halves) > 3
    assert {name: sum(one.get(name, 0) for one in halves) for name in whole} == whole
    both = batches(source, folder, maxFilesPerTrigger="2", maxBytesPerTrigger=str(2 * size))
    assert both == [{"a": len(lines), "b": len(lines)}, {"c": len(lines)}]


def test_a_limit_below_a_line(source: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write(folder / "a-transfers.csv", receiver_lines(Traffic(1, 3), "v3")[:3])
    assert batches(source, folder, maxBytesPerTrigger="1") == [{"a": 1}] * 3
