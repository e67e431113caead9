"""Documents of the queue protocol, in slow and obvious code; and its server."""

from __future__ import annotations

import re
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from support.processes import Running, free_port

META, MORE, END_OF_STREAM = 0x40000000, 0x80000000, b"\0\0\0\xc0"


def document(body: bytes | str, bits: int = 0) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return struct.pack("<I", len(data) | bits) + data


def meta(**keys: object) -> bytes:
    quoted = {key: f'"{value}"' if key == "csp" else value for key, value in keys.items()}
    return document("".join(f"{key}: {value}\n" for key, value in quoted.items()), META)


def request(event: str | bytes, **keys: object) -> bytes:
    return meta(**keys) + document(event)


def documents(data: bytes) -> list[tuple[int, bytes]]:
    """Cut bytes into documents: (bits, body)."""
    found = []
    at = 0
    while at < len(data):
        (header,) = struct.unpack_from("<I", data, at)
        size = header & 0x3FFFFFFF
        assert len(data) >= at + 4 + size, "a document is cut short"
        found.append((header - size, data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


def replies(data: bytes) -> list[tuple[int, dict[str, object]]]:
    """Read replies as (tid, content), and check that each follows B.1 and is YAML."""
    found = []
    parts = documents(data)
    assert len(parts) % 2 == 0, "a reply is two documents"
    for (meta_bits, meta_body), (bits, body) in zip(parts[::2], parts[1::2], strict=True):
        assert meta_bits == META
        assert bits in (0, MORE)
        assert len(meta_body) % 4 == 0
        assert len(body) % 4 == 0
        assert re.fullmatch(rb"tid: [+-]?\d+\n *", meta_body)
        assert re.search(rb"\n {0,3}$", body)
        content = yaml.load(body, yaml.CBaseLoader)
        assert isinstance(content, dict)
        found.append((int(meta_body[4:]), content))
    return found


def reply(data: bytes) -> tuple[int, dict[str, object]]:
    """Read exactly one reply."""
    (only,) = replies(data)
    return only


def failure(data: bytes) -> tuple[int, str, str]:
    """Read one exception: tid, class, message."""
    ((_, meta_body), (_, body)) = documents(data)
    found = re.fullmatch(
        rb'exception: !([\w.]+) \{ message: ("(?:[^"\\]|\\.)*"), stackTrace: \[ \] \}\n *', body
    )
    assert found, body
    _, content = reply(data)
    assert content["exception"]["stackTrace"] == []
    return int(meta_body[4:]), found[1].decode(), content["exception"]["message"]


def server_command(store: Path, port: int, *options: str) -> list[str]:
    """Return the command of a queue server over a directory."""
    return [
        sys.executable, "-m", "quiver_fast.server.main", "scheme=csp", "host=127.0.0.1",
        f"port={port}", "path=", "ready-file=-", "quiet=1", f"store={store}", *options,
    ]  # fmt: skip


@contextmanager
def serving(store: Path, *options: str, port: int = 0, says: str = "") -> Iterator[int]:
    """Run a queue server over a directory, which says nothing but this; yields its port."""
    port = port or free_port()
    with Running(server_command(store, port, *options)) as server:
        server.wait_until_listening(port)
        yield port
        server.process.terminate()
        ended = server.wait()
        assert (ended.code, ended.stderr) == (0, says)


def receive(sock: socket.socket, count: int, timeout: float = 10.0) -> bytes:
    """Receive ``count`` replies, whole."""
    data = bytearray()
    deadline = time.monotonic() + timeout
    at = found = 0
    while found < 2 * count:
        sock.settimeout(max(0.01, deadline - time.monotonic()))
        more = sock.recv(1 << 20)
        assert more, f"closed after {bytes(data[-1000:])!r}"
        data += more
        while len(data) - at >= 4:
            end = at + 4 + (int.from_bytes(data[at : at + 4], "little") & 0x3FFFFFFF)
            if end > len(data):
                break
            at, found = end, found + 1
    return bytes(data)
