"""Paths as Spark's users give them: lists, patterns and URLs, of a real object store too."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.peers import why_missing
from support.record_files import Traffic, receiver_lines, write, write_pair
from support.spark_events import patiently
from support.summaries import config as configured

from quiver_fast.cli.analyze.command import main as quiver_analyze
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.records.frames import write_frames

if why_missing("spark") is None:
    from support.hdfs import hdfs
    from support.object_store import object_store

    from spark_analysis import jobs
    from spark_analysis.batch_job import analyze
    from spark_analysis.file_systems import (
        check_place,
        hdfs_options,
        remote_path,
        s3_options,
        settings_in,
        write_elsewhere,
    )
    from spark_analysis.files import discover, splits_of
    from spark_analysis.record_rows import parse_split
    from spark_analysis.source import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.object_store import ObjectStore

BUCKET = "bucket"
FRAME = 30_000


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        yield running


@pytest.fixture(scope="module")
def session(spark: SparkSession, store: ObjectStore) -> Iterator[SparkSession]:
    """The session, told of the store as ``--conf spark.hadoop.fs.s3a.*`` tells it."""
    hadoop = spark._jsc.hadoopConfiguration()
    for name, value in store.settings.items():
        hadoop.set(name, value)
    yield spark
    for name in store.settings:
        hadoop.unset(name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs and what is beside records; the second receiver is compressed in frames."""
    top = tmp_path_factory.mktemp("paths") / "runs"
    for number, record_format in enumerate(("v2", "v3")):
        write_pair(top / f"run{number}", Traffic(number, 4000), record_format)
    for role, operation in (("sender", "send"), ("receiver", "receive")):
        config = {"config": configured(operation, rate=200)}
        (top / "run0" / f"{role}-summary.json").write_text(json.dumps(config))
    plain = top / "run1" / "receiver-transfers.csv"
    with plain.with_name(plain.name + ".zst").open("wb") as out:
        write_frames(plain, out, frame_size=FRAME)
    plain.write_text("this plain file stands beside its compressed self\n")
    (top / "run1" / ".hidden-transfers.csv").write_text("not looked at\n")
    return top


@pytest.fixture(scope="module")
def url(store: ObjectStore, runs: Path) -> str:
    return store.put(runs, "some, folder/runs")


def rows_of(path: str, settings: Any = (), size: int = 1 << 28) -> list[str]:
    """Return all rows below ``path``, without what tells where they stood."""
    found = []
    for file in discover([path], settings):
        for split in splits_of(file, size):
            for batch in parse_split(split):
                found += [repr(row) for row in batch.to_pylist()]
    return found


def names(paths: list[str], settings: Any = ()) -> list[tuple[str, str]]:
    return [(file.run, file.arrow) for file in discover(paths, settings)]


@pytest.mark.parametrize("size", [1 << 28, 50_001])
def test_an_object_store_gives_what_a_folder_does(
    store: ObjectStore, runs: Path, url: str, size: int
) -> None:
    """Splits begin anywhere in plain objects, and by the index of frames in compressed ones."""
    settings = settings_in(store.settings)
    assert rows_of(url, settings, size) == rows_of(str(runs), (), size)
    [file] = discover([f"{url}/run1/receiver-transfers.csv.zst"], settings)
    assert file.compressed
    assert len(splits_of(file, size)) == (1 if size > FRAME * 10 else 2)


def check_copy(uri: str, settings: Any, folder: Path) -> None:
    """Hold what is written elsewhere to what it is a copy of, a second time too."""
    for text in ("first", "17,1700000000000\n" * 5000):
        source = folder / "source"
        source.write_text(text)
        found = write_elsewhere(uri, "sender.0-transfers.csv", source, settings)
        assert found == f"{uri}/sender.0-transfers.csv"
        assert remote_path(found, settings).read_bytes() == text.encode()


def test_a_copy_in_an_object_store(store: ObjectStore, tmp_path: Path) -> None:
    settings = settings_in(store.settings)
    check_copy(f"s3a://{BUCKET}/kept/run 7", settings, tmp_path)
    with pytest.raises(OSError, match="s3a://nowhere/run") as caught:
        write_elsewhere("s3a://nowhere/run", "a", tmp_path / "source", settings)
    assert "\n" not in str(caught.value)


def test_a_copy_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("here")
    uri = f"file://{tmp_path}/kept/run"
    assert write_elsewhere(uri, "a.csv", tmp_path / "source", ()) == f"{uri}/a.csv"
    assert (tmp_path / "kept" / "run" / "a.csv").read_text() == "here"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("kept", "'kept' is no URI: write s3a://"),
        ("ftp://host/kept", "cannot read ftp://"),
        ("s3a://", "names no bucket"),
    ],
)
def test_places_that_nothing_is_kept_at(uri: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_place(uri)


def test_bad_lines_of_an_object(store: ObjectStore, tmp_path: Path) -> None:
    lines = receiver_lines(Traffic(1, 5000), "v3")
    folder = tmp_path / "bad"
    folder.mkdir()
    write(folder / "receiver-transfers.csv", [*lines, "first\n", *lines, "second\n"])
    url = store.put(folder, "bad")
    assert rows_of(url, settings_in(store.settings)) == rows_of(str(folder))


@pytest.mark.slow  # HDFS is a Java machine of its own.
@pytest.mark.peer("hdfs")
def test_hdfs_gives_what_a_folder_does(runs: Path, tmp_path: Path) -> None:
    with hdfs(tmp_path) as cluster:
        url = cluster.put(runs, "some folder/runs")
        settings = settings_in(cluster.settings)
        assert rows_of(url, settings, 50_001) == rows_of(str(runs), (), 50_001)
        assert names([f"{url}/run[1]/s*.csv"], settings) == [("run1", "sender")]
        with pytest.raises(UsageError, match="no files of records"):
            discover([f"{url}/none"], settings)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", [(f"runs/run{n}", role) for n in (0, 1) for role in ("receiver", "sender")]),
        ("/run[0]", [("run0", "receiver"), ("run0", "sender")]),
        ("/*/sender-t*", [("run0", "sender"), ("run1", "sender")]),
        ("/{run0,run1}/sender-transfers.csv", [("run0", "sender"), ("run1", "sender")]),
        ("/run?/sender-t*", [("run0", "sender"), ("run1", "sender")]),
        ("/run1/receiver-transfers.csv.zst", [("run1", "receiver")]),
    ],
)  # fmt: skip
def test_patterns(
    store: ObjectStore, runs: Path, url: str, pattern: str, found: list[tuple[str, str]]
) -> None:
    assert names([url + pattern], settings_in(store.settings)) == found
    assert names([f"{runs}{pattern}"]) == found
    assert names([f"file://{runs}{pattern}"]) == found
    assert names([f"file:{runs}{pattern}"]) == found


def test_a_run_of_many_ends_is_refused(tmp_path: Path) -> None:
    for name in ("sender.0", "sender.1", "receiver.0"):
        (tmp_path / f"{name}-transfers.csv").write_text("1700000000000,0\n")
    with pytest.raises(UsageError, match="of a run of many ends, which this job does not"):
        discover([str(tmp_path)])


def test_names_that_look_like_something_else(tmp_path: Path) -> None:
    """The name of an existing path is no pattern, and no separator cuts it."""
    for name in ("a,b", "a b", "a\nb", "a*b", "{a,b}", "[a]", "a%20b"):
        folder = tmp_path / name
        folder.mkdir()
        write(folder / "receiver-transfers.csv", receiver_lines(Traffic(1, 5), "v3"))
        assert names([str(folder)]) == [(name, "receiver")]
        assert names([f"file://{folder}"]) == [(name, "receiver")]


def test_the_source_takes_lists(session: SparkSession, runs: Path, url: str) -> None:
    register(session)
    read = session.read.format("quiver")
    strange = runs.parent / "a,\nb c"
    strange.mkdir()
    write(strange / "x-receiver-transfers.csv", receiver_lines(Traffic(2, 50), "v3"))
    both = [f"file://{runs}/run0", f"{url}/run1", str(strange)]
    found = read.load(both).where("kind = 'extent'").select("run").distinct().collect()
    assert {row.run for row in found} == {"run0", "run1", "a,\nb c"}
    one = read.load(str(strange)).where("kind = 'extent'").collect()
    assert [row.run for row in one] == ["a,\nb c"]


def test_the_source_takes_settings_as_options(
    spark: SparkSession, store: ObjectStore, url: str
) -> None:
    """As Spark's own sources take what Hadoop is told."""
    register(spark)
    read = spark.read.format("quiver").options(**store.settings)
    assert read.load(f"{url}/run0").where("kind = 'extent'").count() == 2


@pytest.mark.slow
def test_a_stream_follows_an_object_store(
    session: SparkSession, store: ObjectStore, tmp_path: Path
) -> None:
    register(session)
    batches: list[list[str]] = []

    def follow() -> None:
        rows = session.readStream.format("quiver").load(f"s3a://{BUCKET}/live")
        rows = rows.where("kind = 'extent'").select("arrow")
        query = rows.writeStream.foreachBatch(
            lambda batch, _: batches.append(sorted(row.arrow for row in batch.collect()))
        ).option("checkpointLocation", str(tmp_path / "checkpoint"))
        patiently(lambda: query.trigger(availableNow=True).start().awaitTermination())

    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        write(folder / f"{name}-transfers.csv", receiver_lines(Traffic(1, 50), "v3"))
        store.put(folder, "live")
        follow()
    assert batches == [["a"], ["b"]]


@pytest.mark.slow
def test_a_job_reads_an_object_store(
    session: SparkSession, runs: Path, url: str, tmp_path: Path
) -> None:
    summaries = []
    for number, place in enumerate((str(runs / "run0"), f"{url}/run0")):
        analyze(session, [place], tmp_path / str(number))
        folder = tmp_path / str(number) / "summaries" / "run0"
        documents = [json.loads(path.read_text()) for path in sorted(folder.iterdir())]
        for document in documents:
            assert document.pop("file").startswith(place)
        summaries.append(documents)
    assert summaries[0] == summaries[1]
    assert summaries[0][0]["config"]["rate"] == 200


@pytest.mark.slow  # The command is a Java machine of its own.
@pytest.mark.usefixtures("session")
def test_the_command_reads_an_object_store(
    runs: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = []
    for place, engine in ((str(runs / "run1"), "local"), (f"{url}/run1", "auto")):
        assert quiver_analyze([place, "--json", "--quiet", "--engine", engine]) == 0
        text = capsys.readouterr().out.replace(place, "PLACE")
        documents.append(text.replace(f'"engine": "{engine}"', '"engine": "spark"'))
    assert documents[0] == documents[1]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"s3a://{BUCKET}/none*", "no files of records at 's3a://bucket/none*'"),
        ("s3a:///x", "'s3a:///x' names no bucket"),
        ("gs://b/x", "'gs://b/x': cannot read gs://; known are file://, s3://, s3a://"),
        ("file:///none/x", "no files of records at 'file:///none/x'"),
    ],
)
def test_what_is_not_there(store: ObjectStore, path: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        discover([path], settings_in(store.settings))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("url", ["s3a://bucket/x", "hdfs://127.0.0.1/x"])
def test_a_server_that_is_not_there(url: str) -> None:
    settings = {
        "fs.s3a.endpoint": "http://127.0.0.1:1",
        "dfs.namenode.http-address": "127.0.0.1:1",
        "fs.s3a.access.key": "user",
    }
    with pytest.raises(OSError, match=r"127\.0\.0\.1") as caught:
        discover([url], settings_in(settings))
    assert caught.value.filename == url
    assert "\n" not in str(caught.value.strerror)


def test_urls_are_for_spark(capsys: pytest.CaptureFixture[str], tmp_path: Path, runs: Path) -> None:
    assert quiver_analyze(["s3a://b/x", "--engine", "local"]) == 2
    assert "reads files of this machine only" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        jobs.main([str(runs), "--output", "s3a://b/out"])
    assert caught.value.code == 2
    assert "'s3a://b/out' is a URL" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_hadoop_is_told_of_s3() -> None:
    told = {
        "fs.s3a.endpoint": "store:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": "a",
        "fs.s3a.secret.key": "b",
        "fs.s3a.bucket.other.access.key": "c",
        "fs.s3a.bucket.other.endpoint.region": "eu-west-1",
    }
    expected = {
        "access_key": "a",
        "secret_key": "b",
        "session_token": None,
        "scheme": "http",
        "endpoint_override": "store:9000",
        "force_virtual_addressing": True,
        "region": "us-east-1",
    }
    assert s3_options("one", told) == expected
    assert s3_options("other", told) == expected | {"access_key": "c", "region": "eu-west-1"}
    provider = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert s3_options("one", {"fs.s3a.aws.credentials.provider": provider}) == {"anonymous": True}
    assert s3_options("one", {}) == {}


def test_what_hadoop_is_told_of_hdfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    plain = {"host": "name", "port": 9870, "use_https": False}
    assert hdfs_options("hdfs", "name:8020", {}) == plain
    listening = {"dfs.namenode.http-address": "0.0.0.0:50070"}
    assert hdfs_options("hdfs", "name:8020", listening) == plain | {"port": 50070}
    assert hdfs_options("webhdfs", "name:14000", {}) == plain | {"port": 14000}
    secure = {"dfs.http.policy": "HTTPS_ONLY", "hadoop.security.authentication": "kerberos"}
    assert hdfs_options("hdfs", "name", secure) == {
        "host": "name", "port": 9871, "use_https": True, "kerberos": True,
    }  # fmt: skip
    with pytest.raises(QuiverError, match="several namenodes"):
        hdfs_options("hdfs", "one", {"dfs.nameservices": "one,two"})


def test_settings_are_not_shown(store: ObjectStore, url: str) -> None:
    """A file's text, which errors and plans may show, has no secrets in it."""
    [file] = discover([f"{url}/run0/sender-transfers.csv"], settings_in(store.settings))
    assert "word" not in repr(splits_of(file)) + repr(file.remote)
    assert "word" not in repr(dataclasses.replace(file, number=5))
