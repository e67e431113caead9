"""quiver-fast: measure AMQP 1.0 messaging, fast and truthfully.

Importing this package imports nothing heavy; an arrow starts in milliseconds.
"""

from __future__ import annotations

__all__ = ["__version__", "features", "has"]

__version__ = "0.1.0"


def features() -> tuple[str, ...]:
    """Return the names of the features that this build has, in a fixed order.

    ``tls`` depends on OpenSSL at build time; the SASL mechanisms are our own
    and in every build.
    """
    from quiver_fast.amqp import tls

    always = ("sasl-anonymous", "sasl-plain", "sasl-external", "sasl-scram", "transactions")
    return (("tls", *always)) if tls.present() else always


def has(feature: str) -> bool:
    """Say whether this build has ``feature``, one of the names of :func:`features`."""
    return feature in features()
