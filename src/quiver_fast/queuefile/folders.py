"""The folder of a queue's address, and the reverse: each address has exactly one folder.

An address of plain segments is its own folder: ``orders/eu`` is in ``orders/eu/``. An address
that cannot be a folder's name, or is the name of a queue's own file, is escaped:

    a byte that is no letter, digit, ``_``, ``-`` or ``.``     ``%`` and two hex digits
    ``.`` in ``.``, ``..`` and in names of a queue's files     ``%2E``
    an empty segment                                           ``%``
    ``/`` after the eighth segment                             ``%2F``
    a segment that is too long for a folder                    folders of 64 bytes each, one
                                                               in the other, all but the last
                                                               with ``%`` at the end of the
                                                               name; ``.`` is ``%2E`` there
"""

from __future__ import annotations

import re

from quiver_fast.errors import UsageError

# Bytes of an address.
ADDRESS_MAX = 1024
SEGMENTS_MAX, SEGMENT_MAX = 8, 128
# The most bytes of a folder's name, and of a piece of a longer segment.
NAME_MAX, PIECE = 255, 64
PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
# The names of files in a queue's folder; also for file systems that ignore case.
OWN = re.compile(rb"\.{1,2}|.*\.(cq4t?|partial|damaged)|\.quiver\.lock", re.DOTALL | re.IGNORECASE)
ESCAPED = re.compile(rb"%([0-9A-F]{2})")


def is_plain(name: str) -> bool:
    """Say whether a name is one of a remote queue (B.3): 1 to 8 segments of plain characters."""
    segments = name.encode("utf-8", "replace").split(b"/")
    return (
        len(segments) <= SEGMENTS_MAX
        and len(name) <= ADDRESS_MAX
        and all(
            0 < len(segment) <= SEGMENT_MAX
            and segment not in (b".", b"..")
            and PLAIN.issuperset(segment)
            for segment in segments
        )
    )


def folder_of(address: str) -> str:
    """Return the folder of an address, relative to the data directory.

    Raises:
        UsageError: no queue can have that address.
    """
    try:
        content = address.encode()
    except UnicodeEncodeError:
        raise UsageError(f"an address is UTF-8, and {address!r} is not") from None
    if not 0 < len(content) <= ADDRESS_MAX or 0 in content:
        raise UsageError(f"an address has 1 to {ADDRESS_MAX} bytes, and no NUL")
    return "/".join(_folders_of(segment) for segment in content.split(b"/", SEGMENTS_MAX - 1))


def _folders_of(segment: bytes) -> str:
    """Return the folder of a segment, or its nested folders."""
    if not segment:
        return "%"
    letters = _escaped(segment, PLAIN - set(b".") if OWN.fullmatch(segment) else PLAIN)
    if len(segment) <= SEGMENT_MAX and len("".join(letters)) < NAME_MAX:
        return "".join(letters)
    # A piece may be a special name such as "..", although its segment is not.
    letters = _escaped(segment, PLAIN - set(b"."))
    pieces = [letters[at : at + PIECE] for at in range(0, len(letters), PIECE)]
    return "%/".join("".join(piece) for piece in pieces)


def _escaped(segment: bytes, plain: frozenset[int]) -> list[str]:
    return [chr(byte) if byte in plain else f"%{byte:02X}" for byte in segment]


def address_of(folder: str) -> str | None:
    """Return the address of a folder; None if it has none."""
    segments, begun = [], ""
    for name in folder.split("/"):
        if name.endswith("%") and len(name) > 1:
            begun += name[:-1]
            continue
        segments.append(begun + name.removesuffix("%"))
        begun = ""
    content = "/".join(segments).encode("utf-8", "surrogateescape")
    content = ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), content)
    try:
        address = content.decode()
        return address if folder_of(address) == folder else None
    except (UnicodeDecodeError, UsageError):
        return None
