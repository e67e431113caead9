"""The peer of a client: what it says is written case by case."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quiver_fast.conform.case import Unobservable
from quiver_fast.conform.wire.client import ENDS, FrameClient
from quiver_fast.conform.wire.codec import CodecError, Value, decode, encode
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    Composite,
    Fields,
    Frame,
    Unexpected,
    composite,
    message,
    plain,
)
from quiver_fast.conform.wire.trace import Trace

# Programs may take long to start.
_SECONDS = 30.0
_WINDOW = 2048
ACCEPTED = composite("accepted")


class Talk(FrameClient):
    """The peer's side of one connection, set up as far as the attach.

    Attributes:
        offer: the SASL mechanisms.
    """

    offer: Sequence[str] = ("ANONYMOUS",)

    def __init__(self, accepted: socket.socket) -> None:
        accepted.settimeout(_SECONDS)
        self._take(accepted, None, 0)

    def answer_header(self) -> None:
        """Let a client in without credentials, with SASL or without."""
        header = self.read_header()
        if header == SASL_HEADER:
            self.send_bytes(SASL_HEADER)
            self.send("sasl_mechanisms", sasl_server_mechanisms=self.offer)
            self.expect("sasl_init")
            self.send("sasl_outcome", code=0)
            header = self.read_header()
        if header != AMQP_HEADER:
            raise Unexpected(f"the protocol header {AMQP_HEADER!r}", repr(header))
        self.send_bytes(AMQP_HEADER)

    def answer_session(self, **fields: Value) -> None:
        """Answer open and begin, the former with these fields."""
        self.answer_header()
        self.expect("open")
        self.send("open", container_id="frames", **fields)
        self.expect("begin")
        self.send(
            "begin", remote_channel=0, next_outgoing_id=0, incoming_window=1000,
            outgoing_window=1000,
        )  # fmt: skip

    def answer_attach(self, *, handle: int = 0, **termini: Value) -> Frame:
        """Answer the next attach with these termini; return the client's."""
        attach = self.expect("attach")
        fields: dict[str, Any] = {"source": composite("source", address="queue0"), **termini}
        if attach.fields.get("role"):
            fields["initial_delivery_count"] = 0
        self.send(
            "attach", name=attach.fields["name"], handle=handle,
            role=not attach.fields.get("role"), **fields,
        )  # fmt: skip
        return attach

    def read_until(self, name: str) -> None:
        """Read until a frame of this name, or the client's end."""
        for _ in range(100_000):
            try:
                if self.read().name == name:
                    return
            except (EOFError, ConnectionError):
                return


def contract_message(number: int, size: int = 100, *, named: bool = True) -> bytes:
    """Return a message of the arrow contract: a time, a body of ``x``, and, if named, an id."""
    sent = (Value("string", "SendTime"), Value("long", time.time_ns() // 1_000_000))
    sections = {
        0x73: Value("list", (Value("string", f"conform-{number}"),)),
        0x74: Value("map", (sent,)),
    }
    if not named:
        del sections[0x73]
    described = (Value("described", (Value("ulong", code), it)) for code, it in sections.items())
    return b"".join(map(encode, described)) + message(b"x" * size)


@dataclass
class _Link:
    """One link of the client.

    Attributes:
        receives: whether it is the client that receives.
        control: whether it is one to the coordinator.
        count: the deliveries until now.
        credit: how many more there may be.
    """

    receives: bool
    control: bool
    count: int = 0
    credit: int = 0


@dataclass
class _Session:
    """One session of the client; the numbers of transfers and of our delivery that are next."""

    incoming: int
    outgoing: int
    delivery: int


class Counterpart(Talk):
    """Serves one client rightly; a case changes one thing of it.

    Attributes:
        link: the client's first attach to a node; its role tells what the client is.
        channel: of its session.
        frames: all that it sent, in order.
        largest: the bytes of the largest of them.
        credit: how much a client that sends has at a time; 0 for what the case gives.
        stock: how many messages there are for a client that receives.
        verdict: the outcome of what comes; None for no answer.
        size: the bytes of the bodies of our messages.
        named: whether they have ids.

    Args:
        accepted: the connection.
        trace: gets what goes by.
        number: of the connection.
        patience: seconds for what is next.
        says: by the name of a frame of ours, what it has besides, or in place.
        keys: attributes that are not as they are by default.
    """

    def __init__(
        self, accepted: socket.socket, trace: Trace, number: int, patience: float,
        says: Mapping[str, Mapping[str, Any]], **keys: Any,
    ) -> None:  # fmt: skip
        accepted.settimeout(patience)
        self._take(accepted, trace, number)
        self.link, self.channel = Fields("attach", {}), 0
        self.frames: list[Frame] = []
        self.largest = 0
        self.credit, self.stock = 100, 1000
        self.verdict: Value | None = ACCEPTED
        self.size, self.named = 100, True
        self.__dict__ |= keys
        self._says = says
        self._links: dict[tuple[int, int], _Link] = {}
        self._sessions: dict[int, _Session] = {}
        # The id of the delivery that has begun.
        self._delivery = 0
        # Our detaches, ends and closes that are not answered yet.
        self._ends: set[tuple[str, int, int | None]] = set()
        self._acts: dict[str, Callable[[Frame], None]] = {
            "open": self._opened, "begin": self._begun, "attach": self._attached,
            "flow": self._flowed, "transfer": self._transferred,
            "disposition": self._settled, **dict.fromkeys(ENDS, self._ended),
        }  # fmt: skip

    def serve(self, until: str = "", count: int = 1) -> Frame | None:
        """Serve until so many frames of a name are answered; None at the client's end.

        Raises:
            Unexpected: a frame is malformed.
        """
        while True:
            try:
                found = self.read()
            except CodecError as error:
                raise Unexpected("a frame", f"a malformed one: {error}") from None
            except (EOFError, ConnectionError):
                # Some clients wait for it.
                self.socket.close()
                return None
            self._acts.get(found.name, _ignored)(found)
            count -= found.name == until
            if not count:
                return found

    def instead(self, name: str, act: Callable[[Frame], None]) -> None:
        """Answer the frames of this name by a function."""
        self._acts[name] = act

    def read(self) -> Frame:
        """Read one frame."""
        found = super().read()
        self.frames.append(found)
        return found

    def _taken(self) -> bytes:
        data = super()._taken()
        self.largest = max(self.largest, len(data))
        return data

    def send(self, name: str, /, **fields: Any) -> None:
        """Write one frame; those of a session go to that of the first link."""
        if name not in ("open", "begin", "close"):
            fields = {"channel": self.channel, **fields}
        if name == "transfer" and (session := self._sessions.get(fields["channel"])):
            session.outgoing = (session.outgoing + 1) % 2**32
        if name in ENDS:
            self._ends.add(_key(name, fields.get("channel", 0), fields))
        super().send(name, **fields)

    def take(self, count: int) -> None:
        """Expect so many transfers, and answer them.

        Raises:
            Unexpected: fewer come.
            Unobservable: it ends before.
        """
        with contextlib.suppress(TimeoutError):
            if self.serve("transfer", count) is not None:
                return
        if any(each.name in ENDS for each in self.frames):
            raise Unobservable("it ends before it has sent its messages")
        raise Unexpected(f"{count} of transfer", "silence, or the end of the connection")

    def say(self, name: str, /, **fields: Any) -> None:
        """Send a frame with the fields that the case wants."""
        self.send(name, **{**fields, **self._says.get(name, {})})

    def flow(self, channel: int | None = None, **link: Any) -> None:
        """Send a flow with the session as it is."""
        channel = self.channel if channel is None else channel
        session = self._sessions[channel]
        ids = {"next_incoming_id": session.incoming, "next_outgoing_id": session.outgoing}
        windows = {"incoming_window": _WINDOW, "outgoing_window": _WINDOW}
        self.say("flow", channel=channel, **{**ids, **windows, **link})

    def grant(self, credit: int, **flow: Any) -> None:
        """Give so much credit, counted from its first delivery, on the first link."""
        count = self.link.get("initial_delivery_count", 0)
        link = {"handle": self.link["handle"], "delivery_count": count, "link_credit": credit}
        self.flow(**{**link, **flow})

    def find(self, due: str, judge: Callable[[Frame], bool | None]) -> Frame:
        """Expect a frame: true accepts it, false does not, None answers it and reads on."""

        def answered(found: Frame) -> bool | None:
            verdict = judge(found)
            if verdict is None:
                self._acts.get(found.name, _ignored)(found)
            return verdict

        return super()._find(due, answered)

    _find = find

    def deliver(self, payload: bytes = b"", **transfer: Any) -> int:
        """Send a message on the first link; return its number."""
        session = self._sessions[self.channel]
        link = self._links[self.channel, self.link["handle"]]
        number = session.delivery
        link.count, link.credit = (link.count + 1) % 2**32, link.credit - 1
        session.delivery = (number + 1) % 2**32
        payload = payload or contract_message(link.count, self.size, named=self.named)
        self.transfer(number, payload, **{"handle": self.link["handle"], **transfer})
        return number

    # -- one answer each

    def _opened(self, _frame: Frame) -> None:
        self.say("open", container_id="quiver-conform", channel_max=255)

    def _begun(self, frame: Frame) -> None:
        said = {"next_outgoing_id": 0, **self._says.get("begin", {})}
        self._sessions[frame.channel] = _Session(
            frame.fields["next_outgoing_id"], said["next_outgoing_id"], said["next_outgoing_id"]
        )
        self.say(
            "begin", channel=frame.channel, remote_channel=frame.channel,
            next_outgoing_id=0, incoming_window=_WINDOW, outgoing_window=_WINDOW, handle_max=255,
        )  # fmt: skip

    def _attached(self, frame: Frame) -> None:
        said = frame.fields
        target = said.get("target")
        control = target is not None and target.name == "coordinator"
        receives = bool(said.get("role"))
        link = _Link(receives, control)
        self._links[frame.channel, said["handle"]] = link
        modes = {key: said[key] for key in ("snd_settle_mode", "rcv_settle_mode") if key in said}
        first = {"initial_delivery_count": 0} if receives else {}
        self.say(
            "attach", channel=frame.channel, name=said["name"], handle=said["handle"],
            role=not receives, source=_terminus("source", said.get("source")),
            target=_terminus("target", target), **modes, **first,
        )  # fmt: skip
        if not (control or self.link):
            self.link, self.channel = said, frame.channel
            link.count = self._says.get("attach", first).get("initial_delivery_count", 0)
        if not receives:
            self._give(frame.channel, said["handle"], link)

    def _give(self, channel: int, handle: int, link: _Link) -> None:
        if credit := 10 if link.control else self.credit:
            link.credit = credit
            self.flow(channel, handle=handle, delivery_count=link.count, link_credit=credit)

    def _flowed(self, frame: Frame) -> None:
        said = frame.fields
        link = self._links.get((frame.channel, said.get("handle", -1)))
        if link is None or not link.receives:
            if said.get("echo"):
                self.flow(frame.channel)
            return
        link.credit = (said.get("delivery_count", 0) + said["link_credit"] - link.count) % 2**32
        while 0 < link.credit < 2**31 and self.stock > 0:
            self.stock -= 1
            self.deliver()
        if said.get("drain"):
            link.count, link.credit = (link.count + link.credit) % 2**32, 0
        if said.get("drain") or said.get("echo"):
            self.flow(
                frame.channel, handle=said["handle"], delivery_count=link.count,
                link_credit=link.credit, drain=said.get("drain"),
            )  # fmt: skip

    def _transferred(self, frame: Frame) -> None:
        said = frame.fields
        session, link = self._sessions[frame.channel], self._links[frame.channel, said["handle"]]
        session.incoming = (session.incoming + 1) % 2**32
        self._delivery = said.get("delivery_id", self._delivery)
        if said.get("more"):
            return
        link.count, link.credit = (link.count + 1) % 2**32, link.credit - 1
        outcome = _control_outcome(frame) if link.control else self.verdict
        state = said.get("state")
        if outcome is not None and state is not None and state.name == "transactional_state":
            txn_id = state.fields["txn_id"]
            outcome = composite("transactional_state", txn_id=txn_id, outcome=outcome)
        if outcome is not None and (link.control or not said.get("settled")):
            self.send(
                "disposition", channel=frame.channel, role=True, first=self._delivery,
                settled=True, state=outcome,
            )  # fmt: skip
        if link.credit <= self.credit // 2:
            self._give(frame.channel, said["handle"], link)

    def _settled(self, frame: Frame) -> None:
        said = frame.fields
        if said.get("role") and not said.get("settled"):
            ids = {key: said[key] for key in ("first", "last") if key in said}
            self.send("disposition", channel=frame.channel, role=False, settled=True, **ids)

    def _ended(self, frame: Frame) -> None:
        """Answer an end, unless it answers ours."""
        own = _key(frame.name, frame.channel, frame.fields)
        if own not in self._ends:
            same = {key: frame.fields[key] for key in ("handle", "closed") if key in frame.fields}
            self.send(frame.name, channel=frame.channel, **same)
        self._ends.discard(own)
        if frame.name == "close":
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)


def _key(name: str, channel: int, fields: Mapping[str, Any]) -> tuple[str, int, int | None]:
    """Return what an end and its answer have in common."""
    return name, channel, fields.get("handle")


def _ignored(_frame: Frame) -> None:
    """Answer nothing."""


def _terminus(name: str, said: Composite | None) -> Value | None:
    """Return a terminus as the client asked for it."""
    if said is None:
        return None
    if said.name == "coordinator":
        return composite("coordinator")
    return composite(name, address=said.fields.get("address"))


def _control_outcome(frame: Frame) -> Value:
    """Return the outcome of a declare or discharge."""
    asked = plain(decode(frame.payload)[0].value[1])
    if asked.name == "declare":
        return composite("declared", txn_id=b"txn-%d" % frame.fields["delivery_id"])
    return ACCEPTED
