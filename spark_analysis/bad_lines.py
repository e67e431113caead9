"""The lines of a split that are no records: found by halving parts that have some.

The compiled parser counts bad lines and keeps the first. To keep more of them a part
with bad lines is cut in two until it is small enough to look at line by line, so that
few bad lines in a large split cost little more than a second look at it.
"""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any

from quiver_fast.records.layout import is_record
from quiver_fast.records.runs import scan_runs
from quiver_fast.records.sources import Place, is_compressed, open_place, open_source

KEPT_LINES = 100
"""Bad lines are all counted; so many of a split are kept."""

_EXCERPT = 200
_SMALL = 1 << 16
_COPY_SIZE = 1 << 20


def bad_lines(
    path: Place,
    start: int,
    end: int,
    record_format: str | None,
    operation: str | None,
    unit: str,
    spool: Any,
) -> Iterator[tuple[int, str]]:
    """Yield number in the split (from 0) and beginning of its first bad lines.

    Args:
        path: where the file is.
        start: where the split begins in it.
        end: where it ends.
        record_format: "v1", "v2" or "v3"; None where every line is bad.
        operation: "send" or "receive"; None likewise.
        unit: "ms", "us" or "ns": that of the arrow's own times.
        spool: an empty temporary file with a name, for text that is compressed.
    """
    with open_place(path) as file:
        if is_compressed(file):
            _copy(open_source(file, start, end), spool)
            path, start, end = spool.name, 0, spool.tell()
    search = _Search(path, record_format, operation, unit)
    for number, (line, text) in enumerate(search.part(start, end, 0)):
        if number == KEPT_LINES:
            return
        yield line, text[:_EXCERPT].decode("utf-8", "backslashreplace")


def _copy(source: Any, spool: Any) -> None:
    # The reader removes this mark, and keeps one that the text itself begins with.
    spool.write(BOM_UTF8)
    block = memoryview(bytearray(_COPY_SIZE))
    while size := source.readinto(block):
        spool.write(block[:size])
    spool.flush()


class _Search:
    def __init__(
        self, path: Place, record_format: str | None, operation: str | None, unit: str
    ) -> None:
        self._path = path
        self._format = record_format
        self._operation = operation
        self._unit = unit

    def part(self, start: int, end: int, before: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bad lines that begin in a part, which has ``before`` lines before it."""
        if end - start <= _SMALL:
            yield from self._small(start, end, before)
            return
        middle = (start + end) // 2
        for low, high in ((start, middle), (middle, end)):
            lines, malformed = self._count(low, high)
            if malformed:
                yield from self.part(low, high, before)
            before += lines

    def _count(self, start: int, end: int) -> tuple[int, int]:
        lines = malformed = 0
        for batch in scan_runs(
            self._path,
            start=start,
            end=end,
            record_format=self._format,
            operation=self._operation,
            unit=self._unit,
        ):
            lines += batch.lines
            malformed += batch.malformed
        return lines, malformed

    def _small(self, start: int, end: int, before: int) -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(self._lines(start, end)):
            if not is_record(line, self._format, self._operation, self._unit):
                yield before + number, line

    def _lines(self, start: int, end: int) -> list[bytes]:
        """Return the whole lines that begin in a part."""
        with io.BufferedReader(open_place(self._path)) as file:
            file.seek(max(start - 1, 0))
            text = file.read(end - file.tell())
            if start == 0:
                text = text.removeprefix(BOM_UTF8)
            else:
                # With the byte before it, the first line shows whether it begins here.
                newline = text.find(b"\n") + 1
                text = text[newline:] if newline else b""
            if text and not text.endswith(b"\n"):
                text += file.readline()
        return text.split(b"\n")[:-1]
