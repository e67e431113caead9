"""Who was at the other end of the arrows' connections, as their reports have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quiver_fast.arguments import endpoint

OTHER_END = "the other end"


def peers_of(ends: Iterable[Mapping[str, Any] | None], *, peer_to_peer: bool) -> list[str]:
    """Return product, version and address of the peers, each once.

    Args:
        ends: summaries of arrows. A foreign arrow has no report: nothing is known of its peer.
        peer_to_peer: the arrows were connected to each other.
    """
    if peer_to_peer:
        return [OTHER_END]
    reports = [(end or {}).get("arrow") or {} for end in ends]
    found = [_peer_text(report.get("peer")) for report in reports]
    return list(dict.fromkeys(text for text in found if text))


def _peer_text(peer: Any) -> str | None:
    if not isinstance(peer, Mapping):
        return None
    address, port = _word(peer.get("address")), peer.get("port")
    place = endpoint(address, port) if address and isinstance(port, int) else None
    return " at ".join(word for word in (_name(peer), place) if word) or None


def _name(peer: Mapping[str, Any]) -> str | None:
    words = [_word(peer.get("product")), _word(peer.get("version"))]
    if any(words):
        return " ".join(word for word in words if word)
    container = _word(peer.get("container"))
    return f"{container} (its container id; it names no product)" if container else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
