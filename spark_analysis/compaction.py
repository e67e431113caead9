"""Few files whatever the number of batches: folders of batches are joined like digits carry.

Eight folders of one size become one, up to 512 batches: a record is written again three times
at most. Readers see all of the records at any time.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from spark_analysis import schema
from spark_analysis.job_folder import write_records
from spark_analysis.replacement import new_part, recover, replace

_SIZES = (512, 64, 8)
_FOLDER = re.compile(r"batch=(\d+)")
_FILE_SIZE = 128 << 20


def compact(spark: SparkSession, records: Path, number: int) -> None:
    """Join the folders of batches that end with batch ``number``, if it is time to.

    Args:
        spark: the session.
        records: the folder of the folders ``batch=NUMBER``.
        number: the last batch, whose records are there.

    Raises:
        OSError: a file cannot be read or written.
    """
    recover(records)
    size = next((size for size in _SIZES if (number + 1) % size == 0), 1)
    folders = [records / f"batch={n}" for n in range(number - size + 1, number + 1)]
    joined = [folder for folder in folders if folder.exists()]
    if len(joined) < 2:
        return
    part = new_part(records)
    try:
        for entry in records.iterdir():
            if _FOLDER.fullmatch(entry.name) and entry not in joined:
                shutil.copytree(entry, part / entry.name, copy_function=os.link)
        reader = spark.read.schema(schema.RECORDS).option("basePath", str(records))
        rows = reader.parquet(*map(str, joined)).select(*schema.RECORDS.fieldNames())
        files = 1 + sum(_size(folder) for folder in joined) // _FILE_SIZE
        write_records(rows.coalesce(files), part / joined[-1].name)
        replace(part, records)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))
