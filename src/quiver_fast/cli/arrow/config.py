"""The configuration in a summary: which arrow was asked to do what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quiver_fast.arrow.amqp.message_fields import parse_properties
from quiver_fast.cli.arrow.plan import ArrowPlan


def summary_config(plan: ArrowPlan, output_dir: Path) -> dict[str, Any]:
    """Return the ``config`` of a summary: upstream's keys in order, then ours; no secrets."""
    options = plan.options
    return {
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
        "duration": options.duration,
        "count": options.count,
        "rate": options.rate,
        "body_size": options.body_size,
        "credit_window": options.credit_window,
        "transaction_size": options.transaction_size,
        "durable": options.durable,
        "set_message_id": options.set_message_id,
        "scheme": plan.url.scheme,
        "username": options.username,
        "cert": options.cert,
        "trust_store": options.trust_store,
        "tls_verify": options.tls_verify if plan.url.secure else None,
        "sasl_mechanisms": options.sasl_mechanisms,
        "rate_steps": options.rate_steps,
        "body_file": options.body_file,
        "warmup": options.warmup,
        "backlog": plan.backlog,
        "presettled": options.presettled,
        "priority": options.priority,
        "ttl": options.ttl,
        "subject": options.subject,
        "group_id": options.group_id,
        "properties": parse_properties(options.properties or ""),
        "receive_delay": options.receive_delay,
        "pause": options.pause,
        "release": options.release,
        "reject": options.reject,
        "streaming": options.streaming,
        "record_format": plan.record_format,
        "settlement": options.settlement,
        "time_unit": options.time_unit,
        "max_frame_size": options.max_frame_size,
        "spin": options.spin,
        "tail_from": plan.tail_from,
        "filter": plan.filter,
        "exit_when": plan.exit_when,
        "prelude": list(plan.prelude),
        "run_id": plan.run_id,
        "run_start": plan.run_start,
        "drain_timeout": plan.drain_timeout,
    } | ({} if plan.ends is None else {"ends": plan.ends})
