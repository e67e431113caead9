"""The address that a queue has on the broker at hand."""

from __future__ import annotations

QUEUES = "/queues/"
"""The prefix of a queue's percent-encoded name in RabbitMQ's second kind of address."""

_EXCHANGES = "/exchanges/"
"""That of an exchange's name, behind which the routing key may follow."""


def has_paths(product: str | None, version: str | None) -> bool:
    """Say whether a peer is RabbitMQ 4 or later, whose addresses are paths of URLs.

    Args:
        product: of the properties in the peer's open frame.
        version: likewise.
    """
    major = (version or "").partition(".")[0]
    return product == "RabbitMQ" and major.isdecimal() and int(major) >= 4


def exchange_of(path: str) -> tuple[str, str] | None:
    """Return the exchange and the routing key of an address of RabbitMQ 4; None of another one."""
    from urllib.parse import unquote

    address = path if path.startswith("/") else f"/{path}"
    name, _, key = address.removeprefix(_EXCHANGES).partition("/")
    return (unquote(name), unquote(key)) if address.startswith(_EXCHANGES) else None


def node_address(path: str, product: str | None, version: str | None) -> str:
    """Return the address of a node at a peer, for the path of a URL.

    A URL's path has lost its first "/", which RabbitMQ 4 needs: there ``queues/q0`` becomes
    ``/queues/q0``. So does ``q0``, which RabbitMQ would take for a deprecated address of its
    first kind. An address that begins with "/" does not change.
    """
    if path.startswith("/") or not has_paths(product, version):
        return path
    if f"/{path}".startswith((QUEUES, _EXCHANGES)):
        return f"/{path}"
    # Imported here, because it would slow down the start of every arrow.
    from urllib.parse import quote

    return QUEUES + quote(path, safe="")
