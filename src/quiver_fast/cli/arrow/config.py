"""The configuration in a summary: the arrow and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quiver_fast.arrow.amqp.message_fields import parse_properties
from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.options.arrow import SUMMARY_OPTIONS

_OF_LOAD = (
    "duration", "count", "rate", "body_size", "credit_window", "transaction_size", "durable",
    "set_message_id",
)  # fmt: skip


def summary_config(plan: ArrowPlan, output_dir: Path) -> dict[str, Any]:
    """Return the ``config`` of a summary: upstream's keys in order, then ours; no secrets."""
    options = plan.options
    upstream = {
        "impl": plan.implementation.name,
        "url": plan.url.shown,
        "output_dir": str(output_dir),
        "timeout": options.timeout,
        "connection_mode": "server" if plan.server else "client",
        "channel_mode": "passive" if plan.passive else "active",
        "operation": plan.operation,
        "id": plan.id,
        "host": plan.url.host,
        "port": str(plan.port),
        "path": plan.url.path,
        **{name: getattr(options, name) for name in _OF_LOAD},
        "scheme": plan.url.scheme,
    }
    told = {option.name: plan.value(option) for option in SUMMARY_OPTIONS}
    ours = {
        "tls_verify": options.tls_verify if plan.url.secure else None,
        "properties": parse_properties(options.properties or ""),
        "record_format": plan.record_format,
        "prelude": list(plan.prelude),
        "run_id": plan.run_id,
        "run_start": plan.run_start,
    }
    ends = {} if plan.ends is None else {"ends": plan.ends}
    return upstream | told | ours | ends
