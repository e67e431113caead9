"""The C of TLS at the socket, and a peer in Python whose bytes a test moves."""

from __future__ import annotations

import ctypes
import os
import shlex
import socket
import ssl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from buildtools import toolchain
from support.certificates import Identity

SOURCE = Path(__file__).resolve().parents[2] / "src" / "quiver_fast" / "amqp"

END, AGAIN, FAILED = 0, -1, -2
ANY, REQUESTED, REQUIRED = range(3)
POLLIN, POLLOUT = 1, 4
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Part(ctypes.Structure):
    """An iovec."""

    _fields_ = [("base", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Facts(ctypes.Structure):
    """A tls_facts_t."""

    _fields_ = [
        ("protocol", ctypes.c_char_p),
        ("cipher", ctypes.c_char_p),
        ("strength", ctypes.c_int),
        ("resumed", ctypes.c_bool),
        ("kernel_sends", ctypes.c_bool),
        ("kernel_receives", ctypes.c_bool),
    ]


def compile_layer(folder: Path) -> ctypes.CDLL:
    """Compile the C into a library of its own; ``CFLAGS`` may ask for sanitizers."""
    openssl = toolchain.openssl()
    assert openssl is not None, "these tests need OpenSSL's headers"
    files = [str(path) for path in SOURCE.glob("tls_*.c") if path.name != "tls_absent.c"]
    # Calls of `send` go by way of a function that a test can have refuse.
    files += ["-Dsend=refusing_send", str(Path(__file__).parent / "refusing_send.c")]
    library = folder / "libtls-layer.so"
    flags = ["-O1", "-g", "-std=gnu11", *shlex.split(os.environ.get("CFLAGS", ""))]
    command = [*toolchain.compiler(), *flags, "-shared", "-fPIC", *openssl.compile_flags, *files]
    subprocess.run([*command, "-o", str(library), *openssl.link_flags], check=True)
    layer = ctypes.CDLL(str(library))
    pointer, text, count = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ssize_t
    for name, result, arguments in [
        ("context_new", pointer, [ctypes.c_bool]),
        ("context_free", None, [pointer]),
        ("context_identify", ctypes.c_bool, [pointer, text, text]),
        ("context_trust", ctypes.c_bool, [pointer, text, ctypes.c_int, ctypes.c_bool]),
        ("context_failure", text, [pointer]),
        ("new", pointer, [pointer, ctypes.c_int, text]),
        ("free", None, [pointer]),
        ("handshake", ctypes.c_int, [pointer]),
        ("read", count, [pointer, pointer, ctypes.c_size_t]),
        ("write", count, [pointer, ctypes.POINTER(Part), ctypes.c_int]),
        ("flush", ctypes.c_int, [pointer]),
        ("close", ctypes.c_int, [pointer]),
        ("has_input", ctypes.c_bool, [pointer]),
        ("events", ctypes.c_short, [pointer]),
        ("established", ctypes.c_bool, [pointer]),
        ("truncated", ctypes.c_bool, [pointer]),
        ("socket_error", ctypes.c_int, [pointer]),
        ("failure", text, [pointer]),
        ("get_facts", None, [pointer, ctypes.POINTER(Facts)]),
        ("peer_subject", text, [pointer]),
    ]:
        function = getattr(layer, f"tls_{name}")
        function.restype, function.argtypes = result, arguments
    return layer


class Context:
    """A tls_context_t."""

    def __init__(
        self,
        layer: ctypes.CDLL,
        *,
        server: bool,
        cert: str | None = None,
        key: str | None = None,
        store: str | None = None,
        peer: int = ANY,
        old: bool = False,
    ) -> None:
        self.layer = layer
        self.pointer = layer.tls_context_new(server)
        self.failure = ""
        fine = True
        if cert is not None:
            fine = layer.tls_context_identify(self.pointer, cert.encode(), (key or cert).encode())
        fine = fine and layer.tls_context_trust(self.pointer, store and store.encode(), peer, old)
        if not fine:
            self.failure = layer.tls_context_failure(self.pointer).decode()

    def free(self) -> None:
        self.layer.tls_context_free(self.pointer)


class Layer:
    """A tls_t over one end of a pair of sockets."""

    def __init__(self, context: Context, sock: socket.socket, host: str | None = None) -> None:
        self.layer = context.layer
        self.sock = sock
        self.pointer = self.layer.tls_new(
            context.pointer, sock.fileno(), host.encode() if host is not None else None
        )

    def free(self) -> None:
        self.layer.tls_free(self.pointer)
        self.sock.close()

    def handshake(self) -> int:
        return int(self.layer.tls_handshake(self.pointer))

    def read(self, size: int = 65536) -> bytes | int:
        """Return bytes, or the code that says why there are none."""
        buffer = ctypes.create_string_buffer(size)
        count = self.layer.tls_read(self.pointer, buffer, size)
        return buffer.raw[:count] if count > 0 else int(count)

    def write(self, *parts: bytes) -> int:
        array = (Part * len(parts))(*[Part(part, len(part)) for part in parts])
        return int(self.layer.tls_write(self.pointer, array, len(parts)))

    def flush(self) -> int:
        return int(self.layer.tls_flush(self.pointer))

    def close(self) -> int:
        return int(self.layer.tls_close(self.pointer))

    def refuse(self, count: int) -> None:
        """Have the next writes to any socket find it full."""
        ctypes.c_int.in_dll(self.layer, "refusals").value = count

    @property
    def failure(self) -> str:
        return str(self.layer.tls_failure(self.pointer).decode())

    @property
    def subject(self) -> str | None:
        subject = self.layer.tls_peer_subject(self.pointer)
        return subject.decode() if subject is not None else None

    @property
    def facts(self) -> Facts:
        facts = Facts()
        self.layer.tls_get_facts(self.pointer, ctypes.byref(facts))
        return facts

    def __getattr__(self, name: str) -> bool | int:
        """Return the result of a function whose only argument is the connection."""
        answer = getattr(self.layer, f"tls_{name}")(self.pointer)
        assert isinstance(answer, (bool, int))
        return answer


class PythonPeer:
    """The other end: Python's TLS over buffers, and the socket that a test moves bytes to."""

    def __init__(
        self,
        context: ssl.SSLContext,
        sock: socket.socket,
        *,
        server: bool,
        host: str | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.sock = sock
        sock.setblocking(False)
        self.tls = context.wrap_bio(
            self.incoming, self.outgoing, server_side=server, server_hostname=host, session=session
        )
        self.established = False
        self.error: ssl.SSLError | None = None
        self.ended = False
        # Bytes that the socket has not taken yet.
        self._unsent = b""

    def step(self) -> None:
        """Go on with the handshake, unless it has failed."""
        # On a second call, OpenSSL 3.5 has no reason.
        if self.error is not None:
            return
        try:
            self.tls.do_handshake()
            self.established = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = error

    def read(self, size: int = 65536) -> bytes:
        try:
            data = self.tls.read(size)
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLZeroReturnError:
            data = b""
        self.ended = not data
        return data

    def receive(self, size: int = 65536) -> int:
        """Take bytes from the socket; return how many."""
        try:
            data = self.sock.recv(size)
        except BlockingIOError:
            return 0
        except ConnectionResetError:
            return 0
        self.incoming.write(data)
        return len(data)

    def send(self, size: int = 1 << 20) -> int:
        """Give the socket the output of TLS; return how many bytes it took."""
        self._unsent += self.outgoing.read()
        try:
            sent = self.sock.send(self._unsent[:size]) if self._unsent else 0
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            return 0
        self._unsent = self._unsent[sent:]
        return sent

    @property
    def unsent(self) -> int:
        return len(self._unsent) + self.outgoing.pending


def all_of(sizes: Sequence[int]) -> Callable[[], int]:
    """Return a function that gives the sizes in turn, again and again."""
    turn = 0

    def next_size() -> int:
        nonlocal turn
        turn += 1
        return sizes[turn % len(sizes)]

    return next_size


def shake_hands(layer: Layer, peer: PythonPeer, sizes: Sequence[int] = (1 << 20,)) -> int:
    """Let both go on until both are done, or one failed; return how many steps the layer took."""
    size = all_of(sizes)
    steps, idle = 0, 0
    while idle < 3:
        before = (peer.established, layer.established, peer.error is None)
        result = layer.handshake()
        steps += 1
        moved = peer.receive(size())
        if peer.error is None and not peer.established:
            peer.step()
        moved += peer.send(size())
        if (layer.established and peer.established and not peer.unsent) or result in (FAILED, END):
            break
        after = (peer.established, layer.established, peer.error is None)
        idle = 0 if moved or before != after else idle + 1
    return steps


def python_context(
    *,
    server: bool,
    identity: Identity | None = None,
    trust: str | None = None,
    version: ssl.TLSVersion | None = None,
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    if identity is not None:
        context.load_cert_chain(identity.cert, identity.key)
    if trust is not None:
        context.load_verify_locations(trust)
        context.verify_mode = ssl.CERT_REQUIRED
    elif not server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


Connect = Callable[..., tuple[Layer, PythonPeer]]


def established(connect: Connect, **options: object) -> tuple[Layer, PythonPeer]:
    layer, peer = connect(**options)
    shake_hands(layer, peer)
    assert layer.established, layer.failure
    assert peer.established
    return layer, peer
