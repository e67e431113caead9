"""Pairs of a TLS layer and a peer of Python's."""

from __future__ import annotations

import ctypes
import socket
import ssl
from collections.abc import Callable, Iterator

import pytest
from support.certificates import Certificates
from support.plane_layer import compile_plane
from support.tls_layer import (
    REQUIRED,
    Connect,
    Context,
    Layer,
    PythonPeer,
    compile_layer,
    python_context,
)

# Small buffers in the kernel, so that megabytes do not fit.
KERNEL_BUFFER = 4096


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compile_layer(tmp_path_factory.mktemp("layer"))


@pytest.fixture(scope="session")
def plane_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compile_plane(tmp_path_factory.mktemp("plane"))


@pytest.fixture
def connect(library: ctypes.CDLL, certificates: Certificates) -> Iterator[Connect]:
    """Return a function that makes a layer and a peer, whose handshake has not begun."""
    made: list[Callable[[], None]] = []

    def pair(
        *,
        server: bool = False,
        host: str | None = "localhost",
        ours: dict[str, object] | None = None,
        theirs: dict[str, object] | None = None,
        session: ssl.SSLSession | None = None,
        shared: tuple[Context, ssl.SSLContext] | None = None,
    ) -> tuple[Layer, PythonPeer]:
        left, right = socket.socketpair()
        for sock in (left, right):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER)
        if shared is None:
            defaults: dict[str, object] = (
                {"cert": certificates.server.cert, "key": certificates.server.key}
                if server
                else {"store": certificates.authority, "peer": REQUIRED}
            )
            context = Context(library, server=server, **{**defaults, **(ours or {})})
            assert context.failure == ""
            identity = None if server else certificates.server
            their_own = {"identity": identity, **(theirs or {})}
            shared = (context, python_context(server=not server, **their_own))
        layer = Layer(shared[0], left, None if server else host)
        peer = PythonPeer(
            shared[1], right, server=not server, host="localhost" if server else None,
            session=session,
        )  # fmt: skip
        if shared[0].pointer:
            made.extend([layer.free, right.close])
        return layer, peer

    yield pair
    for close in made:
        close()
