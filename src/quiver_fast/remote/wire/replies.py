"""Replies of a queue's server, read leniently: the RFC's own examples are not all YAML (B.10).

A reply may begin with comments and document markers (``--- !!data``), and a comment may
follow a number. An unreadable reply is a `PeerError` of one line.
"""

from __future__ import annotations

import base64
import binascii
import re

from quiver_fast.errors import PeerError

Value = str | bytes

# The first bytes of other servers, for a wrong port.
_OTHER_PROTOCOLS = {b"AMQP": "AMQP", b"HTTP": "HTTP", b"\x15\x03": "TLS", b"SSH-": "SSH"}
_PREAMBLE = re.compile(rb"(?:[ \t\r]*(?:(?:#|---|\.\.\.)[^\n]*)?\n)*")
_EXCEPTION = re.compile(
    r'exception:\s*!(?:[\w$]+\.)*([\w$]+)\s*\{\s*message: "(.*)", stackTrace', re.S
)
_INTEGER = rb"([+-]?[0-9]{1,19})"
_LINE_END = rb"[ \t\r]*(?:#[^\n]*)?$"
_TID = re.compile(rb'^[ \t]*"?tid"?:[ \t]*"?' + _INTEGER + rb'"?' + _LINE_END, re.M)
_INDEX = re.compile(rb"index:[ \t]*" + _INTEGER + _LINE_END, re.M)
_LAST_INDEX = re.compile(rb"reply:[ \t]*" + _INTEGER + _LINE_END, re.M)
# After a brace or comma, because a host of the csp may be named `cid` or `end`.
_CID = re.compile(rb"[{,]\s*cid:\s*" + _INTEGER + rb"\s*[,}]")
_START = re.compile(rb"[{,]\s*start:\s*" + _INTEGER + rb"\s*[,}]")
_END = re.compile(rb"[{,]\s*end:\s*" + _INTEGER + rb"\s*[,}]")
_ENTRIES = re.compile(rb"^reply:[ \t\r]*(?:#[^\n]*)?\n(?=  - )", re.M)
_NO_ENTRIES = re.compile(rb"^reply:\s*(?:\[\s*\])?\s*\Z", re.M)


def foreign_protocol(header: bytes) -> str:
    """Return the protocol of a peer whose first four bytes are not a frame's header (B.1)."""
    for opening, name in _OTHER_PROTOCOLS.items():
        if header.startswith(opening):
            return f"it speaks {name}, not csp"
    return ""


def text_of(document: bytes) -> bytes:
    """Return a data document without the comments and markers before its first key."""
    found = _PREAMBLE.match(document)
    return document[found.end() :] if found else document


def tid_of(document: bytes, peer: str) -> int:
    """Return the tid of a meta-data document; `PeerError` if it has none."""
    return _number(_TID.search(document), document, peer)


def index_of(reply: bytes, peer: str) -> int:
    """Return the index of an ``index:`` reply; `PeerError` if it is none."""
    return _number(_INDEX.match(reply), reply, peer)


def last_index_of(reply: bytes, peer: str) -> int:
    """Return the number in the reply to ``lastWrittenIndex``; `PeerError` if it is none."""
    return _number(_LAST_INDEX.match(reply), reply, peer)


def cid_of(reply: bytes, peer: str) -> int:
    """Return the cid in a create event's reply; `PeerError` if it has none."""
    return _number(_CID.search(reply), reply, peer)


def start_of(reply: bytes, peer: str) -> int:
    """Return the queue's first index, from the reply to a ``createTailer``."""
    return _number(_START.search(reply), reply, peer)


def end_of(reply: bytes, peer: str) -> int:
    """Return the index after the queue's last entry, from the reply to a ``createTailer``."""
    return _number(_END.search(reply), reply, peer)


def message_of(reply: bytes) -> str:
    """Return an exception's class and message as one line; any other reply as malformed."""
    found = _EXCEPTION.match(reply.decode("utf-8", "replace"))
    if found is None:
        return _malformed(reply)
    message = found[2].replace('\\"', '"').replace("\\\\", "\\")
    return f"{found[1]}: {' '.join(message.split())}"


def entries_of(reply: bytes, peer: str) -> tuple[int, list[Value]]:
    """Return the first index and the values of a reply to ``hasNext``.

    Raises:
        PeerError: the reply is malformed.
    """
    first = index_of(reply, peer)
    if _NO_ENTRIES.search(reply):
        return first, []
    found = _ENTRIES.search(reply)
    if found is None:
        raise PeerError(f"{peer}: {_malformed(reply)}")
    try:
        text = reply[found.end() :].decode()
        # An entry's further lines are indented by four more blanks than stored.
        texts = ("\n" + text.rstrip(" ").removesuffix("\n")).split("\n  - ")[1:]
        return first, [_value(text) for text in texts]
    except (UnicodeDecodeError, binascii.Error):
        raise PeerError(f"{peer}: {_malformed(reply)}") from None


def _value(text: str) -> Value:
    if text.startswith("!!binary "):
        return base64.b64decode(text.removeprefix("!!binary ").strip().strip('"'), validate=True)
    # A carriage return alone is a line break too, and was indented before CR LF's.
    return text.replace("\n    ", "\n").replace("\r    ", "\r")


def _number(found: re.Match[bytes] | None, document: bytes, peer: str) -> int:
    if found is None:
        raise PeerError(f"{peer}: {_malformed(document)}")
    return int(found[1])


def _malformed(document: bytes) -> str:
    return f"a malformed reply: {document[:200]!r}"
