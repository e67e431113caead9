"""Message ids the obvious way: what the parser must make of them."""

import re

from quiver_fast.records.ids import key_or_own

INT64_MAX = 2**63 - 1
_WORD = 2**64


def exact_id(text):
    """Return the id in a field of a record: an int, or bytes with the writer's escapes undone."""
    if re.fullmatch(rb"0|[1-9][0-9]*", text) and int(text) <= INT64_MAX:
        return int(text)
    return re.sub(rb"%(2C|0A|0D|25|53|73)", lambda match: bytes.fromhex(match[1].decode()), text)


def halves(exact, key=None):
    """Return (upper, lower) half of an id, which is an int or bytes."""
    if isinstance(exact, int):
        return 0, exact
    low, high = siphash(exact, key_or_own(key))
    return (high | 2**63) - _WORD, low % 2**63


def halves_of(text):
    """Return the same of the id in a field of a record."""
    return halves(exact_id(text))


def siphash(text, key):
    """Return both words of SipHash-2-4-128, the first one first."""
    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [
        k0 ^ int.from_bytes(b"somepseu", "big"),
        k1 ^ int.from_bytes(b"dorandom", "big") ^ 0xEE,
        k0 ^ int.from_bytes(b"lygenera", "big"),
        k1 ^ int.from_bytes(b"tedbytes", "big"),
    ]
    padded = text + b"\0" * (7 - len(text) % 8) + bytes([len(text) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xEE
    _rounds(v, 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    _rounds(v, 4)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v, count):
    for _ in range(count):
        for a, b, c, d, left, right in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
            v[a], v[c] = (v[a] + v[b]) % _WORD, (v[c] + v[d]) % _WORD
            v[b], v[d] = _rotated(v[b], left) ^ v[a], _rotated(v[d], right) ^ v[c]
            v[a] = _rotated(v[a], 32)


def _rotated(word, bits):
    return (word << bits | word >> (64 - bits)) % _WORD
