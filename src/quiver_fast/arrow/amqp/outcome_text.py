"""Outcomes other than accepted: in one line of text, and the state *modified* as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiver_fast.words import counted

if TYPE_CHECKING:
    from quiver_fast.arrow.run.account import Account
    from quiver_fast.receiving import Modify

# The property of our server's open frame: the most bytes in a queue.
QUEUE_LIMIT = b"queue-limit"


def not_accepted(peer: str, sent: Account) -> str:
    """Say how many messages were not accepted, and why the first was not.

    Args:
        peer: the name of the peer.
        sent: the account of a sender, or of several.
    """
    why = f" (first: {sent.first_refusal})" if sent.first_refusal else ""
    return (
        f"{peer}: {sent.refused} of {counted(sent.sent, 'message', ('was', 'were'))} not accepted: "
        f"{sent.rejected} rejected, "
        f"{sent.released} released, {sent.modified} modified{why}"
    )


def without_outcome(connection: Any, missing: int, sent: int, held_back: bool) -> str:
    """Say how many messages have no outcome, and why: most likely their queue is full.

    Args:
        connection: to a broker, or to an arrow.
        missing: the messages without an outcome.
        sent: all messages.
        held_back: the peer takes no more messages.
    """
    text = f"{connection.peer}: {missing} of {counted(sent, 'message', ('has', 'have'))} no outcome"
    limit = connection.remote_property(QUEUE_LIMIT)
    if limit and held_back:
        return (
            f"{text}: the queue is full, because the receiver is slower than the sender. "
            f"The server keeps up to {limit} bytes in a queue (--queue-limit)"
        )
    product = connection.remote_property(b"product") or "the peer"
    return (
        f"{text}, and {product} sends none. Perhaps the queue is full, because the receiver is "
        "slower than the sender (the limit is the broker's; of quiver-server: --queue-limit)"
    )


def modified_state(modify: Modify) -> bytes:
    """Return the state *modified* (part 3.4.5) with the fields that were asked for."""
    # Few receivers modify messages, and an arrow must start fast.
    from quiver_fast.conform.wire.codec import Value, encode

    pairs = [(Value("symbol", key), Value("string", text)) for key, text in modify.annotations]
    flags = (Value("boolean", modify.failed), Value("boolean", modify.undeliverable))
    fields = (*flags, Value("map", tuple(pairs)))[: 3 if pairs else 2]
    return encode(Value("described", (Value("ulong", 0x27), Value("list", fields))))
