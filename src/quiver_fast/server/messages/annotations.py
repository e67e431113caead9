"""Message annotations merged into the bytes of a message, AMQP 1.0 parts 3.2.3 and 3.4.5."""

from __future__ import annotations

__all__ = ["merged"]

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS = 0x70, 0x71, 0x72
# Bytes of a value of fixed width, by the high half of its constructor (part 1.2.2).
FIXED = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
# Bytes of the size of the others.
SIZED = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
MAP8, MAP32, NULL, SYM8, SYM32 = 0xC1, 0xD1, 0x40, 0xA3, 0xB3


def merged(message: bytes, annotations: bytes) -> bytes:
    """Return the message with these annotations; of two with the same key, the new one.

    Args:
        message: encoded sections.
        annotations: an encoded map.

    Raises:
        ValueError: the annotations are no map, or the sections before the bare message cannot
            be read.
    """
    at = 0
    while at < len(message):
        code, start = _section(message, at)
        if code not in (HEADER, DELIVERY_ANNOTATIONS):
            break
        at = _end(message, start)
    else:
        code, start = 0, at
    pairs = {}
    rest = at
    if code == MESSAGE_ANNOTATIONS:
        rest = _end(message, start)
        pairs = _pairs(message[start:rest])
    pairs.update(_pairs(annotations))
    content = b"".join(key + value for key, value in pairs.values())
    head = bytes((0, 0x53, MESSAGE_ANNOTATIONS, MAP32))
    size, count = (number.to_bytes(4, "big") for number in (len(content) + 4, 2 * len(pairs)))
    return message[:at] + head + size + count + content + message[rest:]


def _section(data: bytes, at: int) -> tuple[int, int]:
    """Return a section's code, and where its value begins."""
    start = _end(data, at + 1)
    if data[at] or data[at + 1] not in (0x53, 0x80):
        raise ValueError("not a section")
    return int.from_bytes(data[at + 2 : start], "big"), start


def _end(data: bytes, at: int) -> int:
    """Return where the value ends that begins at ``at``."""
    if at >= len(data):
        raise ValueError("the value is cut short")
    constructor = data[at]
    at += 1
    if constructor == 0:
        if data[at : at + 1] == b"\0":
            raise ValueError("a descriptor has a descriptor")
        at = _end(data, at)
        if data[at : at + 1] == b"\0":
            raise ValueError("a value has two descriptors")
        return _end(data, at)
    if constructor >> 4 in FIXED:
        end = at + FIXED[constructor >> 4]
    else:
        width = SIZED.get(constructor >> 4, 0)
        if not width:
            raise ValueError(f"there is no constructor {constructor:#x}")
        end = at + width + int.from_bytes(data[at : at + width], "big")
    if end > len(data):
        raise ValueError("the value is cut short")
    return end


def _pairs(data: bytes) -> dict[bytes, tuple[bytes, bytes]]:
    """Return the encoded keys and values of a map, by what tells keys apart."""
    if data[:1] == bytes((NULL,)):
        return {}
    width = {bytes((MAP8,)): 1, bytes((MAP32,)): 4}.get(data[:1])
    if width is None:
        raise ValueError("not a map")
    at = 1 + 2 * width
    pairs = {}
    while at < len(data):
        middle = _end(data, at)
        end = _end(data, middle)
        key = data[at:middle]
        pairs[_identity(key)] = key, data[middle:end]
        at = end
    return pairs


def _identity(key: bytes) -> bytes:
    """Return a key that is the same for both encodings of a symbol."""
    if key[0] == SYM32:
        return bytes((SYM8,)) + key[5:]
    return key[:1] + key[2:] if key[0] == SYM8 else key
