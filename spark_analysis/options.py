"""The options of the data source, checked where they are given: on the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from quiver_fast.errors import UsageError
from quiver_fast.records.ids import key_or_own
from spark_analysis import schema
from spark_analysis.file_systems import Settings, settings_in
from spark_analysis.files import SPLIT_SIZE

PERMIT, FAIL, DROP = "PERMISSIVE", "FAILFAST", "DROPMALFORMED"
_NUMBERS = ("splitSize", "maxFilesPerTrigger", "maxBytesPerTrigger")
_OPTIONS = ("path", "paths", "mode", "idKey", *_NUMBERS)
# A stream that is continued, and tables that are read separately, need equal ids.
_ID_KEY = "0" * 32


@dataclass(frozen=True)
class SourceOptions:
    """The options of ``option`` and ``load``.

    Attributes:
        paths: files, folders and patterns, one at least.
        split_size: bytes of text that a task reads, about.
        mode: how bad lines are treated: ``PERMIT``, ``FAIL`` or ``DROP``.
        most_files: that a batch of a stream reads of; None for all.
        most_bytes: that it reads; None for all.
        id_key: by which ids that are no numbers are hashed. Ids of one key can be compared,
            whatever read them, at any time; a user who knows the key could choose ids that are
            taken for one.
        settings: Hadoop's, of file systems.
    """

    paths: tuple[str, ...]
    split_size: int
    mode: str
    most_files: int | None
    most_bytes: int | None
    id_key: bytes
    settings: Settings

    @classmethod
    def of(cls, options: Mapping[str, str], settings: Settings) -> SourceOptions:
        """Return the checked options.

        Args:
            options: by name, in any case.
            settings: Hadoop's; options about file systems override them.

        Raises:
            UsageError: an option is unknown or wrong.
        """
        given = {name.lower(): value for name, value in options.items()}
        own = settings_in(given)
        known = {name.lower() for name in _OPTIONS} | {name for name, _ in own}
        for name in given:
            if name.removeprefix("spark.hadoop.") not in known:
                raise UsageError(
                    f"the source 'quiver' has no option '{name}': it has {', '.join(_OPTIONS)}, "
                    "and Hadoop's fs.s3a.*"
                )
        split_size, files, size = (_number(name, given.get(name.lower())) for name in _NUMBERS)
        return cls(
            _paths(given),
            split_size or SPLIT_SIZE,
            _mode(given.get("mode", PERMIT)),
            files,
            size,
            _id_key(given.get("idkey", _ID_KEY)),
            tuple(sorted({**dict(settings), **dict(own)}.items())),
        )


def checked_columns(columns: StructType) -> pa.Schema:
    """Return the columns that a user's schema asks for.

    Raises:
        UsageError: one is not of ``RECORDS``, is of another type, or is there twice.
    """
    known = {field.name: field for field in schema.RECORDS}
    for field in columns:
        if field.name not in known:
            names = ", ".join(known)
            raise UsageError(f"the schema has a column '{field.name}'; records have {names}")
        expected = known[field.name].dataType.simpleString()
        if expected != field.dataType.simpleString():
            given = field.dataType.simpleString()
            raise UsageError(f"the column '{field.name}' is {expected}, not {given}")
        if known[field.name].nullable and not field.nullable:
            raise UsageError(f"the column '{field.name}' may be null")
    if len(set(columns.names)) < len(columns.names):
        raise UsageError("a column is twice in the schema")
    return schema.to_arrow(columns)


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the path of ``load``, or the paths that Spark gives as a list in JSON."""
    paths: object = [given["path"]] if "path" in given else []
    if "paths" in given:
        try:
            paths = json.loads(given["paths"])
        except ValueError:
            paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise UsageError("the option 'paths' is a list of strings in JSON")
    if not any(paths):
        raise UsageError("the source 'quiver' needs a path")
    return tuple(paths)


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise UsageError(f"the option '{name}' is a number from 1 on, not '{text}'")
    return number


def _id_key(text: str) -> bytes:
    try:
        return key_or_own(bytes.fromhex(text))
    except ValueError:
        raise UsageError(f"the option idKey is not 32 hexadecimal digits: '{text}'") from None


def _mode(text: str) -> str:
    if text.upper() not in (PERMIT, FAIL, DROP):
        raise UsageError(f"the option 'mode' is {PERMIT}, {FAIL} or {DROP}, not '{text}'")
    return text.upper()
