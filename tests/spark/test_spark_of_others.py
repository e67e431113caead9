"""Files of others that are not read: the backend `spark` says what the local backend does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.compressed import FORMS, REFUSED
from support.peers import why_missing
from support.spark_runs import ignore, the_run

from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.analysis.read.sources import load_run as load_here
from quiver_fast.errors import RecordError

if why_missing("spark") is None:
    from spark_analysis.backend import load_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CUT = "".join(f"{1_700_000_000_000 + n * n},0\n" for n in range(20_000)).encode()
RECEIPTS = CUT.replace(b",0\n", b",1800000000000\n")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("sender-transfers.csv", CUT.decode().encode("utf-16"), "UTF-16 (little-endian)"),
        ("sender-transfers.csv.xz", FORMS[".xz"](CUT)[:-999], "is cut short: "),
        ("sender-transfers.csv.gz", FORMS[".gz"](CUT)[:9999], "is cut short: "),
        ("sender-transfers.csv.lz4", *REFUSED[".lz4"]),
        ("sender.1-transfers.csv.bz2", FORMS[".bz2"](CUT)[:-99], "is cut short: "),
    ],
)
def test_files_of_others_fail_alike(
    spark: SparkSession, tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    if ".1" in name:
        for other in ("sender.0", "receiver.0"):
            (tmp_path / f"{other}-transfers.csv").write_bytes(
                CUT if other == "sender.0" else RECEIPTS
            )
    run = the_run(tmp_path)
    with pytest.raises(RecordError) as here:
        load_here(run, ignore)
    with pytest.raises(RecordError) as there:
        load_run(spark, run, ignore, Wanted())
    assert words in str(here.value)
    assert str(there.value) == str(here.value)
