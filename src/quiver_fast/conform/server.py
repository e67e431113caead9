"""A server as cases see it: connections, sessions, links and a queue for each case."""

from __future__ import annotations

import contextlib
import copy
import secrets
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quiver_fast.arguments import endpoint
from quiver_fast.conform import queues
from quiver_fast.conform.case import Unobservable
from quiver_fast.conform.probes import PROBES
from quiver_fast.conform.views import Views
from quiver_fast.conform.wire.client import ENDS, FrameClient
from quiver_fast.conform.wire.codec import CodecError, Value, encode
from quiver_fast.conform.wire.frames import (
    SASL_HEADER,
    Fields,
    Frame,
    Unexpected,
    composite,
    message,
)
from quiver_fast.conform.wire.trace import Trace, shown
from quiver_fast.errors import QuiverError, one_line
from quiver_fast.security.mechanism import ClientMechanism
from quiver_fast.security.scram import SCRAM_HASHES, ScramClient

BODY, OTHER = message(b"conform"), message(b"another")
ACCEPTED = composite("accepted")
ASK_SECONDS = 60.0
_NAME_MAX = 60
# A server that cannot drain has nothing left after such a silence.
_EMPTY_SECONDS = 1.0
# New connections at the end; a server may divide them among as many threads.
_LOOKS = 8
# The control link's, so that cases have the lower ones.
CONTROL = 9


@dataclass(frozen=True)
class Target:
    """Where the server is, and how long to wait for it.

    Attributes:
        allowed: the SASL mechanisms to use; empty for any.
        certified: whether we have a certificate, for SASL EXTERNAL.
        patience: seconds for an answer.
        quiet: seconds of a silence that convinces.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    allowed: tuple[str, ...] = ()
    certified: bool = False
    patience: float = 5.0
    quiet: float = 0.3


@dataclass(frozen=True)
class Facts:
    """What the server said when it was asked once.

    Attributes:
        absent: the abilities that it lacks, with the reason: address (a node for a case), queue
            (one that keeps messages), drain, coordinator, anonymous, dynamic, copy, users, tls,
            scram, pinned (it refuses an address that it does not know), idle (it has an
            idle-time-out that is short).
    """

    product: str = ""
    version: str = ""
    mechanisms: tuple[str, ...] = ()
    open: Mapping[str, Any] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


def introduced(opened: Fields, name: str) -> dict[str, Any]:
    """Return the fields of `Facts` that an open frame tells; the peer may say anything there."""
    told = opened.get("properties") or {}
    product, version = (
        one_line(str(told.get(key) or default))[:_NAME_MAX]
        for key, default in (("product", name), ("version", ""))
    )
    return {"open": opened, "product": product, "version": version}


class Peer(FrameClient):
    """A connection of a case, of which the steps that only prepare do not judge."""

    def open(self, **fields: Any) -> Frame:
        """Exchange AMQP headers and open frames."""
        with preparing("open a connection"):
            return super().open(**fields)

    def begin(self, channel: int = 0, **fields: Any) -> Frame:
        """Begin a session."""
        with preparing("begin a session"):
            return super().begin(channel, **fields)

    def attach_sender(self, address: str, *, handle: int = 0, **fields: Any) -> Frame:
        """Attach a link that we send on."""
        with preparing("attach a sender"):
            return self._taken_in(super().attach_sender(address, handle=handle, **fields), "target")

    def attach_receiver(self, address: str, *, handle: int = 0, **fields: Any) -> Frame:
        """Attach a link that we receive on."""
        with preparing("attach a receiver"):
            answer = super().attach_receiver(address, handle=handle, **fields)
            return self._taken_in(answer, "source")

    def flow(self, **fields: Any) -> None:
        """Send a flow with the state of the session, from the id at which the peer began."""
        session = {
            "next_incoming_id": self.theirs["begin"]["next_outgoing_id"],
            "incoming_window": 1000,
            "next_outgoing_id": self.next_delivery,
            "outgoing_window": 1000,
        }
        self.send("flow", **{**session, **fields})

    def give_credit(self, credit: int, *, handle: int = 0, **fields: Any) -> None:
        """Give credit on the link that was attached last, which has had no delivery yet."""
        attach: Mapping[str, Any] = self.theirs.get("attach") or {}
        link = {"delivery_count": attach.get("initial_delivery_count", 0), "link_credit": credit}
        self.flow(handle=handle, **{**link, **fields})

    def wait_for_credit(self) -> int:
        """Wait for credit."""
        with preparing("get credit"):
            return super().wait_for_credit()

    def _taken_in(self, answer: Frame, terminus: str) -> Frame:
        """Return the attach; without the server's terminus a detach follows it (part 2.6.3)."""
        if terminus not in answer.fields:
            found = self.expect("detach")
            raise Unobservable(f"cannot attach: {found.condition or 'detached'}")
        return answer


@contextlib.contextmanager
def preparing(what: str) -> Iterator[None]:
    """Turn a failure into `Unobservable`: what only prepares does not judge."""
    try:
        yield
    except Unexpected as error:
        raise Unobservable(f"cannot {what}: {error.found}") from None
    except (EOFError, OSError, CodecError, QuiverError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "the connection ended"
        raise Unobservable(f"cannot {what}: {reason}") from None


class Controller:
    """A session with a control link to the coordinator (part 4.2)."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def ask(self, value: Value, **transfer: Any) -> Frame:
        """Send a declare, a discharge or anything; return the disposition."""
        number = self.peer.next_delivery
        body = encode(Value("described", (Value("ulong", 0x77), value)))
        self.peer.transfer(number, body, handle=CONTROL, **transfer)
        return self.peer.outcome(number, "declared", "accepted", "rejected")

    def declare(self) -> bytes:
        """Begin a transaction; return its id."""
        with preparing("declare a transaction"):
            txn_id: bytes = self.ask(composite("declare")).fields["state"].fields["txn_id"]
            return txn_id

    def discharge(self, txn_id: bytes, fail: bool = False) -> None:
        """Commit a transaction, or roll it back."""
        with preparing("discharge a transaction"):
            found = self.ask(composite("discharge", txn_id=txn_id, fail=fail))
            if found.fields["state"].name != "accepted":
                raise Unexpected("accepted", found.fields["state"].name)


class Server:
    """The server as one case sees it; `ServerSubject` makes it, and the runner closes it."""

    def __init__(self, subject: ServerSubject) -> None:
        self.facts: Facts = subject.facts
        self.target: Target = subject.target
        self.trace = Trace()
        self._subject, self._queues = subject, subject.queues
        self._peers: list[Peer] = []
        self._queue, self._over = "", False
        subject.views.add(self)

    def connect(self) -> Peer:
        """Connect: TCP and TLS only."""
        target = self.target
        with preparing("connect"), self._subject.counting_failures():
            sock = socket.create_connection((target.host, target.port), target.patience)
            if target.tls is not None:
                sock = target.tls.wrap_socket(sock, server_hostname=target.host)
        peer = Peer.on(sock, self.trace, len(self._peers))
        peer.quiet = target.quiet
        self._peers.append(peer)
        if self._over:
            raise Unobservable("cannot connect: the time is over")
        return peer

    def authenticated(self) -> Peer:
        """Connect, and authenticate as the target says."""
        peer = self.connect()
        with preparing("authenticate"):
            if not _authenticate(peer, self.target, self.facts.mechanisms):
                raise Unobservable("it offers no SASL mechanism that fits")
        return peer

    def opened(self, **open_: Any) -> Peer:
        """Connect, authenticate as the target says, and open."""
        peer = self.connect()
        with preparing("authenticate"):
            _authenticate(peer, self.target, self.facts.mechanisms)
        name = f"quiver-conform-{secrets.token_hex(4)}"
        peer.open(**{"container_id": name, "hostname": self.target.host, **open_})
        return peer

    def session(self, **begin: Any) -> Peer:
        """Begin a session on channel 0 of a new connection."""
        peer = self.opened()
        peer.begin(**begin)
        return peer

    def sender(self, address: str | None = None, **attach: Any) -> Peer:
        """Attach a sending link, handle 0, to this case's queue or ``address``; it has credit."""
        return self._sending(address, **attach)

    def receiver(self, address: str | None = None, *, credit: int = 0, **attach: Any) -> Peer:
        """Attach a receiving link, handle 0, to this case's queue or ``address``."""
        peer = self.session()
        peer.attach_receiver(self.queue() if address is None else address, **attach)
        if credit:
            peer.give_credit(credit)
        return peer

    def both(self, **attach: Any) -> Peer:
        """Attach a sender (handle 0) and a receiver (handle 1, no credit) of this case's queue."""
        peer = self._sending(None, **attach)
        peer.attach_receiver(self.queue(), handle=1, **attach)
        return peer

    def queue(self) -> str:
        """Return this case's queue: made at the first call, empty, gone after the case."""
        if not self._queue:
            self._queue = self._queues.make()
            if not self._queues.fresh:
                self.left()
        return self._queue

    def filled(self, *payloads: bytes, **transfer: Any) -> str:
        """Return this case's queue, with messages that it accepted; one by default, `BODY`."""
        peer = self.sender()
        with preparing("fill a queue"):
            for payload in payloads or (BODY,):
                number = peer.next_delivery
                peer.transfer(number, payload, **transfer)
                peer.outcome(number, "accepted")
        return self.queue()

    def left(self) -> list[bytes]:
        """Take all messages that the queue has, by a connection of its own (part 2.6.7, drain)."""
        peer, found = self.receiver(), list[bytes]()
        drains = "drain" not in self.facts.absent
        with preparing("drain a queue"):
            peer.give_credit(100, drain=drains)
            while (frame := _next(peer, drains)) is not None:
                if frame.name == "transfer":
                    found.append(frame.payload)
                    _accept(peer, frame)
            if not drains:
                # The credit that is left would take what comes later. The link stays: a queue may
                # go with its last one.
                begun = peer.theirs["attach"]["initial_delivery_count"]
                peer.give_credit(0, delivery_count=(begun + len(found)) % 2**32, echo=True)
                peer.socket.settimeout(self.target.patience)
                peer.until("flow")
        return found

    def controller(self, **source: Any) -> Controller:
        """Attach a control link (handle 9) on a new session; these are fields of its source."""
        peer = self.session()
        termini = {"source": composite("source", **source), "target": composite("coordinator")}
        peer.attach_sender("", handle=CONTROL, **termini)
        peer.wait_for_credit()
        return Controller(peer)

    def close(self) -> None:
        """Close all connections and remove the queue."""
        self._subject.views.remove(self)
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.send("close")
            peer.socket.close()
        if self._queue and (reason := self._queues.remove(self._queue)):
            self._subject.stayed.append(f"the queue {self._queue} stays: {reason}")

    def abort(self) -> None:
        """End all connections: their reads and writes fail at once, and there are no new ones."""
        self._over = True
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)

    def _sending(self, address: str | None, **attach: Any) -> Peer:
        peer = self.session()
        peer.attach_sender(self.queue() if address is None else address, **attach)
        peer.wait_for_credit()
        return peer


def _next(peer: FrameClient, drains: bool) -> Frame | None:
    """Read a frame of a link that drains, or is read until it is silent; None for its end."""
    if not drains:
        peer.socket.settimeout(_EMPTY_SECONDS)
    try:
        frame = peer.read()
    except TimeoutError:
        if drains:
            raise
        return None
    if frame.name in ENDS:
        raise Unexpected("flow", shown(frame))
    return None if drains and frame.fields.get("link_credit") == 0 else frame


def _accept(peer: FrameClient, transfer: Frame) -> None:
    number = transfer.fields.get("delivery_id")
    if number is not None and not transfer.fields.get("settled"):
        peer.send("disposition", role=True, first=number, settled=True, state=ACCEPTED)


def _mechanism(target: Target, offered: Sequence[str]) -> str | None:
    """Return the strongest mechanism that fits."""
    fits = [name for name in offered if not target.allowed or name in target.allowed]
    external = ("EXTERNAL",) if target.certified else ()
    wanted = (*external, "ANONYMOUS") if target.user is None else (*SCRAM_HASHES, "PLAIN")
    return next((name for name in wanted if name in fits), None)


def _authenticate(peer: FrameClient, target: Target, offered: tuple[str, ...]) -> bool:
    """Authenticate by the strongest mechanism that fits; return whether there is one."""
    name = _mechanism(target, offered)
    if name is None:
        return False
    user, password = target.user or "", target.password or ""
    secret = {"PLAIN": f"\0{user}\0{password}", "ANONYMOUS": "quiver-conform"}.get(name, "")
    mechanism = ClientMechanism(name, secret.encode())
    if name in SCRAM_HASHES:
        mechanism = ScramClient(name, user, password)
    peer.exchange_header(SASL_HEADER)
    peer.expect("sasl_mechanisms")
    peer.send("sasl_init", mechanism=name, initial_response=mechanism.initial)
    while (found := peer.read()).name == "sasl_challenge":
        peer.send("sasl_response", response=mechanism.respond(found.fields["challenge"]))
    if found.name != "sasl_outcome" or found.fields["code"] != 0:
        raise Unexpected("sasl-outcome code=0", f"{name} gets {shown(found)}")
    return True


class ServerSubject:
    """A server that cases judge.

    Attributes:
        who: whose cases are run.
        failed: how many connects failed since the last one that did not.
        stayed: a line for each queue that could not be removed, and for other harm.
        views: those of cases that run.

    Args:
        target: where it is.
        address: of ``--address``.
        seconds: the limit of the questions before the first case.
    """

    who = "server"

    def __init__(
        self, target: Target, address: str | None = None, seconds: float = ASK_SECONDS
    ) -> None:
        self.target, self.facts, self.patience = target, Facts(), target.patience
        self.queues = queues.Queues()
        self.failed, self.stayed = 0, list[str]()
        self.views = Views()
        with self.views.within(seconds):
            self._ask(address)
        # The connection that makes queues outlives the cases.
        self.views = Views()

    @property
    def parallel(self) -> bool:
        """Whether cases may run at the same time."""
        return self.queues.parallel

    @property
    def title(self) -> str:
        """The server in one line."""
        facts, target = self.facts, self.target
        names = ", ".join(facts.mechanisms)
        sasl = f", SASL {names}" if names else ""
        means = (
            f"queues by {self.queues.means}" if self.queues.means != queues.NONE else "no queues"
        )
        product = f"{facts.product or 'a server'} {facts.version}".rstrip()
        return f"{product} at {endpoint(target.host, target.port)}{sasl}; {means}"

    def view(self) -> Server:
        """Return a new view for a case."""
        return Server(self)

    def anew(self) -> ServerSubject:
        """Return the server for a second judgement: itself."""
        return self

    def through(self, port: int, **target: Any) -> ServerSubject:
        """Return the same server behind a relay, which the queues do not use."""
        other = copy.copy(self)
        other.target = replace(self.target, host="127.0.0.1", port=port, **target)
        return other

    def close(self) -> None:
        """End the connection that made queues."""
        self.queues.close()

    def look_for_harm(self) -> None:
        """Look whether new connections get an answer: a case may have cost the server a thread."""
        for _ in range(_LOOKS):
            try:
                self._mechanisms()
            except Unobservable as reason:
                self.stayed.append(f"a new connection, after the cases: {reason}; start it again")
                return

    @contextlib.contextmanager
    def counting_failures(self) -> Iterator[None]:
        """Count connects that fail in a row."""
        try:
            yield
        except OSError:
            self.failed += 1
            raise
        self.failed = 0

    def _ask(self, address: str | None) -> None:
        """Ask for the facts, and for the means to make queues."""
        self.facts = replace(self.facts, mechanisms=self._mechanisms())
        with contextlib.closing(self.view()) as view:
            opened = self._welcomed(view)
        self.facts = replace(self.facts, **introduced(opened, opened["container_id"]))
        self.queues = queues.find(lambda: self.view().opened(), address)
        self._probe()

    def _welcomed(self, view: Server) -> Fields:
        """Return its open.

        Raises:
            Unobservable: it lets us not in, or closes each connection, as for a redirection.
        """
        names = self.facts.mechanisms
        try:
            peer = view.opened()
        except Unobservable as reason:
            if names and _mechanism(self.target, names) is None:
                told = f"no SASL mechanism fits: it offers {', '.join(names)}"
                raise Unobservable(f"{reason}; {told}") from None
            raise
        peer.send("begin", next_outgoing_id=0, incoming_window=1000, outgoing_window=1000)
        # Whether it begins a session is judged by cases.
        with contextlib.suppress(Unexpected):
            if (found := peer.any_frame()).name == "close":
                raise Unobservable(f"it ends the connection: {shown(found)}")
        return peer.theirs["open"]

    def _mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms that it offers; none if it answers SASL by AMQP."""
        with contextlib.closing(self.view()) as view:
            peer = view.connect()
            peer.send_bytes(SASL_HEADER)
            with preparing("authenticate"):
                if peer.read_header() != SASL_HEADER:
                    return ()
                offered = peer.expect("sasl_mechanisms").fields["sasl_server_mechanisms"]
                return (offered,) if isinstance(offered, str) else tuple(offered)

    def _probe(self) -> None:
        """Find out what it lacks; a probe knows the results of those before it."""
        absent: dict[str, str] = {}
        self.facts = replace(self.facts, absent=absent)
        for need, probe in PROBES.items():
            with contextlib.closing(self.view()) as view:
                try:
                    probe(view)
                except Unobservable as reason:
                    absent[need] = str(reason)
