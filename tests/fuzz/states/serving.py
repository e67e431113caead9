"""Servers to fuzz, in eight configurations, and honest clients of them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

from support.certificates import make_certificates
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite
from tests.fuzz.states.state import NUMBER

SECONDS = 30.0
# So many scenarios have one server.
BATCH = 40
# What files need until a link is answered, and all others.
ANSWER_SECONDS = 5.0
TURNS = 20
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Setup(NamedTuple):
    """A server's options."""

    name: str
    keys: dict[str, object] = {}  # noqa: RUF012  # never changed
    stored: bool = False
    user: bool = False
    tls: bool = False
    connects: bool = False


SETUPS = [
    Setup("plain"),
    Setup("stored", stored=True),
    Setup("connects", connects=True),
    Setup("small", {"max_frame_size": 512, "max_sessions": 4, "max_links": 10, "credit": 5,
                    "queue_limit": 65536, "max_transactions": 2, "max_message_size": 60_000}),
    Setup("user", {"user": "user", "password": "pencil"}, user=True),
    Setup("large", {"max_frame_size": 131072, "stream_sessions": "shared"}),
    Setup("group", {"durability": "group"}, stored=True),
    Setup("tls", tls=True),
]  # fmt: skip


def setup_of(seed: int) -> Setup:
    return SETUPS[seed // BATCH % len(SETUPS)]


class Finding(NamedTuple):
    """What went wrong: its kind, which is the same for the same fault, and all of it."""

    kind: str
    text: str

    def same(self, other: Finding) -> bool:
        """Say whether both are of one kind; a crash may have other frames."""
        return self.kind == other.kind or self.kind[:6] == other.kind[:6] == "crash "


class Honest(FrameClient):
    """An honest client, through TLS and SASL."""

    def __init__(self, server: Serving) -> None:
        super().__init__(server.port, timeout=SECONDS)
        self.socket = server.wrapped(self.socket)
        if server.setup.user:
            assert self.authenticate("PLAIN", b"\0user\0pencil").fields["code"] == 0

    def opened(self, container: str) -> Honest:
        self.open(container_id=container)
        self.begin(incoming_window=2**31 - 1)
        return self

    def ping(self) -> None:
        """Have the server answer a flow."""
        self.send("flow", incoming_window=2**31 - 1, next_incoming_id=0, next_outgoing_id=0,
                  outgoing_window=1000, echo=True)  # fmt: skip
        while self.read().name != "flow":
            pass

    def drain(self, address: str) -> list[int]:
        """Take all messages of a queue; return their numbers."""
        self.attach_receiver(address, handle=9, name=address)
        self.give_credit(100_000, handle=9, incoming_window=2**31 - 1, drain=True)
        numbers, content, first = [], b"", 0
        while True:
            came = self.read()
            if came.name == "flow" and not came.fields.get("link_credit", 0):
                return numbers
            if came.name != "transfer":
                continue
            content += came.payload
            first = came.fields.get("delivery_id", first)
            if not came.fields.get("more"):
                found, content = NUMBER.search(content[-4000:]), b""
                numbers += [int(found[1])] if found else []
                self.send("disposition", role=True, first=first,
                          settled=True, state=composite("accepted"))  # fmt: skip


class Serving:
    """A server with a setup, and the honest connection that waits for it."""

    def __init__(self, setup: Setup, environment: dict[str, str]) -> None:
        self.setup = setup
        self.stack = contextlib.ExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="quiver-states-", dir=MEMORY))
        self.stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.listener: socket.socket | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        keys = {"idle_timeout": 0, "handshake_timeout": 600, **setup.keys}
        if setup.stored:
            keys["store"] = self.folder / "store"
        if setup.connects:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.listener.settimeout(SECONDS)
            keys["connect"] = f"127.0.0.1:{self.listener.getsockname()[1]}"
        if setup.tls:
            keys |= {"scheme": "amqps", **make_certificates(self.folder).server.keys()}
        self.server: Server = self.stack.enter_context(
            running_server(self.folder, end_seconds=SECONDS, environment=environment, **keys)
        )
        self.port = self.server.port
        self.honest = Honest(self).opened("waits")

    def wrapped(self, sock: socket.socket) -> socket.socket:
        return self.context.wrap_socket(sock) if self.setup.tls else sock

    def turn(self) -> None:
        """Return when the server has read all that was written, and has written its answers."""
        self.honest.ping()
        self.honest.ping()

    def death(self) -> Finding | None:
        """Return how the server crashed; None if it lives."""
        process = self.server.running.process
        if process.poll() is None:
            return None
        said = self.server.running.stderr_so_far()
        return Finding(*crash(process.returncode, said))

    def end(self) -> Finding | None:
        """End the server; return what is wrong with its end."""
        self.honest.socket.close()
        if self.listener is not None:
            self.listener.close()
        try:
            self.stack.close()
        except AssertionError as error:
            said = self.server.running.command and str(error)
            return Finding(*crash(0, said.replace("\\n", "\n")))
        return None


def crash(code: int, said: str) -> tuple[str, str]:
    """Return the kind of a crash, and all that the server said."""
    found = re.search(r"AddressSanitizer:? ([\w-]+)|runtime error: ([^\n]*)|(LeakSanitizer)", said)
    frames = [name for name in re.findall(r"#\d+ 0x\w+ in (\S+)", said)
              if not re.match("__(interceptor|asan|ubsan|sanitizer)", name)]  # fmt: skip
    what = next((each for each in found.groups() if each), "") if found else (
        said.strip().splitlines() or [""])[-1][-200:]  # fmt: skip
    # Cython's names have those of all packages, each with its length.
    short = [re.sub(r"__pyx_\w*_\d+[a-z]+_", "", name) for name in frames[:3]]
    return f"crash {code}: {what} {' < '.join(short)}", said
