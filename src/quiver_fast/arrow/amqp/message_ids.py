"""Message-ids that are no strings (AMQP 1.0 part 3.2.11 to 3.2.13), as text for the records."""

from __future__ import annotations

_ULONGS, _UUID, _BINARIES = (0x44, 0x53, 0x80), 0x98, (0xA0, 0xB0)


def id_as_text(code: int, raw: bytes) -> bytes | None:
    """Return an id as text; None if records cannot hold it.

    Args:
        code: the constructor of its type (part 1.6); 0 where there is no id.
        raw: its bytes.
    """
    if code == _UUID:
        import uuid

        return str(uuid.UUID(bytes=raw)).encode()
    if code in _BINARIES:
        return raw.hex().encode()
    if code in _ULONGS:
        return str(int.from_bytes(raw, "big")).encode()
    return None


def flaw_of_id(code: int) -> str:
    """Say why records cannot hold an id whose type has the constructor ``code``."""
    if code == 0:
        return (
            "has no message-id, which the records of revisions v1 and v2 need "
            "(record-format=v3 does without)"
        )
    return f"has a message-id of AMQP type {code:#04x}, which is no string, ulong, uuid or binary"
