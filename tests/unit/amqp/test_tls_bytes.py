"""Bytes through TLS at the socket: any sizes, both ways at once, to any end."""

from __future__ import annotations

import ctypes
import errno
import socket
import ssl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.certificates import Certificates
from support.examples import examples
from support.tls_layer import (
    AGAIN,
    END,
    FAILED,
    POLLIN,
    POLLOUT,
    REQUIRED,
    VERSIONS,
    Connect,
    Context,
    Layer,
    PythonPeer,
    all_of,
    established,
    python_context,
    shake_hands,
)

KERNEL_BUFFER = 4096


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_much_both_ways_at_once(connect: Connect, server: bool, version: ssl.TLSVersion) -> None:
    """Neither end waits for the other to read first: a full socket stops neither."""
    layer, peer = established(connect, server=server, theirs={"version": version})
    ours, theirs = bytes(range(256)) * 8192, bytes(range(255, -1, -1)) * 8192
    sent, received, got = 0, b"", b""
    peer.tls.write(theirs)
    stopped = 0
    while len(received) < len(theirs) or len(got) < len(ours):
        taken = layer.write(ours[sent : sent + 100_000]) if sent < len(ours) else 0
        assert taken >= 0, layer.failure
        stopped += taken < min(100_000, len(ours) - sent)
        sent += taken
        assert layer.flush() in (1, AGAIN)
        data = layer.read()
        received += data if isinstance(data, bytes) else b""
        peer.send()
        peer.receive()
        while data := peer.read():
            got += data
    assert (received, got) == (theirs, ours)
    assert stopped > 0
    assert layer.events == POLLIN


def test_what_a_full_socket_does_not_take(connect: Connect) -> None:
    layer, peer = established(connect)
    data = bytes(1 << 20)
    sent = 0
    while taken := layer.write(data):
        sent += taken
    assert layer.flush() == AGAIN
    assert layer.events == POLLIN | POLLOUT
    assert layer.write(data) == 0
    got = 0
    while got < sent:
        peer.receive()
        got += len(peer.read())
        layer.flush()
    assert got == sent
    assert layer.events == POLLIN


@pytest.mark.parametrize("refusals", range(1, 5))
@pytest.mark.parametrize("size", [1, 16_000, 300_000])
def test_who_was_not_taken_is_called_again(connect: Connect, refusals: int, size: int) -> None:
    """A socket may have room again at any moment; what is left then waits for an event."""
    layer, peer = established(connect)
    # As much waits already as may.
    layer.refuse(1000)
    sent = 0
    while taken := layer.write(bytes(16_000)):
        sent += taken
    layer.refuse(0)
    layer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    layer.refuse(refusals)
    left = size
    while left:
        taken = layer.write(bytes(left))
        assert taken >= 0, layer.failure
        left -= taken
        sent += taken
        assert left == 0 or layer.events & POLLOUT
        peer.receive(1 << 20)
    layer.refuse(0)
    while layer.flush() != 1:
        peer.receive(1 << 20)
    got = 0
    while got < sent:
        peer.receive(1 << 20)
        while data := peer.read():
            got += len(data)
    assert got == sent


def test_small_parts_share_a_record(connect: Connect) -> None:
    layer, peer = established(connect)
    parts = [bytes([n]) * 100 for n in range(160)]
    assert layer.write(*parts, b"", b"end") == 16_003
    got, on_the_wire = b"", 0
    while len(got) < 16_003:
        on_the_wire += peer.receive()
        got += peer.read()
        layer.flush()
    assert got == b"".join(parts) + b"end"
    assert on_the_wire < 16_003 + 100


def test_more_than_the_caller_has_room_for(connect: Connect) -> None:
    layer, peer = established(connect)
    peer.tls.write(b"x" * 10_000)
    peer.send()
    while peer.unsent:
        layer.read(1)
        peer.send()
    assert layer.read(10) == b"x" * 10
    assert layer.has_input
    while isinstance(data := layer.read(1000), bytes):
        assert set(data) == {ord("x")}
    assert data == AGAIN
    assert not layer.has_input


pieces = st.lists(st.integers(1, 40_000), min_size=1, max_size=8)


@settings(max_examples=examples(60))
@given(
    server=st.booleans(),
    version=st.sampled_from(VERSIONS),
    outgoing=pieces,
    incoming=pieces,
    room=pieces,
    wire=st.lists(st.integers(1, 20_000), min_size=1, max_size=8),
)
def test_any_sizes_bring_all_bytes_in_order(
    library: ctypes.CDLL,
    certificates: Certificates,
    server: bool,
    version: ssl.TLSVersion,
    outgoing: list[int],
    incoming: list[int],
    room: list[int],
    wire: list[int],
) -> None:
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER)
    identity = certificates.server
    keys = {"cert": identity.cert, "key": identity.key} if server else {}
    context = Context(library, server=server, **keys)
    layer = Layer(context, left)
    theirs = python_context(
        server=not server, identity=None if server else identity, version=version
    )
    peer = PythonPeer(theirs, right, server=not server)
    try:
        shake_hands(layer, peer)
        parts = [bytes([n % 251]) * size for n, size in enumerate(outgoing)]
        whole, expected = b"".join(parts), bytes(sum(incoming))
        for size in incoming:
            peer.tls.write(bytes(size))
        size, space, sent = all_of(wire), all_of(room), 0
        received, got = b"", b""
        while len(received) < len(expected) or len(got) < len(whole):
            if sent == 0:
                sent = layer.write(*parts)
            elif sent < len(whole):
                sent += layer.write(whole[sent:])
            data = layer.read(space())
            received += data if isinstance(data, bytes) else b""
            peer.send(size())
            peer.receive(size())
            got += peer.read(space())
            layer.flush()
        assert got == whole
        assert received == expected
    finally:
        layer.free()
        right.close()
        context.free()


# -- What goes on beside the bytes


def test_sessions_are_taken_up_again(connect: Connect, library: ctypes.CDLL,
                                     certificates: Certificates) -> None:  # fmt: skip
    ours = Context(
        library, server=True, cert=certificates.server.cert, key=certificates.server.key,
        store=certificates.authority, peer=REQUIRED,
    )  # fmt: skip
    theirs = python_context(server=False, identity=certificates.client)
    first, peer = connect(server=True, shared=(ours, theirs))
    shake_hands(first, peer)
    assert first.write(b"hello") == 5
    peer.receive()
    assert peer.read() == b"hello"
    second, again = connect(server=True, shared=(ours, theirs), session=peer.tls.session)
    shake_hands(second, again)
    assert second.established
    assert second.facts.resumed
    assert not first.facts.resumed
    assert second.subject == first.subject


@pytest.mark.parametrize("server", [False, True])
def test_the_close_of_tls_is_no_cut(connect: Connect, server: bool) -> None:
    layer, peer = established(connect, server=server)
    peer.tls.write(b"last words")
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    peer.send()
    peer.sock.shutdown(socket.SHUT_WR)
    assert layer.read() == b"last words"
    assert layer.read() == END
    assert layer.read() == END
    assert not layer.truncated
    assert layer.failure == ""


def test_an_end_without_the_close_of_tls_is_a_cut(connect: Connect) -> None:
    layer, peer = established(connect)
    peer.tls.write(b"last words")
    peer.send()
    peer.sock.shutdown(socket.SHUT_WR)
    assert layer.read() == b"last words"
    assert layer.read() == END
    assert layer.truncated
    assert layer.failure == "the peer cut the connection without the close of TLS"


def test_our_close_comes_after_all_bytes(connect: Connect) -> None:
    layer, peer = established(connect)
    sent = layer.write(bytes(1 << 20))
    assert layer.close() == AGAIN
    got = 0
    while not peer.ended:
        peer.receive()
        got += len(peer.read())
        layer.flush()
    assert got == sent
    assert layer.close() == 1


def test_a_peer_that_is_gone_raises_no_signal(connect: Connect) -> None:
    """Python ignores SIGPIPE, so that the flag is looked for: without it this fails nowhere."""
    layer, peer = established(connect)
    peer.sock.close()
    while (taken := layer.write(bytes(1000))) > 0:
        pass
    assert taken == FAILED
    assert layer.socket_error == errno.EPIPE
    assert layer.failure == "connection lost: Broken pipe"


def test_damaged_records(connect: Connect) -> None:
    layer, peer = established(connect)
    peer.tls.write(b"x" * 100)
    data = bytearray(peer.outgoing.read())
    data[-1] ^= 1
    peer.sock.send(data)
    assert layer.read() == FAILED
    assert "bad record mac" in layer.failure
