"""The document of a run, which the files and pages are made of, and its reading."""

from __future__ import annotations

import argparse
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from quiver_fast.arguments import endpoint
from quiver_fast.conform.case import BROKEN, DISPUTED_
from quiver_fast.conform.runner import Report, Result
from quiver_fast.conform.server import ServerSubject
from quiver_fast.conform.wire.trace import document as of_frame
from quiver_fast.conform.wire.trace import shown
from quiver_fast.errors import UsageError
from quiver_fast.schemas import VERSIONS, marked

NAME = "conformance"
FILE = f"{NAME}.json"
_MARK = {"name": NAME, "version": VERSIONS[NAME]}
# The last frames of a clause tell most.
FRAMES_MAX = 40


def conformance(
    report: Report, subject: Any, args: argparse.Namespace, only: list[str], began: datetime
) -> dict[str, Any]:
    """Return the document of a run; see `conformance-1.json`.

    Args:
        report: the verdicts.
        subject: the peer that was judged.
        args: the options.
        only: the ids that were asked for.
        began: when the run began.
    """
    # The import is slow: only a run with a document waits for it.
    from quiver_fast.analysis.figures.environment import environment

    reason = next(filter(None, [report.reason, *subject.stayed]), None)
    return marked(NAME, {
        "subject": _subject(subject),
        "options": {"only": only, "strict": args.strict, "address": args.address},
        "began": began.astimezone(timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(report.seconds, 3),
        "complete": reason is None,
        "reason": reason,
        "counts": report.counts,
        "clauses": [_clause(one, args.verbose) for one in report.results],
        "environment": environment(),
    })  # fmt: skip


def _subject(subject: Any) -> dict[str, Any]:
    facts, is_server = subject.facts, isinstance(subject, ServerSubject)
    name = f"{facts.product} {facts.version}".strip() or f"a {subject.who}"
    return {
        "kind": subject.who, "name": name,
        "product": facts.product or None, "version": facts.version or None,
        "place": endpoint(subject.target.host, subject.target.port) if is_server else None,
        "queues": subject.queues.means if is_server else None,
        "mechanisms": [*facts.mechanisms] if is_server else None,
    }  # fmt: skip


def _clause(result: Result, verbose: bool) -> dict[str, Any]:
    """Return a clause; its frames if they show a break, or if all are asked for."""
    case = result.case
    shows = verbose or result.verdict in (BROKEN, DISPUTED_)
    frames = result.trace[-FRAMES_MAX:] if shows else []
    return {
        "id": case.id, "who": case.who, "level": case.level, "words": case.words,
        "verdict": result.verdict, "expected": result.expected, "found": result.found,
        "reason": result.reason, "seconds": round(result.seconds, 3),
        "frames": [of_frame(frame) | {"text": shown(frame)} for frame in frames],
    }  # fmt: skip


def read(place: str) -> dict[str, Any]:
    """Return the document of a directory, or of a file.

    Raises:
        UsageError: it is none.
        OSError: it cannot be read.
    """
    file = Path(place) / FILE if Path(place).is_dir() else Path(place)
    try:
        found = json.loads(file.read_bytes())
        mark = found["schema"]
    except (ValueError, TypeError, KeyError):
        mark = None
    if isinstance(mark, dict) and mark.get("name") == NAME and mark != _MARK:
        raise UsageError(f"{file} is of another version of quiver-conform: {mark.get('version')}")
    if mark != _MARK:
        raise UsageError(f"{file} is no document of quiver-conform")
    document: dict[str, Any] = found
    return document
