"""The backend `spark` gives the same results as the local backend, for any splits."""

from __future__ import annotations

import json
import shutil
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from support.compressed import FORMS
from support.golden import GOLDEN, expected, golden_run, told
from support.peers import why_missing
from support.record_files import (
    Traffic,
    receiver_lines,
    sender_lines,
    with_streams,
    write,
    write_pair,
)
from support.spark_runs import as_json, comparable, ignore, the_run
from support.summaries import config as configured

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.analysis.read.sources import load_run as load_here
from quiver_fast.analysis.tables.latencies import COARSE_BINS
from quiver_fast.cli.analyze.command import main as quiver_analyze
from quiver_fast.errors import RecordError

if why_missing("spark") is None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from spark_analysis import batch_job, digests, record_rows
    from spark_analysis.backend import load_run
    from spark_analysis.batch_job import analyze
    from spark_analysis.files import splits_of
    from spark_analysis.session import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quiver_fast.analysis.read.discovery import RunFiles
    from spark_analysis.files import RecordFile, Split

# Holds what the local backend says of a run to what was put into its records.
Judge = Callable[[dict[str, Any]], None]

COUNT = 20_000
SPLIT = 223_457
MANY = 20
MINUTE = 60_000


def crowd(traffic: Traffic) -> None:
    """Let half of the messages be sent in one millisecond: the rows of one key."""
    first, last = traffic.sent[COUNT // 4], traffic.sent[3 * COUNT // 4]
    for times in (traffic.sent, traffic.stamps):
        times[(times >= first) & (times <= last)] = first


def check(spark: SparkSession, run: RunFiles, split_size: int = SPLIT) -> dict[str, Any]:
    """Hold equal all that users of a run find in it; return the local backend's."""
    here = load_here(run, ignore)
    there = load_run(spark, run, ignore, Wanted(0.001, 2, histogram=True), split_size)
    fields = [name for name in comparable(here) if name != "settlement"]
    expected = {name: comparable(getattr(here, name)) for name in fields}
    assert {name: comparable(getattr(there, name)) for name in fields} == expected
    assert comparable(there.statistics) == comparable(run_statistics(here, 0.001, 2))
    assert comparable(there.figures) == comparable(run_figures(here))
    return expected


def bad_lines(traffic: Traffic, record_format: str) -> list[str]:
    """Return lines of a receiver with a time too large or in another unit."""
    sent = int(traffic.sent[5])
    other = sent * 1000 if traffic.unit == "ms" else sent // 1000
    times = [f"{sent},{2**63}\n", f"{sent},{other}\n", f"{other},{other}\n"]
    if record_format == "v3":
        return times
    return [f"5,{line}" for line in times]


def faults(folder: Path, record_format: str, unit: str, seed: int) -> Judge:
    """A pair with every fault."""
    traffic = Traffic(seed, COUNT, unit=unit)
    if (record_format, unit) == ("v3", "ms"):
        crowd(traffic)
    write_pair(folder, traffic, record_format)
    if record_format != "v1":
        for path in folder.iterdir():
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(with_streams(lines, traffic)))
    bad = bad_lines(traffic, record_format)
    with (folder / "receiver-transfers.csv").open("a") as file:
        file.write("".join([*bad, "not a record\n1,2,3,4\n17"]))

    def judge(found: dict[str, Any]) -> None:
        delivery = found["delivery"]
        assert min(delivery[name] for name in ("unreceived", "reordered", "older")) > 0
        assert found["receiver"]["records"]["malformed"] == len(bad) + 2
        assert "2^63" in found["receiver"]["records"]["first_malformed"]["fault"]
        assert found["receiver"]["records"]["truncated"]
        assert ("settlement" in found["sender"]) == (record_format == "v2")
        for end in ("sender", "receiver"):
            assert ("streaming" in found[end]) == (record_format != "v1")

    return judge


def add_strangers(folder: Path, traffic: Traffic, record_format: str) -> None:
    """Let others' messages be received: from before, in another unit, and meanwhile."""
    path = folder / "receiver-transfers.csv"
    lines = path.read_text().splitlines(keepends=True)
    first, middle = int(traffic.sent[0]), int(traffic.received[COUNT // 2])
    times = [(first - n, first + n) for n in range(1, 400)]
    times += [(first * 1000 + n, first + n) for n in range(300)]
    foreign = [(middle + 1_000_000 + n, middle + n // 50) for n in range(0, 2000, 2)]
    ids = range(10**6, 10**7)
    old, new = (
        [
            f"{number},{sent},{received}\n" if record_format == "v1" else f"{sent},{received}\n"
            for number, (sent, received) in zip(ids, part, strict=False)
        ]
        for part in (times, foreign)
    )
    path.write_text("".join([*old, *lines[: COUNT // 2], *new, *lines[COUNT // 2 :], *new[:70]]))


def write_summaries(folder: Path, **config: Any) -> None:
    moment = {"boot": "b", "ns": 2, "senders_ended": False}
    sent, got = {"settled_at": moment, "rejected": 0}, {"drained_at": moment, "rejected": 3}
    for role, report in (("sender", sent), ("receiver", got | {"released": 11})):
        asked = configured(credit_window=100, **config)
        document = {"config": asked, "complete": True, "arrow": report}
        (folder / f"{role}-summary.json").write_text(json.dumps(document))


def strangers(folder: Path, record_format: str) -> Judge:
    """Messages of others, and a drain."""
    traffic = Traffic(8, COUNT, rate=4000)
    # The last two thousand messages come late.
    traffic.received[-2000:] += 3500
    write_pair(folder, traffic, record_format)
    add_strangers(folder, traffic, record_format)
    write_summaries(folder, duration=5, count=0)

    def judge(found: dict[str, Any]) -> None:
        delivery, sections = found["delivery"], found["sections"]
        assert delivery["older"] == 399 + 300 + 2
        assert delivery["foreign"] == 1070
        assert delivery["lost"] == delivery["unreceived"] > 0
        assert sections["drain"]["messages"] > 1000
        assert sections["drain"]["seconds"] > 3
        assert sections["queue_growth"]["messages"] > 1000

    return judge


def set_back(folder: Path, record_format: str, ends: str = "both") -> Judge:
    """The clock of both ends is set back by a minute, in the midst of the run."""
    traffic = Traffic(13, COUNT)
    middle = traffic.sent[COUNT // 2]
    for times in (traffic.sent, traffic.stamps, traffic.received, traffic.settle):
        times[times >= middle] -= MINUTE
    write_pair(folder, traffic, record_format)
    left = [end for end in ("sender", "receiver") if ends in (end, "both")]
    for end in {"sender", "receiver"}.difference(left):
        (folder / f"{end}-transfers.csv").unlink()

    def judge(found: dict[str, Any]) -> None:
        for end in ("sender", "receiver"):
            assert end not in left or 0 < MINUTE - found[end]["records"]["set_back_ms"] < 100
        if ends == "both":
            assert found["delivery"]["older"] == 0
            assert found["delivery"]["unreceived"] < COUNT // 500

    return judge


def warmed_up(folder: Path, record_format: str) -> Judge:
    """A pair with a warm-up, and a sender that missed its rate."""
    write_pair(folder, Traffic(11, COUNT, rate=4000), record_format)
    write_summaries(folder, duration=5, count=0, warmup=2, rate=5000)

    def judge(found: dict[str, Any]) -> None:
        for end in ("sender", "receiver"):
            warmup, results = found[end]["warmup"], found[end]["results"]
            assert 7900 < warmup["message_count"] < 8100
            assert abs(warmup["message_count"] + results["message_count"] - COUNT) < 100
        assert found["delivery"]["sent"] == COUNT
        assert found["sender"]["schedule"]["never_sent"] == 25_000 - COUNT
        assert found["receiver"]["latency"]["with_never_sent"]["never_sent"] == 25_000 - COUNT

    return judge


def known_start(folder: Path, record_format: str) -> Judge:
    """A receiver alone that knows when its run began."""
    write_pair(folder, Traffic(9, COUNT // 4), record_format)
    (folder / "sender-transfers.csv").unlink()
    write_summaries(folder, duration=5, count=0, run_start=1_700_000_000_100)

    def judge(found: dict[str, Any]) -> None:
        assert found["delivery"]["older"] > 1000
        assert found["delivery"]["told_apart_by"] == "run start"
        assert found["receiver"]["records"]["malformed"] == 0

    return judge


def in_frames(folder: Path, record_format: str) -> Judge:
    """A receiver alone, compressed."""
    folder.mkdir()
    traffic = Traffic(5, COUNT // 2)
    lines = with_streams(receiver_lines(traffic, record_format), traffic)
    path = folder / "receiver-transfers.csv.zst"
    path.write_bytes(zstandard.compress("".join([*lines, "junk\n"]).encode()))

    def judge(found: dict[str, Any]) -> None:
        assert found["delivery"]["reordered"] > 0
        assert found["receiver"]["streaming"]["first_byte_latency"]["negative"] > 0
        assert (found["delivery"]["duplicate"] is None) == (record_format == "v3")

    return judge


def of_others(folder: Path) -> Judge:
    """A pair whose files begin with a mark, and that other tools compressed."""
    write_pair(folder, Traffic(12, COUNT // 2), "v2")
    for end, suffix in (("sender", ".xz"), ("receiver", ".gz")):
        path = folder / f"{end}-transfers.csv"
        text = BOM_UTF8 + path.read_bytes()
        path.unlink()
        path.with_name(path.name + suffix).write_bytes(FORMS[suffix](text))

    def judge(found: dict[str, Any]) -> None:
        assert found["delivery"]["method"] == "ids"
        for end in ("sender", "receiver"):
            records = found[end]["records"]
            assert (records["malformed"], records["ids"]) == (0, "exact")

    return judge


def settled_again(folder: Path) -> Judge:
    """Ids settled at once, and again by lines in other splits; some were never sent."""
    folder.mkdir()
    lines, again = [], []
    for number in range(3000):
        sent = 1_700_000_000_000 + number
        lines.append(f"{number},{sent}\n")
        if number % 3:
            lines.append(f"s{number},{sent + 2}\n")
            again.append(f"S{number + 2000},{sent + 5000 + number % 7}\n")
    write(folder / "sender-transfers.csv", [*again[:100], *lines, *again, *again[:50]])

    def judge(found: dict[str, Any]) -> None:
        settlement = found["sender"]["settlement"]
        assert 0 < settlement["unmatched"] < len(again)
        assert settlement["sampled"]["count"] + settlement["unmatched"] == len(again) + 150

    return judge


def mixed_units(folder: Path) -> Judge:
    """Ids that are hashes, of a sender with a finer clock than its receiver."""
    folder.mkdir()
    sends = [f"m-{n % 900}-é,{1_700_000_000_000_000 + n * 777}\n" for n in range(1000)]
    receipts = [
        f"m-{n}-é,{1_700_000_000_000 + n},{1_700_000_000_003 + n}\n" for n in range(950, 30, -1)
    ]
    write(folder / "sender-transfers.csv", sends)
    write(folder / "receiver-transfers.csv", receipts)

    def judge(found: dict[str, Any]) -> None:
        assert found["delivery"]["method"] == "ids"
        assert found["delivery"]["unreceived"] > 0

    return judge


def mixed_ids(folder: Path) -> Judge:
    """Some ids are numbers, some only look so, and two had one hash of 63 bits."""
    folder.mkdir()
    random = Random(3)
    kinds = ("{}", "m-{}", "00{}", "{}" + "0" * 19)
    names = [random.choice(kinds).format(n) for n in range(1, 900)]
    ids = ["8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ", *names]
    start = 1_700_000_000_000
    sends = [f"{name},{start + n}\n" for n, name in enumerate(ids)]
    settled = [f"S{name},{start + 2000 + n % 9}\n" for n, name in enumerate(ids) if n % 5]
    received = [0, 0, *random.choices(range(2, len(ids)), k=800)]
    receipts = [f"{ids[n]},{start + n},{start + n + 7}\n" for n in received]
    write(folder / "sender-transfers.csv", [*sends, *settled, *settled[::7], "Snone,5\n"])
    write(folder / "receiver-transfers.csv", [*receipts, f"other,{start + 9},{start + 10}\n"])

    def judge(found: dict[str, Any]) -> None:
        counts = {name: found["delivery"][name] for name in ("duplicate", "unreceived", "foreign")}
        assert counts == {
            "duplicate": len(received) - len(set(received)),
            "unreceived": len(ids) - len(set(received)),
            "foreign": 1,
        }
        settlement = found["sender"]["settlement"]
        assert settlement["all"]["count"] == len(settled) + len(settled[::7])
        unsettled = len(sends) - len(settled)
        assert (settlement["unsettled"], settlement["unmatched"]) == (unsettled, 1)
        assert found["sender"]["records"]["ids"] == "keyed 126-bit hash"

    return judge


def without_an_end(folder: Path, empty: str) -> Judge:
    """An end without records."""
    write_pair(folder, Traffic(6, 100), "v3")
    write(folder / f"{empty}-transfers.csv", [])
    # Without these the empty file would be an error.
    write_summaries(folder, duration=0, count=100)
    there = 0 if empty == "sender" else 100

    def judge(found: dict[str, Any]) -> None:
        assert (found["delivery"]["sent"], found["delivery"]["received"]) == (there, 0)

    return judge


def golden(folder: Path, record_format: str) -> Judge:
    """The golden file of a format."""
    folder.mkdir()
    for path in golden_run(record_format).paths:
        shutil.copy(path, folder / f"{GOLDEN[record_format]}-transfers.csv")

    def judge(found: dict[str, Any]) -> None:
        assert found[GOLDEN[record_format]]["results"]["message_count"] > 0

    return judge


CASES: dict[str, Callable[[Path], Judge]] = {
    "faults-v1": partial(faults, record_format="v1", unit="ms", seed=1),
    "faults-v2-us": partial(faults, record_format="v2", unit="us", seed=2),
    "faults-v3": partial(faults, record_format="v3", unit="ms", seed=3),
    "strangers-v1": partial(strangers, record_format="v1"),
    "strangers-v3": partial(strangers, record_format="v3"),
    "set-back-v2": partial(set_back, record_format="v2"),
    "set-back-v3": partial(set_back, record_format="v3"),
    "set-back-sender": partial(set_back, record_format="v3", ends="sender"),
    "set-back-receiver": partial(set_back, record_format="v3", ends="receiver"),
    "warmed-up-v1": partial(warmed_up, record_format="v1"),
    "warmed-up-v3": partial(warmed_up, record_format="v3"),
    "known-start-v1": partial(known_start, record_format="v1"),
    "known-start-v3": partial(known_start, record_format="v3"),
    "in-frames-v1": partial(in_frames, record_format="v1"),
    "in-frames-v3": partial(in_frames, record_format="v3"),
    "of-others": of_others,
    "settled-again": settled_again,
    "mixed-units": mixed_units,
    "mixed-ids": mixed_ids,
    "golden-v1": partial(golden, record_format="v1"),
    "golden-v2": partial(golden, record_format="v2"),
    "without-sends": partial(without_an_end, empty="sender"),
    "without-receipts": partial(without_an_end, empty="receiver"),
}
SLOW = pytest.mark.slow
# Each is of the same kind as another; golden records have a test of their own.
REPEATED = ("faults-v1", "strangers-v3", "known-start-v1", "in-frames-v1", "mixed-units",
            "golden-v1", "golden-v2", "without-receipts")  # fmt: skip


def write_hosts(folder: Path) -> None:
    """Write a run of two senders and two receivers."""
    folder.mkdir()
    for number in range(2):
        traffic = Traffic(number, 500)
        traffic.ids += number * 1000
        traffic.received_ids[2:] += number * 1000
        lines = {"sender": sender_lines, "receiver": receiver_lines}
        for role, of_role in lines.items():
            write(folder / f"host{number}-{role}-transfers.csv", of_role(traffic, "v1"))


@pytest.fixture(scope="module")
def judges(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Judge]]:
    """The runs that are asked for, a folder for each, and what must be said of them."""
    top = tmp_path_factory.mktemp("cases") / "runs"
    top.mkdir()
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    asked = {call.params.get("name") for call in calls}
    return top, {name: build(top / name) for name, build in CASES.items() if name in asked}


# A plan of its own takes each run seconds.
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_run(spark: SparkSession, judges: tuple[Path, dict[str, Judge]], name: str) -> None:
    top, judge = judges
    judge[name](check(spark, the_run(top / name), size_of_splits(top / name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jittered", "faults-v2-us", "warmed-up-v3"])
def test_a_run_of_many_latencies(
    spark: SparkSession,
    judges: tuple[Path, dict[str, Judge]],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many tasks make the statistics, and the last one has few rows of each second."""
    monkeypatch.setattr(digests, "MOST_ROWS", 0)
    folder = judges[0] / name
    if name == "jittered":
        folder = tmp_path
        write(folder / "receiver-transfers.csv", jittered(COARSE_BINS + 4000)[1])
    check(spark, the_run(folder), size_of_splits(folder))


def size_of_splits(folder: Path) -> int:
    """Several to a file, whatever its size."""
    return min(SPLIT, max(path.stat().st_size for path in folder.iterdir()) // 3 + 1)


@pytest.fixture(scope="module")
def summaries(
    spark: SparkSession,
    judges: tuple[Path, dict[str, Judge]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The results of one job for all runs: each has its rows in the same tables."""
    top, output = judges[0], tmp_path_factory.mktemp("job") / "out"

    def cut(file: RecordFile, _size: int = 0) -> list[Split]:
        return splits_of(file, size_of_splits(Path(file.path).parent))

    write_hosts(top / "hosts")
    with pytest.MonkeyPatch.context() as patch:
        for module in (batch_job, record_rows):
            patch.setattr(module, "splits_of", cut)
        # The last steps of some of the runs have few rows, those of others all.
        patch.setattr(digests, "MOST_ROWS", MANY)
        analyze(spark, [str(top)], output)
    return output / "summaries" / "runs"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW) if name in REPEATED else name for name in CASES]
)
def test_runs_in_one_job(summaries: Path, judges: tuple[Path, dict[str, Judge]], name: str) -> None:
    top, judge = judges
    here = load_here(the_run(top / name), ignore)
    judge[name](comparable(vars(here)))
    for end, document in (("sender", here.sender), ("receiver", here.receiver)):
        if document is None:
            continue
        found = json.loads((summaries / name / f"{end}-summary.json").read_text())
        analysis = found.pop("analysis")
        assert found == as_json(document)
        if end == "receiver" or here.receiver is None:
            assert analysis == as_json(run_statistics(here))


def test_several_senders_and_receivers_of_a_run(summaries: Path) -> None:
    """Hosts: the ends of a run are all of its senders and all of its receivers."""
    documents = [
        json.loads((summaries / "hosts" / f"host{n}-receiver-summary.json").read_text())
        for n in range(2)
    ]
    whole = [document["delivery"] for document in documents]
    assert whole[0] == whole[1]
    assert whole[0]["sent"] == 1000
    assert whole[0]["older"] == 2 * 2


@pytest.mark.parametrize(
    "record_format", [pytest.param(name, marks=[] if name == "v3" else SLOW) for name in GOLDEN]
)
def test_golden_records(spark: SparkSession, record_format: str) -> None:
    run = load_run(spark, golden_run(record_format), ignore, Wanted(), 1500)
    assert told(run, run.statistics) == expected(record_format)


def test_a_file_without_records(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "receiver-transfers.csv", ["no\n", "records\n"])
    with pytest.raises(RecordError, match=r"no receive records; line 1 is: no"):
        load_run(spark, the_run(tmp_path), ignore, Wanted())


@pytest.fixture
def small_results(spark: SparkSession) -> Iterator[None]:
    """Let no job bring more than 100 kB to the driver."""
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.driver.maxResultSize", "100k")
    yield
    settings.remove("spark.driver.maxResultSize")


def jittered(count: int) -> tuple[list[str], list[str]]:
    """Return both ends' lines of v3 in nanoseconds, nearly every latency another."""
    random = Random(1)
    sends, receipts = [], []
    for sent in range(10**18, 10**18 + count * 500_000, 500_000):
        sends.append(f"{sent},0\n")
        receipts.append(f"{sent},{sent + random.randrange(10**9)}\n")
    return sends, receipts


@pytest.mark.parametrize("ends", [1, pytest.param(2, marks=SLOW)])
@pytest.mark.usefixtures("small_results")
def test_only_summaries_come_to_the_driver(spark: SparkSession, tmp_path: Path, ends: int) -> None:
    """A run of nanoseconds, folded (one end) and joined: its rows would be too much."""
    sends, receipts = jittered(10_000)
    write(tmp_path / "receiver-transfers.csv", receipts)
    if ends == 2:
        write(tmp_path / "sender-transfers.csv", sends)
    run = the_run(tmp_path)
    there = load_run(spark, run, ignore, Wanted(), SPLIT)
    here = load_here(run, ignore)
    assert comparable(there.receiver) == comparable(here.receiver)
    if ends == 2:
        return
    with pytest.raises((PySparkException, Py4JError)) as caught:
        load_run(spark, run, ignore, Wanted(histogram=True), SPLIT)
    assert "maxResultSize" in reason(caught.value)


def test_the_command(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`quiver-analyze --engine spark` prints what `--engine local` does; the session is shared."""
    write(tmp_path / "receiver-transfers.csv", receiver_lines(Traffic(7, 1000, rate=100), "v3"))
    documents = []
    for engine in ("local", "spark"):
        assert quiver_analyze([str(tmp_path), "--json", "--quiet", "--engine", engine]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    here, there = documents
    assert (here.pop("engine"), there.pop("engine")) == ("local", "spark")
    assert there == here
    assert here["analysis"]["steady_state"]["seconds"] > 5
