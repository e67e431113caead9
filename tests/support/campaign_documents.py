"""Documents of a search, a sweep, a set, a churn and a hold."""

from __future__ import annotations

from typing import Any

FIGURES = {"message_rate": 1000.0, "latency_p50": 0.2, "latency_p99": 1.5, "latency_max": 3.0}
LATENCY = {"count": 200, "p50_us": 120.0, "p90_us": 300.0, "p99_us": 900.0, "p99_9_us": 990.0,
           "max_us": 990.0}  # fmt: skip
ENVIRONMENT = {"host": "host.example", "cpu": "A Processor", "cpu_count": 2, "command": "quiver"}


def trial(number: int, rate: int, reason: str | None = None) -> dict[str, Any]:
    figures = FIGURES | {"message_rate": float(rate)}
    return {"name": f"run-{number:02}", "rate": rate, "confirms": False,
            "sustained": reason is None, "reason": reason, "figures": figures}  # fmt: skip


def search_document(**found: Any) -> dict[str, Any]:
    steps = [trial(1, 1000), trial(2, 2000), trial(3, 4000, "the queue grew by 12 messages/s")]
    answer = {"rate": 2100, "low": 1900, "high": 2300, "confirmed": False, "steps": steps,
              "confirmation": None, "reason": f"at 4,000/s: {steps[2]['reason']}"}  # fmt: skip
    return {"target": "pyfast, //host/q0", "conditions": ["p99<10ms"], "reason": None,
            "environment": ENVIRONMENT, "found_rate": answer | found}  # fmt: skip


def churn_document(**changed: Any) -> dict[str, Any]:
    return {
        "target": "//host/q0", "of": "connection", "rate": 50, "duration": 4,
        "attempts": {"due": 200, "begun": 200, "succeeded": 197, "failed": 3},
        "achieved_rate": 49.25, "latency": LATENCY, "failures": [{"reason": "refused", "count": 3}],
        "steps": [{"step": "tcp", "latency": LATENCY}], "reason": None,
        "server": {"memory_begin": 25e6, "memory_end": 30e6, "cpu_seconds": 0.4},
        "environment": ENVIRONMENT,
    } | changed  # fmt: skip


def hold_document() -> dict[str, Any]:
    cost = {"memory_begin": 25e6, "memory_end": 27e6, "memory_each": 20_000.0, "cpu_opening": 0.01,
            "cpu_holding": 0.03}  # fmt: skip
    return {
        "target": "//host/q0", "connections": 100, "duration": 3, "reason": None,
        "opening": {"seconds": 0.4, "opened": 100, "failed": 0, "latency": LATENCY},
        "holding": {"seconds": 3.0, "lost": 2}, "failures": [], "server": cost, "own": cost,
        "losses": [{"reason": "the server closed it", "count": 2}], "environment": ENVIRONMENT,
    }  # fmt: skip


def set_document() -> dict[str, Any]:
    figures = {
        name: {"unit": "messages/s" if name == "message_rate" else "ms", "median": value,
               "interval": [value * 0.9, value * 1.1]}
        for name, value in FIGURES.items()
    }  # fmt: skip
    return {
        "sides": {"candidate": "pyfast, //host/q0"}, "complete_runs": 2, "asked_runs": 2,
        "reason": None, "summary": {"candidate": {"runs": 2, "figures": figures}},
    }  # fmt: skip


def sweep_document() -> dict[str, Any]:
    points = [
        {"name": f"run-{n:02}", "values": {"rate": str(1000 * n)}, "sustained": n < 3,
         "complete": True, "reason": None if n < 3 else "the sender missed its schedule",
         "figures": FIGURES | {"message_rate": 1000.0 * n}}
        for n in range(1, 4)
    ]  # fmt: skip
    return {"target": "pyfast, //host/q0", "options": ["rate"], "points": points, "reason": None}


DOCUMENTS = {
    "rate.json": (search_document, 3), "sweep.json": (sweep_document, 3),
    "set.json": (set_document, 2), "churn.json": (churn_document, 0),
    "hold.json": (hold_document, 0),
}  # fmt: skip
