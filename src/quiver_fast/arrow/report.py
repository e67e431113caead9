"""The report of an arrow's run: its own counts, and what proves a loss."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING

from quiver_fast.errors import QuiverError
from quiver_fast.queuefile.durability import boot_id

if TYPE_CHECKING:
    from quiver_fast.arrow.amqp.connection import Connection
    from quiver_fast.arrow.contract import ArrowConfig

UNKNOWN_PEER = dict.fromkeys(("product", "version", "container", "address", "port"))


def write_report(
    config: ArrowConfig,
    path: str,
    connection: Connection | None,
    endpoint: object | None,
    reason: str | None,
) -> None:
    """Write the run's own counts as JSON, renamed into place when complete."""
    report: dict[str, object] = {
        "operation": config.operation,
        "complete": reason is None,
        "reason": reason,
        "record_format": config.record_format,
        "time_unit": config.time_unit,
    }
    for name in (
        "sent", "received", "older", "foreign", "accepted", "rejected", "released", "modified",
        "unsettled", "aborted", "transactions",
    ):  # fmt: skip
        report[name] = getattr(endpoint, name, 0)
    report["queue_empty"] = getattr(endpoint, "queue_empty", None)
    report |= _moments(endpoint)
    # Over csp the endpoint has the connection.
    identity = getattr(connection or endpoint, "identity", None)
    report["peer"] = identity() if identity else UNKNOWN_PEER
    report["address"] = getattr(endpoint, "address", None)
    if config.has_many_ends:
        report["ends"] = {"first": config.first_end, "counts": getattr(endpoint, "counts", [])}
    if config.purge:
        report["purged"] = getattr(endpoint, "purged", 0)
    if config.streaming:
        report["bytes"] = getattr(endpoint, "bytes", 0)
    course = getattr(endpoint, "course", None)
    delays = getattr(course, "delays", None)
    if delays is not None:
        report["schedule"] = {
            "rate": float(config.rate) or None,
            "late_us": delays.late_us(),
            "late_by_us": delays.late_by_us(),
            "over_time": delays.over_time(),
            "sending_ns": getattr(course, "sending_ns", None),
        }
    staged = f"{path}.{os.getpid()}"
    try:
        with open(staged, "w", encoding="utf-8") as stream:
            json.dump(report, stream)
        os.replace(staged, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(staged)
        raise QuiverError(f"cannot write the report {path}: {error.strerror}") from None


def _moments(endpoint: object | None) -> dict[str, object]:
    """Return when a sender's messages were all settled, and when a queue was found empty.

    The clocks of two arrows are one if they have the same ``boot``.
    """
    boot = f"{boot_id():x}" if boot_id() else None
    settled = getattr(endpoint, "has_all_outcomes", False)
    drained = getattr(endpoint, "drained_at", None)
    if drained is not None:
        drained = {"boot": boot, "ns": drained[0], "senders_ended": drained[1]}
    return {
        "settled_at": {"boot": boot, "ns": time.monotonic_ns()} if settled else None,
        "drained_at": drained,
    }
