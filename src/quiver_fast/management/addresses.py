"""The address that a queue has on the broker at hand."""

from __future__ import annotations

QUEUES = "/queues/"
"""What precedes a queue's percent-encoded name in RabbitMQ's second kind of address."""

_EXCHANGES = "/exchanges/"


def has_paths(product: str | None, version: str | None) -> bool:
    """Say whether a peer is RabbitMQ 4 or later, whose addresses are paths of URLs.

    Args:
        product: as the peer says in the properties of its open frame.
        version: likewise.
    """
    major = (version or "").partition(".")[0]
    return product == "RabbitMQ" and major.isdecimal() and int(major) >= 4


def node_address(path: str, product: str | None, version: str | None) -> str:
    """Return the address of the node that ``path``, the path of a URL, means to a peer.

    A URL's path loses its first "/", which RabbitMQ 4 wants: there ``queues/q0`` means
    ``/queues/q0``. ``q0`` means that too: RabbitMQ takes it for an address of its first kind,
    which it calls deprecated. An address that begins with "/" stays as it is.
    """
    if path.startswith("/") or not has_paths(product, version):
        return path
    if f"/{path}".startswith((QUEUES, _EXCHANGES)):
        return f"/{path}"
    # Imported only here: this import would make the start of every arrow slower.
    from urllib.parse import quote

    return QUEUES + quote(path, safe="")
