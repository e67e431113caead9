"""The JSON document of analysed runs: the wrappers' shape, and our sections beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.figures.latency import latency_of
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import ending, run_statistics
from quiver_fast.analysis.read.answer_file import Answer
from quiver_fast.analysis.read.summary_file import workload_beside
from quiver_fast.schemas import marked


def run_document(
    run: RunData, interval_seconds: float | None, window_seconds: int | None = None
) -> dict[str, Any]:
    """Return the document of one run: the keys of `quiver --json`, ``name`` and ``analysis``.

    ``complete`` and ``reason`` are None if there is no wrapper's summary.
    """
    ends = [end for end in (run.sender, run.receiver) if end is not None]
    config: dict[str, Any] = (ends[-1]["config"] or {}) if ends else {}
    both = run.sender is not None and run.receiver is not None
    complete, reason = ending(run)
    return {
        "name": run.name,
        "peer_to_peer": config["connection_mode"] == "server" if config and both else None,
        "run_id": config.get("run_id"),
        "output_dir": config.get("output_dir"),
        "complete": complete,
        "reason": reason,
        **run_sections(run),
        "sender": run.sender,
        "receiver": run.receiver,
        "workload": None if not ends else workload_beside(Path((run.ends or ends)[-1]["file"])),
        "analysis": run_statistics(run, interval_seconds, window_seconds),
    } | (
        {}
        if run.ends is None
        else {"ends": run.ends, "fairness": run.fairness, "queues": run.queues}
        | ({} if run.fan_out is None else {"fan_out": run.fan_out})
    )


def run_sections(run: RunData | None) -> dict[str, Any]:
    """Return the keys of a document that are about both ends; None for no run."""
    sections = {} if run is None else run.sections
    sender = (None if run is None else run.sender) or {}
    return {
        "results": sections.get("results"),
        "latency": None if run is None else latency_of(run.receiver),
        "delivery": None if run is None else run.delivery,
        **{key: sections.get(key) for key in ("drain", "queue_growth", "steps")},
        **{key: sections[key] for key in ("backlog", "ledger") if key in sections},
        **{key: sender[key] for key in ("faults", "relay") if key in sender},
    }


def whole_document(
    documents: Sequence[dict[str, Any]],
    backend: str,
    comparison: dict[str, Any] | None,
    change_points: dict[str, Any] | None,
    thresholds: list[dict[str, Any]],
    answers: Sequence[Answer] = (),
) -> dict[str, Any]:
    """Return the document that ``--json`` prints.

    For one run this is its document; several runs are in ``runs``. Beside them are
    ``engine``, ``comparison``, ``change_points``, ``thresholds`` and ``analysed_with``, and
    ``answers`` where campaigns have some.
    """
    body = dict(documents[0]) if len(documents) == 1 else {"runs": list(documents)}
    return (
        marked("analysis", body)
        | {
            "engine": backend,
            "comparison": comparison,
            "change_points": change_points,
            "thresholds": thresholds,
            # The command is left out: it differs between backends, which have the same results.
            "analysed_with": {k: v for k, v in environment().items() if k != "command"},
        }
        | ({"answers": [_answer(one) for one in answers]} if answers else {})
    )


def _answer(answer: Answer) -> dict[str, Any]:
    """Return the document of a campaign without its runs, which are in this one."""
    runs = ("runs", "baseline_runs")
    document = {key: value for key, value in answer.document.items() if key not in runs}
    return {"kind": answer.kind, "file": str(answer.place), "document": document}
