"""The report of an arrow's run: its own counts, and what proves a loss."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING

from quiver_fast.arrow.run.account import Account
from quiver_fast.errors import QuiverError
from quiver_fast.queuefile.durability import boot_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quiver_fast.arrow.contract import ArrowConfig
    from quiver_fast.arrow.run.delays import Delays

UNKNOWN_PEER = dict.fromkeys(("product", "version", "container", "address", "port"))


def write_report(
    config: ArrowConfig,
    path: str,
    *,
    peer: Mapping[str, object] | None,
    account: Account | None,
    delays: Delays | None,
    failures: Sequence[Mapping[str, object]] | None,
    reason: str | None,
) -> None:
    """Write the run's own counts as JSON, renamed into place when complete.

    Args:
        config: the configuration of the arrow.
        path: where to write.
        peer: see `Connection.identity`; None if there was no connection.
        account: what the end did, or all ends; None if there was none.
        delays: how late messages left; None without a rate.
        failures: the lost connections of an arrow that connects again; else None.
        reason: why the run is not complete; None if it is.
    """
    did = account or Account()
    report: dict[str, object] = {
        "operation": config.operation,
        "complete": reason is None,
        "reason": reason,
        "record_format": config.record_format,
        "time_unit": config.time_unit,
        **did.outcomes,
        "queue_empty": did.queue_empty,
        **_moments(did),
        "peer": peer or UNKNOWN_PEER,
        "address": did.address,
    }
    if config.has_many_ends:
        report["ends"] = {"first": config.first_end, "counts": did.counts}
    if failures is not None:
        report |= {"resent": did.resent, "failures": failures}
    if config.purge:
        report["purged"] = did.purged
    if config.streaming:
        report["bytes"] = did.bytes
    if config.request_reply:
        sides = did.replies, {"replied": did.replied, "undelivered": did.undelivered}
        report["request_reply"] = sides[not config.sends]
    if config.sends and delays is not None:
        report["schedule"] = {
            "rate": float(config.rate) or None,
            "late_us": delays.late_us(),
            "late_by_us": delays.late_by_us(),
            "over_time": delays.over_time(),
            "sending_ns": did.sending_ns,
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


def _moments(did: Account) -> dict[str, object]:
    """Return when a sender's messages were all settled, and when a queue was found empty.

    The clocks of two arrows are one if they have the same ``boot``.
    """
    boot = f"{boot_id():x}" if boot_id() else None
    drained = did.drained_at and {
        "boot": boot, "ns": did.drained_at[0], "senders_ended": did.drained_at[1]
    }  # fmt: skip
    return {
        "settled_at": {"boot": boot, "ns": time.monotonic_ns()} if did.has_all_outcomes else None,
        "drained_at": drained,
    }
