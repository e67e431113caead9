"""Summaries of the wrappers, made by hand."""

from __future__ import annotations

from typing import Any


def config(operation: str = "receive", **changes: Any) -> dict[str, Any]:
    """Return the configuration of a summary: its usual keys, with ``changes``."""
    return {
        "operation": operation,
        "impl": "pyfast",
        "url": "amqp://localhost/q",
        "output_dir": "/tmp/run",
        "connection_mode": "client",
        "count": 0,
        "duration": 0,
        "body_size": 100,
        "credit_window": 1000,
        "transaction_size": 0,
        "durable": False,
        "set_message_id": False,
    } | changes
