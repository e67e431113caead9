"""What a server lacks: each probe gets a view of it, and says by `Unobservable` why it cannot."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from quiver_fast.conform.case import Unobservable
from quiver_fast.conform.wire.frames import composite
from quiver_fast.security.scram import SCRAM_HASHES

# Milliseconds; a longer time-out is not waited for.
_IDLE_MAX = 8000


def _demand(fact: object, reason: str) -> None:
    if not fact:
        raise Unobservable(reason)


def _probe_coordinator(server: Any) -> None:
    work = server.controller()
    target = work.peer.theirs["attach"]["target"]
    # A router takes the link, too, as one to no node.
    if target.name != "coordinator":
        work.declare()


def _probe_anonymous(server: Any) -> None:
    offered = server.facts.open.get("offered_capabilities") or ()
    _demand("ANONYMOUS-RELAY" in offered, "it does not offer ANONYMOUS-RELAY")


def _probe_dynamic(server: Any) -> None:
    server.receiver("", source=composite("source", dynamic=True))


def _probe_queue(server: Any) -> None:
    server.queue()
    try:
        server.filled()
    except Unobservable as reason:
        raise Unobservable(f"it keeps no messages: {reason}") from None
    server.left()


def _probe_copy(server: Any) -> None:
    source = composite("source", address=server.queue(), distribution_mode="copy")
    said = server.receiver(source=source).theirs["attach"]["source"].fields
    _demand(said.get("distribution_mode") == "copy", "it does not offer the mode copy")


def _probe_pinned(server: Any) -> None:
    peer = server.session()
    try:
        peer.attach_receiver(f"quiver-conform-{secrets.token_hex(8)}")
    except Unobservable:
        return
    raise Unobservable("it takes any address")


def _probe_idle(server: Any) -> None:
    idle = server.facts.open.get("idle_time_out") or 0
    _demand(idle, "it has no idle-time-out")
    _demand(idle <= _IDLE_MAX, f"its idle-time-out is {idle:,} ms")


PROBES: dict[str, Callable[[Any], object]] = {
    "drain": lambda server: server.left(),
    "address": lambda server: server.queue(),
    "queue": _probe_queue,
    "coordinator": _probe_coordinator,
    "anonymous": _probe_anonymous,
    "dynamic": _probe_dynamic,
    "copy": _probe_copy,
    "users": lambda server: _demand(server.target.user, "no user is given"),
    "tls": lambda server: _demand(server.target.tls, "the URL is not amqps"),
    "scram": lambda server: _demand(
        set(SCRAM_HASHES) & set(server.facts.mechanisms), "it does not offer SCRAM"
    ),
    "pinned": _probe_pinned,
    "idle": _probe_idle,
}
