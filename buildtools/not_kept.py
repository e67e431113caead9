"""The clauses that our server or arrow does not keep on purpose, by the ids of their cases.

Tests demand that each of them is broken, so that a row goes when it is kept.
"""

from __future__ import annotations

from typing import NamedTuple


class NotKept(NamedTuple):
    """A clause that is not kept.

    Attributes:
        who: ``server``, ``arrow`` or ``both``.
        reason: why.
    """

    who: str
    reason: str


NOT_KEPT: dict[str, NotKept] = {
    "2.6.5/1": NotKept(
        "both",
        "frames that were under way when the detach was sent would end the links of others on "
        "that session. They are dropped, and their deliveries are released",
    ),
    "2.6.13/2": NotKept(
        "server",
        "it is refused, not ignored, so that a sender that waits for an outcome learns the reason",
    ),
    "3.2.10/1": NotKept(
        "both",
        "clients and brokers annotate with names of their own, and expect them to pass; the "
        "server acts on none",
    ),
    "3.5.3/3": NotKept(
        "server",
        "it is a random name, so nobody guesses another's node, and it is short",
    ),
}
