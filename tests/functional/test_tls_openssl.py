"""TLS at the socket, with `openssl s_server` and `openssl s_client` at the other end."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.certificates import Certificates
from support.tls_layer import (
    AGAIN,
    ANY,
    END,
    FAILED,
    POLLOUT,
    REQUIRED,
    Context,
    Layer,
    compile_layer,
)

VERSIONS = ["-tls1_2", "-tls1_3"]
PATIENCE = 60


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compile_layer(tmp_path_factory.mktemp("layer"))


class Program:
    """An `openssl s_…`, whose standard input is its side's words and commands."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            ["openssl", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.said = b""

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    @property
    def output(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def listen_to(self) -> bool:
        """Take a part of what it says; return whether there was anything."""
        data = os.read(self.output, 65536)
        self.said += data
        return data != b""

    def wait_for(self, word: bytes) -> None:
        while word not in self.said:
            assert select.select([self.output], [], [], PATIENCE)[0], self.said
            assert self.listen_to(), self.said


@contextmanager
def running(*words: str) -> Iterator[Program]:
    program = Program(*words)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.communicate()


@contextmanager
def layer_over(sock: socket.socket, context: Context, host: str | None = None) -> Iterator[Layer]:
    layer = Layer(context, sock, host)
    try:
        yield layer
    finally:
        layer.free()
        context.free()


def drive(layer: Layer, program: Program, done: Callable[[bytes], bool]) -> bytes:
    """Read both ends until ``done`` says so of what the layer has read."""
    got = b""
    while not done(got):
        writing = [layer.sock] if layer.events & POLLOUT else []
        ready = select.select([layer.sock, program.output], writing, [], PATIENCE)
        assert any(ready), f"nothing goes on: {got!r} {program.said!r}"
        if program.output in ready[0]:
            program.listen_to()
        if layer.sock in ready[0] or layer.sock in ready[1]:
            data = layer.read()
            assert data not in (END, FAILED), layer.failure
            got += data if isinstance(data, bytes) else b""
            layer.flush()
    return got


@contextmanager
def against_server(
    library: ctypes.CDLL, certificates: Certificates, *words: str
) -> Iterator[tuple[Layer, Program]]:
    """A layer as a client, whose handshake with an `openssl s_server` is done."""
    keys = ["-cert", certificates.server.cert, "-key", certificates.server.key]
    with running("s_server", "-accept", "127.0.0.1:0", *keys, *words) as program:
        program.wait_for(b"ACCEPT 127.0.0.1:")
        while b"\n" not in program.said.partition(b"ACCEPT ")[2]:
            program.listen_to()
        port = int(program.said.partition(b"ACCEPT 127.0.0.1:")[2].split()[0])
        sock = socket.create_connection(("127.0.0.1", port))
        context = Context(library, server=False, store=certificates.authority, peer=REQUIRED)
        with layer_over(sock, context, "localhost") as layer:
            layer.handshake()
            drive(layer, program, lambda _: bool(layer.established))
            yield layer, program


@contextmanager
def against_client(
    library: ctypes.CDLL, certificates: Certificates, *words: str
) -> Iterator[tuple[Layer, Program]]:
    """A layer as a server, whose handshake with an `openssl s_client` is done."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = "{}:{}".format(*listener.getsockname())
        trust = ["-CAfile", certificates.authority, "-verify_return_error"]
        with running("s_client", "-connect", address, *trust, *words) as program:
            sock, _ = listener.accept()
            keys = {"cert": certificates.server.cert, "key": certificates.server.key}
            with layer_over(sock, Context(library, server=True, **keys)) as layer:
                drive(layer, program, lambda _: bool(layer.established))
                yield layer, program


def talk(layer: Layer, program: Program, count: int) -> None:
    """Let a line go each way."""
    line = b"line %d of the layer\n" % count
    left = line
    while left:
        taken = layer.write(left)
        assert taken >= 0, layer.failure
        left = left[taken:]
        if left:
            # A new handshake has to come to its end first.
            take_records(layer)
    drive(layer, program, lambda _: line in program.said)
    program.say(b"line %d of the program" % count)
    wanted = b"line %d of the program\n" % count
    assert drive(layer, program, lambda got: got.endswith(b"\n")) == wanted


def take_records(layer: Layer) -> None:
    """Wait for records that bring nothing to read."""
    assert select.select([layer.sock], [], [], PATIENCE)[0]
    assert layer.read() == AGAIN, layer.failure


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("against", [against_server, against_client])
def test_lines_go_both_ways(
    library: ctypes.CDLL, certificates: Certificates, version: str, against: Callable[..., object]
) -> None:
    with against(library, certificates, version) as (layer, program):  # type: ignore[attr-defined]
        talk(layer, program, 1)
        assert layer.facts.protocol == b"TLSv1." + version[-1:].encode()


@pytest.mark.parametrize("command", [b"k", b"K"])
@pytest.mark.parametrize("against", [against_server, against_client])
def test_keys_are_updated_in_mid_stream(
    library: ctypes.CDLL, certificates: Certificates, command: bytes,
    against: Callable[..., object],
) -> None:  # fmt: skip
    """K asks for the layer's new keys too (RFC 8446, 4.6.3)."""
    with against(library, certificates, "-tls1_3") as (layer, program):  # type: ignore[attr-defined]
        for count in range(3):
            talk(layer, program, count)
            program.say(command)
            take_records(layer)
        talk(layer, program, 9)


def test_a_server_that_negotiates_again(library: ctypes.CDLL, certificates: Certificates) -> None:
    with against_server(library, certificates, "-tls1_2") as (layer, program):
        talk(layer, program, 1)
        program.say(b"r")
        take_records(layer)
        talk(layer, program, 2)


def test_a_program_that_dies_is_a_cut(library: ctypes.CDLL, certificates: Certificates) -> None:
    with against_server(library, certificates) as (layer, program):
        talk(layer, program, 1)
        program.process.kill()
        data: bytes | int = AGAIN
        while data == AGAIN:
            assert select.select([layer.sock], [], [], PATIENCE)[0]
            data = layer.read()
        assert data == END
        assert layer.truncated


def test_the_close_of_tls_ends_the_program(
    library: ctypes.CDLL, certificates: Certificates
) -> None:
    with against_client(library, certificates) as (layer, program):
        talk(layer, program, 1)
        assert layer.close() == 1
        program.wait_for(b"closed")


def test_a_reset_in_the_handshake(library: ctypes.CDLL, certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        here, _ = listener.accept()
    with layer_over(here, Context(library, server=True, peer=ANY)) as layer:
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        there.close()
        assert layer.handshake() == FAILED
        assert layer.socket_error == errno.ECONNRESET
        assert layer.failure == "connection lost: Connection reset by peer"
