"""Documents of quiver-conform for pages: all verdicts, long words, frames of two connections."""

from __future__ import annotations

from collections import Counter
from typing import Any

_ENVIRONMENT = {
    "quiver_fast": "0.1.0", "python": "3.11", "kernel": "Linux 6.1", "cpu_count": 8,
    "cpu": "A Processor of Eight Cores", "host": "host.example",
    "command": "quiver-conform //broker.example --html page.html",
}  # fmt: skip
_VERDICTS = ("kept", "broken", "disputed", "unobservable")


def conformance_document(name: str, shift: int = 0) -> dict[str, Any]:
    """Return a document with each verdict at each part of the standard."""
    ids = ("2.2/1", "2.6.6/1", "2.10/1", "2.10/2", "3.2/1", "4.2/1", "5.3/1", "contract.records/1")
    clauses = [
        _clause(name, number, _VERDICTS[(number + shift) % 4]) for number, name in enumerate(ids)
    ]
    counted = Counter(one["verdict"] for one in clauses)
    return {
        "schema": {"name": "conformance", "version": 1},
        "subject": {
            "kind": "server", "name": f"{name} 4.1.0", "product": name, "version": "4.1.0",
            "place": "broker.example:5672", "queues": "management",
            "mechanisms": ["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"],
        },
        "options": {"only": [], "strict": False, "address": None},
        "began": "2026-11-28T16:30:00+00:00", "seconds": 3.2, "complete": True, "reason": None,
        "counts": {
            "kept": counted["kept"], "broken_must": counted["broken"], "broken_should": 0,
            "broken_contract": 0, "disputed": counted["disputed"],
            "unobservable": counted["unobservable"],
        },
        "clauses": clauses,
        "environment": _ENVIRONMENT,
    }  # fmt: skip


def _clause(name: str, number: int, verdict: str) -> dict[str, Any]:
    shows = verdict in ("broken", "disputed")
    reasons = {"disputed": "the clause can be read in two ways", "unobservable": "it has no queue"}
    return {
        "id": name, "who": "server", "level": "SHOULD" if number % 3 else "MUST",
        "words": "A detach that says closed is answered by one that says closed, and nothing else.",
        "verdict": verdict, "expected": "detach closed=true error=null" if shows else None,
        "found": "detach handle=0" if shows else None, "reason": reasons.get(verdict),
        "seconds": 0.1, "frames": [_frame(n) for n in range(6 * shows)],
    }  # fmt: skip


def _frame(number: int) -> dict[str, Any]:
    capabilities = ", ".join(f"a-capability-of-some-length-{n}" for n in range(8))
    return {
        "connection": number // 3, "at": number / 1000, "sent": number % 2 == 0, "name": "open",
        "channel": 0, "fields": {"container-id": "c"}, "payload": None,
        "text": f'open container-id="c{number}" offered-capabilities=[{capabilities}]',
    }  # fmt: skip
