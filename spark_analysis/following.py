"""Following records while they are written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from quiver_fast.errors import RecordError
from quiver_fast.records.ids import KEY_SIZE, key_or_own
from spark_analysis.compacting import compact
from spark_analysis.files import RecordFile, discover
from spark_analysis.growing import grow, renew
from spark_analysis.hadoop import Settings, settings_for
from spark_analysis.output import MARK, RECORDS, check_free
from spark_analysis.source import numbered, register

_TRIGGER = "1 second"
_TICK = 1  # seconds
_ID_KEY = "id-key"


def follow(spark: SparkSession, paths: Sequence[str], output: Path, timeout: float) -> None:
    """Analyse records as they are written, until nothing came for ``timeout`` seconds.

    Args:
        spark: the session; its executors see ``paths`` and ``output`` by the same names.
        paths: files, folders, patterns.
        output: an earlier job's is gone on with.
        timeout: seconds.

    Raises:
        OSError: a file cannot be read or written.
        QuiverError: there are no records, or they are damaged, or ``output`` is taken.
        PySparkException: Spark failed.
    """
    query = start_following(spark, paths, output)
    last = time.monotonic()
    try:
        while time.monotonic() - last < timeout and not query.awaitTermination(_TICK):
            # A long batch is work, not silence; nor is the time until the first look.
            if query.lastProgress is None or query.status["isDataAvailable"]:
                last = time.monotonic()
    finally:
        query.stop()
    finish_following(spark, paths, output)


def start_following(spark: SparkSession, paths: Sequence[str], output: Path) -> StreamingQuery:
    """Start to analyse records as they are written, and return the query that does it.

    Rows are appended by batch; a batch that is repeated after a failure counts once.
    The results of ``output`` are renewed after every batch, each time whole.

    Raises:
        UsageError: there are no files, or ``output`` is taken.
    """
    check_free(output)
    settings = settings_for(spark, paths)
    discover(paths, settings)
    output = output.absolute()
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    (output / MARK).touch()
    id_key = _id_key(output)
    register(spark)

    def take(batch: DataFrame, number: int) -> None:
        grow(batch, number, _files(paths, settings, id_key), output)
        compact(batch.sparkSession, output / RECORDS, number)

    return (
        spark.readStream.format("quiver")
        .option("idKey", id_key.hex())
        .option("paths", json.dumps(paths))
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(output / "checkpoint"))
        .trigger(processingTime=_TRIGGER)
        .start()
    )


def finish_following(spark: SparkSession, paths: Sequence[str], output: Path) -> None:
    """Bring every result up to the last record: what a job would give now.

    Raises:
        OSError: a file cannot be read or written.
        QuiverError: a summary is damaged.
        PySparkException: Spark failed.
    """
    output = output.absolute()
    renew(spark, _files(paths, settings_for(spark, paths), _id_key(output)), output)


def _files(paths: Sequence[str], settings: Settings, id_key: bytes) -> list[RecordFile]:
    return numbered(discover(paths, settings), id_key)


def _id_key(output: Path) -> bytes:
    """Return the key of the job's ids: the one that it began with."""
    place = output / _ID_KEY
    if not place.exists():
        place.with_suffix(".new").write_text(os.urandom(KEY_SIZE).hex())
        place.with_suffix(".new").replace(place)
    try:
        return key_or_own(bytes.fromhex(place.read_text()))
    except ValueError:
        raise RecordError(f"{place} is damaged: it is not {2 * KEY_SIZE} digits") from None
