"""A check that files of records are whole. The error says how many records are left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from quiver_fast.analysis.read.summary_file import summary_document, summary_path
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import shown_line
from quiver_fast.records.frames import open_records
from quiver_fast.words import counted


def check_whole(path: Path, *, cut: bool, left: int, missing_bytes: int | None) -> None:
    """Check that a compressed file was not cut. A plain one may end within a line.

    Args:
        path: the file.
        cut: whether it is compressed and was cut.
        left: its records.
        missing_bytes: text that it lacks, where that is known.

    Raises:
        RecordError: it was cut, or a summary file is damaged.
    """
    if cut:
        raise RecordError(_cut_text(path, left, missing_bytes))


def check_ends(paths: Sequence[Path], ends: Iterable[dict[str, Any]]) -> None:
    """Check the files of a run of many ends, whose lines may be of no messages.

    Args:
        paths: the files.
        ends: the summary of each of them.

    Raises:
        RecordError: one was cut, or has lines, but no records; a summary file is damaged.
    """
    for path, end in zip(paths, ends, strict=True):
        records, counts = end["records"], [end["results"], end.get("warmup")]
        delivery = end["delivery"] or {}
        left = sum((one or {}).get("message_count") or 0 for one in counts)
        left += sum(delivery.get(name) or 0 for name in ("older", "foreign"))
        with open_records(path) as file:
            cut = file.lost_end(records["truncated"])
        check_whole(path, cut=cut, left=left, missing_bytes=records["missing_bytes"])
        first = records["first_malformed"]
        if first is not None and not left and "streaming" not in end:
            raise without_records(path, "records", first["line"], first["text"], first["fault"])


def without_records(path: Path, what: str, line: int, text: str, fault: str | None) -> RecordError:
    """Return the error that the lines of a file are no records, of which it shows one."""
    why = "" if fault is None else f" ({fault})"
    return RecordError(f"{path} has no {what}; line {line} is: {shown_line(text)}{why}")


def _cut_text(path: Path, left: int, missing_bytes: int | None) -> str:
    """Say how much a compressed file has lost, as far as it or the summary beside it tells."""
    place, text = summary_path(path), f"{path} is cut short"
    summary = {} if place is None else summary_document(place)
    own = (summary.get("results") or {}).get("message_count")
    warmup = (summary.get("warmup") or {}).get("message_count") or 0
    if own is None:
        kept = counted(left, "record", ("is", "are"))
        if missing_bytes is not None:
            return f"{text}: {kept} left, {counted(missing_bytes, 'byte', ('is', 'are'))} missing"
        return f"{text}: {kept} left; no summary beside it tells how many are missing"
    delivery = summary.get("delivery") or {}
    # Summaries without ``older`` count all records.
    others = (delivery.get("foreign") or 0) if "older" in delivery else 0
    whole = own + warmup + others + (delivery.get("older") or 0)
    kept = f"{left:,} of {counted(whole, 'record', ('is', 'are'))} left"
    verb = "is" if whole - left == 1 else "are"
    return f"{text}: {kept}, {whole - left:,} {verb} missing"
