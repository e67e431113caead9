"""The targets of fuzzing: for each a function of bytes, which raises if something is wrong.

`make fuzz TARGET=… TIME=…` gives them to libFuzzer, `test_corpora.py` replays what is kept:

    python tests/fuzz/targets.py TARGET FOLDER
"""

from __future__ import annotations

import atexit
import base64
import logging
import os
import shutil
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "unit")]

from support.frame_fuzz import PROLOGUE  # noqa: E402

from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, encode_frame  # noqa: E402
from quiver_fast.errors import OutputError, RecordError  # noqa: E402
from quiver_fast.records.compression import HEAD_SIZE, form_of  # noqa: E402
from quiver_fast.records.formats import OPERATIONS, RECORD_FORMATS  # noqa: E402

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
# Between the pieces of an input: frames, documents, or parts of a message.
CUT = b"~|~"
# A piece that begins with this is bytes as they are; others get the size that they need.
AS_IT_IS = b"\xff"
SECONDS = 20.0
INT64_MAX = 2**63 - 1
# How a flow frame begins (part 2.7.4).
FLOW = b"\0\x53\x13"
# Frames up to which the prologue of `frame_fuzz` has no transfer.
ATTACHED = 7


def scratch() -> Path:
    """Return a folder of this process's own."""
    folder = tempfile.mkdtemp(prefix="quiver-fuzz-", dir=MEMORY)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


class InProcess:
    """A server in a thread of this process, so that the fuzzer sees where it goes."""

    def __init__(self, *keys: str) -> None:
        from quiver_fast.loop.reactor import Reactor
        from quiver_fast.server.config import parse
        from quiver_fast.server.main import serve_on

        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        ready = scratch() / "ready"
        words = ["host=127.0.0.1", f"port={self.port}", "path=fuzz", f"ready-file={ready}",
                 "quiet=1", "queue-limit=1000000", *keys]  # fmt: skip
        reactor = Reactor()
        self.thread = threading.Thread(
            target=serve_on, args=(reactor, parse(words), None), daemon=True
        )
        self.thread.start()
        while not ready.exists():
            self.thread.join(0.01)
            assert self.thread.is_alive(), "the server did not start"

    def say(self, data: bytes, rest: bytes | None = None) -> None:
        """Give a connection of its own all bytes and their end, and read to its end.

        Args:
            data: sent at once.
            rest: sent when the server has given credit.
        """
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as sock:
            try:
                sock.sendall(data)
                if rest is not None:
                    said = b""
                    while FLOW not in said and (more := sock.recv(1 << 16)):
                        said += more
                    sock.sendall(rest)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):
                    pass
            except ConnectionError:
                pass
        assert self.thread.is_alive(), "the server ended"


def framed(piece: bytes, kind: int) -> bytes:
    """Return a frame: its channel's low byte, then its body."""
    if piece.startswith(AS_IT_IS):
        return piece[1:]
    channel, body = piece[:1] or b"\0", piece[1:]
    return struct.pack(">IBBBc", 8 + len(body), 2, kind, 0, channel) + body


def performatives() -> Callable[[bytes], None]:
    """Frames of AMQP: how far the peer behaves, then pieces that are frames."""
    server = InProcess()

    def run(data: bytes) -> None:
        steps = data[0] % (len(PROLOGUE) + 1) if data else 0
        frames = b"".join(framed(piece, 0) for piece in data[1:].split(CUT))
        if steps < ATTACHED:
            server.say((b"".join(PROLOGUE[:steps]) or AMQP_HEADER) + frames)
        else:
            rest = b"".join(PROLOGUE[ATTACHED:steps])
            server.say(b"".join(PROLOGUE[:ATTACHED]), rest + frames)

    return run


def message() -> Callable[[bytes], None]:
    """The sections of a message, each piece in a transfer of its own, and its consumer."""
    server = InProcess()
    start = b"".join(PROLOGUE[:ATTACHED])

    def run(data: bytes) -> None:
        parts = data.split(CUT)
        transfers = [
            encode_frame("transfer", handle=0, delivery_id=0, delivery_tag=b"0", payload=part,
                         more=number < len(parts))
            for number, part in enumerate(parts, 1)
        ]  # fmt: skip
        server.say(start, b"".join(transfers) + encode_frame("detach", handle=1, closed=True))

    return run


def sasl() -> Callable[[bytes], None]:
    """Frames of SASL, to a server that wants a password."""
    server = InProcess("user=user", "password=pencil", "allow-insecure-plain=1")
    login = encode_frame("sasl_init", mechanism="PLAIN", initial_response=b"\0user\0pencil")

    def run(data: bytes) -> None:
        server.say(SASL_HEADER + b"".join(framed(piece, 1) for piece in data.split(CUT)))
        # Otherwise failed logins would make the next inputs wait.
        server.say(SASL_HEADER + login)

    return run


def scanner() -> Callable[[bytes], None]:
    """The receiver's search in each message."""
    from quiver_fast.arrow.amqp.scanner import scan

    def run(data: bytes) -> None:
        result, _, code, content = scan(data)
        assert result in ("found", "more", "missing", "wrong-type", "malformed")
        assert code == 0 or content in data

    return run


def csp() -> Callable[[bytes], None]:
    """Documents of the remote queue protocol: pieces that are documents."""
    from support.remote import META, document, documents, reply, request

    from quiver_fast.queuefile.directory import QueueDirectory
    from quiver_fast.remote.serve.exchange import Exchange  # type: ignore[import-not-found]
    from quiver_fast.remote.serve.store import Store

    files = QueueDirectory(scratch())
    files.appender("q")
    # Otherwise each input makes queues.
    store = Store(files, create=False)

    def run(data: bytes) -> None:
        session, other = Exchange(store), Exchange(store)
        said = b""
        for piece in data.split(CUT):
            bits = META if piece[:1] == b"m" else 0
            raw = piece.startswith(AS_IT_IS)
            said += session.send(piece[1:] if raw else document(piece[1:], bits))
        said += session.half_close(100.0)
        documents(said)
        assert session.over
        assert reply(other.send(request("submit: mine", csp="//h/q#appender", tid=2)))[0] == 2

    return run


def textwire() -> Callable[[bytes], None]:
    """A text value, against the twin."""
    from textwire_twin import stored_form as slow_stored_form

    from quiver_fast.remote.wire.textwire import stored_form

    def run(data: bytes) -> None:
        if b"!!binary" in data:
            return
        try:
            found: bytes | None = stored_form(data)
        except ValueError:
            found = None
        expected = slow_stored_form(data)
        assert found == expected, (data, found, expected)

    return run


def recovery() -> Callable[[bytes], None]:
    """A damaged cycle file, against the twin: two bytes of state, then the file."""
    from support.queue_damage import ROLL
    from support.recovery_twin import UnsupportedError, recovered

    from quiver_fast.queuefile.foreign import refuse_foreign
    from quiver_fast.queuefile.restart import repair_file, usable

    folder = scratch()
    logging.disable()

    def run(data: bytes) -> None:
        flags, synced, content = data[:1] or b"\0", data[1:2] or b"\0", data[2:]
        whole, newest, judged = (bool(flags[0] & bit) for bit in (1, 2, 4))
        path = folder / "20260101T4.cq4"
        path.write_bytes(content)
        trusted = synced[0] if judged else None
        try:
            expected = recovered(content, newest=newest, whole=whole, trusted=trusted, roll=ROLL)
        except UnsupportedError:
            try:
                refuse_foreign(folder, ROLL)
            except OutputError:
                return
            raise
        rebuilt: set[Path] = set()
        if not usable(path, ROLL, rebuilt):
            assert expected is None
            shutil.rmtree(folder)
            folder.mkdir()
            return
        assert expected is not None
        for _ in range(2):
            entries = repair_file(
                path, trusted if judged else INT64_MAX, whole or bool(rebuilt), not newest
            )
            assert entries == expected.entries
            assert path.read_bytes() == expected.content

    return run


def records() -> Callable[[bytes], None]:
    """A file of records: a byte for its format and operation, then lines."""
    from quiver_fast.records.parser import read_transfers

    path = scratch() / "records"
    formats, operations = [None, *RECORD_FORMATS], [None, *OPERATIONS]

    def run(data: bytes) -> None:
        kind, text = data[0] if data else 0, data[1:]
        path.write_bytes(text)
        record_format = formats[kind % len(formats)]
        operation = operations[kind // len(formats) % len(operations)]
        try:
            transfers = read_transfers(path, record_format=record_format, operation=operation)
        except RecordError:
            # Compressed, or so it begins.
            assert form_of(text[:HEAD_SIZE]) is not None
            return
        for column in (transfers.sent, transfers.received, transfers.ids):
            assert column is None or (len(column) == len(transfers) and (column >= 0).all())
        assert (transfers.first_malformed is None) == (transfers.malformed == 0)

    return run


TARGETS: dict[str, Callable[[], Callable[[bytes], None]]] = {
    each.__name__: each
    for each in (performatives, message, sasl, scanner, csp, textwire, recovery, records)
}


def target(name: str) -> Callable[[bytes], None]:
    """Return the function that takes the inputs of a target."""
    return TARGETS[name]()


def replay(name: str, folder: Path) -> int:
    """Run a target over all files of a folder; return how many there were."""
    run = target(name)
    paths = sorted(folder.iterdir())
    for path in paths:
        try:
            run(path.read_bytes())
        except Exception:
            sys.stderr.write(f"{path}: {base64.b85encode(path.read_bytes()).decode()}\n")
            raise
    return len(paths)


if __name__ == "__main__":
    print(replay(sys.argv[1], Path(sys.argv[2])))
