"""Arrows that go on after a lost connection, and what their records and reports say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite, encode_frame
from support.arrows import arguments, pyfast
from support.frame_peer import SECONDS, FramePeer
from support.processes import Finished, Running

PREFIX = "run-"


def lasting(operation: str, port: int, report: Path, **keys: object) -> list[str]:
    """Return the command line of an arrow that goes on; its pauses are short."""
    changes: dict[str, object] = {
        "reconnect": 1,
        "reconnect_pause": "2ms,20ms",
        "record_format": "v2",
        "set_message_id": None,
        "run_id": PREFIX.rstrip("-"),
        "report_file": report,
        "settlement": 1 if operation == "send" else None,
    }
    return pyfast(*arguments(operation, port, **(changes | keys)))


@dataclass
class Ledger:
    """The records of an arrow: SendTimes and receipts by id."""

    sent: dict[str, int] = field(default_factory=dict)
    settled: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    times: dict[str, set[int]] = field(default_factory=dict)

    @property
    def in_doubt(self) -> set[str]:
        """Messages without a settlement."""
        return self.sent.keys() - self.settled.keys()


def read(output: str, *, sends: bool) -> Ledger:
    """Read the records of an arrow."""
    ledger = Ledger()
    for line in output.splitlines():
        words = line.split(",")
        if line.startswith(("@", "#", "F", "B")):
            continue
        if not sends:
            ledger.received[words[0]] += 1
            ledger.times.setdefault(words[0], set()).add(int(words[1]))
        elif line.startswith(("S", "s")):
            ledger.settled[words[0][1:]] += 1
        else:
            assert words[0] not in ledger.sent, f"{words[0]} has two send records"
            ledger.sent[words[0]] = int(words[1])
    return ledger


def numbers(ranges: list[list[int]]) -> list[str]:
    """Return the ids in ranges, in order."""
    return [str(one) for first, last in ranges for one in range(first, last + 1)]


@dataclass
class Run:
    """A finished arrow: its end, report and records."""

    end: Finished
    report: dict[str, Any]
    ledger: Ledger

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The lost connections."""
        found: list[dict[str, Any]] = self.report["failures"]
        return found

    def told(self, key: str) -> list[str]:
        """Return the ids of all failures under a key."""
        return [one for failure in self.failures for one in numbers(failure[key])]


def finished(running: Running, report: Path, *, sends: bool, code: int = 0) -> Run:
    """Wait for an arrow, and read what it left."""
    end = running.wait(SECONDS)
    assert end.code == code, end
    return Run(end, json.loads(report.read_text()), read(end.stdout, sends=sends))


class Lives:
    """A listener that speaks to one connection after the other, each by a script of its own.

    Args:
        scripts: one for each connection, in order.
    """

    def __init__(self, *scripts: Callable[[Talk], None]) -> None:
        self.scripts = list(scripts)
        self.peer = FramePeer(self._first)
        self.port = self.peer.port

    def end(self) -> None:
        """Wait for the end of the last script; nobody listens any more."""
        self.peer.join()
        self.peer._listener.close()

    def _first(self, talk: Talk) -> None:
        listener = self.peer._listener
        for number, script in enumerate(self.scripts):
            if number:
                talk = Talk(listener.accept()[0])
            with talk:
                script(talk)


@contextmanager
def lives(*scripts: Callable[[Talk], None]) -> Iterator[Lives]:
    """Run a peer of several lives."""
    made = Lives(*scripts)
    with made.peer:
        yield made


def attached(talk: Talk, *, credit: int = 100, **fields: Value) -> None:
    """Answer a sender as far as its credit."""
    talk.answer_session(**fields)
    talk.answer_attach(target=composite("target", address="queue0"))
    talk.send(
        "flow", next_incoming_id=0, incoming_window=10_000, next_outgoing_id=0,
        outgoing_window=1000, handle=0, delivery_count=0, link_credit=credit,
    )  # fmt: skip


def take(talk: Talk, count: int) -> list[tuple[int, bytes]]:
    """Return the delivery-ids and payloads of the next ``count`` whole messages."""
    found: list[tuple[int, bytes]] = []
    payload = b""
    while len(found) < count:
        frame = talk.read()
        if frame.name != "transfer":
            continue
        if not payload:
            number = frame.fields["delivery_id"]
        payload += frame.payload
        if not frame.fields.get("more"):
            found.append((number, payload))
            payload = b""
    return found


def accept(talk: Talk, first: int, last: int) -> None:
    """Accept deliveries."""
    talk.send(
        "disposition", role=True, first=first, last=last, settled=True,
        state=composite("accepted"),
    )  # fmt: skip


def finish(talk: Talk) -> None:
    """Answer the end of a run: all that comes is accepted, and the close answered."""
    number = 0
    while True:
        frame = talk.read()
        if frame.name == "transfer":
            number = frame.fields.get("delivery_id", number)
            if not frame.fields.get("more"):
                accept(talk, number, number)
        elif frame.name == "end":
            talk.send("end")
        elif frame.name == "close":
            talk.send_bytes(encode_frame("close"))
            return


def take_all(talk: Talk) -> None:
    """Answer a sender, and accept all that it sends until its run ends."""
    attached(talk)
    finish(talk)
