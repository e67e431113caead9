"""AMQP peers on python-qpid-proton that follow a script, in a thread of the test.

The default script is a well-behaved counterpart of an active client arrow: it
mirrors session and link, gives credit, accepts what comes, and sends messages
where it has credit. Scripts change one thing each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar, cast

from proton import Condition, Delivery, Described, Endpoint, Message, Sender, Terminus, ulong
from proton.handlers import EndpointStateHandler, MessagingHandler
from proton.reactor import Container

from support.processes import free_port

# proton's annotations let every part of an event be None; in its own callback it is not.
Event: TypeAlias = Any

POLL_SECONDS = 0.05
DECLARED, TRANSACTIONAL = 0x33, 0x34  # AMQP 1.0 part 4, 4.5.5 and 4.5.8
DECLARE, DISCHARGE = 0x31, 0x32

Act = Callable[[Event], None]
Peer = TypeVar("Peer", bound="ScriptedPeer")


class ScriptedPeer(MessagingHandler):
    """A counterpart that listens on a port of its own.

    Args:
        after: Messages transferred before `act` happens.
        act: Called then, once.
        outcome: Name of the outcome for each message number from 1 on.
        credit: Credit to give to a sending arrow, all at once.
        to_send: Messages to send to a receiving arrow.
        encode: Makes the bytes of a message from its number; by default those of the contract.
        idle_timeout: The idle-time-out in our open, in seconds.
    """

    def __init__(
        self,
        *,
        after: int | None = None,
        act: Act | None = None,
        outcome: Callable[[int], str] = lambda number: "accepted",
        credit: int = 100_000,
        to_send: int = 100_000,
        encode: Callable[[int], bytes] | None = None,
        idle_timeout: float | None = None,
    ) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.after, self.act, self.outcome = after, act, outcome
        self.credit, self.to_send, self.idle_timeout = credit, to_send, idle_timeout
        self.encode = encode or plain_message
        # Chosen at the start: a reservation does not last from the collection of parameters on.
        self.port = 0
        self.transferred = 0
        self.sent = 0
        self.messages: list[Message] = []
        self.links: list[tuple[str | None, str | None]] = []
        self.credit_seen: list[int] = []
        self.error: BaseException | None = None
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self: Peer) -> Peer:
        self.port = free_port()
        self._thread.start()
        assert self._ready.wait(10), "the scripted peer does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(10)
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            container = Container(self)
            container.timeout = POLL_SECONDS
            container.start()
            while not self._stopping.is_set() and container.process():
                pass
            container.stop()
            container.process()
        except BaseException as error:
            self.error = error
        finally:
            self._ready.set()

    # -- the well-behaved part

    def on_start(self, event: Event) -> None:
        event.container.listen(f"127.0.0.1:{self.port}")
        self._ready.set()

    def on_connection_bound(self, event: Event) -> None:
        if self.idle_timeout is not None:
            event.transport.idle_timeout = self.idle_timeout

    def on_link_opening(self, event: Event) -> None:
        link = event.link
        self.links.append((link.remote_source.address, link.remote_target.address))
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)

    def on_link_opened(self, event: Event) -> None:
        if event.link.is_receiver:
            event.link.flow(self.credit)
        self.act_when_due(event)

    def on_sendable(self, event: Event) -> None:
        sender = event.sender
        self.credit_seen.append(sender.credit)
        # Bursts, so that an act in the middle happens between two reads of the arrow.
        while sender.credit > 0 and self.sent < self.to_send and self.link_is_up(sender):
            sender.delivery(str(self.sent + 1))
            sender.stream(self.encode(self.sent + 1))
            sender.advance()
            self.sent += 1

    def link_is_up(self, sender: Sender) -> bool:
        return bool(sender.state & Endpoint.LOCAL_ACTIVE)

    def on_message(self, event: Event) -> None:
        self.messages.append(event.message)
        self.transferred += 1
        settle(event.delivery, self.outcome(self.transferred))
        self.act_when_due(event)

    def on_accepted(self, event: Event) -> None:
        self.transferred += 1
        event.delivery.settle()
        self.act_when_due(event)

    def act_when_due(self, event: Event) -> None:
        if self.act is not None and self.transferred == self.after:
            act, self.act = self.act, None
            act(event)

    def on_transport_error(self, event: Event) -> None:
        """The arrow's exit code judges the arrow's effect on us."""

    def on_link_error(self, event: Event) -> None:
        event.link.close()

    def on_connection_error(self, event: Event) -> None:
        event.connection.close()


def settle(delivery: Any, outcome: str) -> None:
    """Settle a delivery with an outcome given by name.

    `none` settles without an outcome, `held` leaves the delivery unsettled.
    """
    if outcome == "held":
        return
    if outcome == "rejected":
        delivery.local.condition = Condition("amqp:precondition-failed", "not today")
    if outcome != "none":
        delivery.update(getattr(Delivery, outcome.upper()))
    delivery.settle()


def plain_message(number: int, message_id: str | None = None) -> bytes:
    """Return a message of the contract, with a string id."""
    message: Any = Message(body=b"x" * 100, inferred=True, id=message_id or f"peer-{number}")
    message.properties = {"SendTime": time.time_ns() // 1_000_000}
    encoded: bytes = message.encode()
    return encoded


# -- acts


def detach(event: Event) -> None:
    """Detach the link with a condition."""
    event.link.condition = Condition("amqp:resource-limit-exceeded", "the queue is full")
    event.link.close()


def detach_plainly(event: Event) -> None:
    """Detach the link without a condition."""
    event.link.close()


def close_connection(event: Event) -> None:
    """Close the connection with a condition."""
    event.connection.condition = Condition("amqp:connection:forced", "going down for repair")
    event.connection.close()


def close_connection_plainly(event: Event) -> None:
    """Close the connection without a condition."""
    event.connection.close()


def refuse(event: Event, name: str, description: str) -> None:
    """Detach a link that was just attached."""
    event.link.condition = Condition(name, description)
    event.link.close()


class LeavesAfter(ScriptedPeer):
    """Closes in order some time after the link opened, as a timed receiver does.

    Args:
        seconds: How long it stays.
        script: As for ScriptedPeer.
    """

    def __init__(self, seconds: float, **script: Any) -> None:
        super().__init__(**script)
        self.seconds = seconds
        self.connection: Any = None

    def on_link_opened(self, event: Event) -> None:
        super().on_link_opened(event)
        self.connection = event.connection
        event.container.schedule(self.seconds, self)

    def on_timer_task(self, event: Event) -> None:
        self.connection.close()


class RefusesLink(ScriptedPeer):
    """Answers attach with null termini, then detach: AMQP 1.0 part 2, 2.6.3."""

    def on_link_opening(self, event: Event) -> None:
        event.link.source.type = Terminus.UNSPECIFIED
        event.link.target.type = Terminus.UNSPECIFIED

    def on_link_opened(self, event: Event) -> None:
        refuse(event, "amqp:not-found", "no such queue here")


class AttachesNoCoordinator(ScriptedPeer):
    """Answers the coordinator's attach with a target of this type, gives credit, and no reason."""

    def __init__(self, target: int = Terminus.UNSPECIFIED) -> None:
        super().__init__()
        self.target = target

    def on_link_opening(self, event: Event) -> None:
        super().on_link_opening(event)
        if event.link.remote_target.type == Terminus.COORDINATOR:
            event.link.target.type = self.target


class RefusesCoordinator(AttachesNoCoordinator):
    """A peer without transactions, like most: refuses only the coordinator's link."""

    def on_link_opened(self, event: Event) -> None:
        if event.link.remote_target.type != Terminus.COORDINATOR:
            super().on_link_opened(event)
        else:
            refuse(event, "amqp:not-implemented", "no transactions here")


class RefusesConnection(ScriptedPeer):
    """Answers open with open and close, and a condition if given.

    Args:
        condition: The reason, or None for a close without one.
    """

    def __init__(self, condition: Condition | None) -> None:
        super().__init__()
        self.condition = condition

    def on_connection_opened(self, event: Event) -> None:
        event.connection.condition = self.condition
        event.connection.close()


class NeverAttaches(ScriptedPeer):
    """Opens connection and session, and never answers the attach."""

    def __init__(self) -> None:
        super().__init__()
        # The handler that mirrors the peer's endpoints, with the changes below.
        mirroring = list(cast(Iterable[object], self.handlers))
        self.handlers = [h for h in mirroring if not isinstance(h, EndpointStateHandler)]

    def on_connection_remote_open(self, event: Event) -> None:
        event.connection.open()

    def on_session_remote_open(self, event: Event) -> None:
        event.session.open()


class Coordinator(ScriptedPeer):
    """A counterpart with a transaction coordinator (AMQP 1.0 part 4).

    Attributes:
        discharged: For each transaction in order, the number of its transfers or
            outcomes, and whether it failed.
    """

    def __init__(self, *, refuse_discharge: bool = False, **script: object) -> None:
        super().__init__(**script)  # type: ignore[arg-type]
        self.refuse_discharge = refuse_discharge
        self.discharged: list[tuple[int, bool]] = []
        self.work: dict[bytes, int] = {}
        self.declared = 0
        self.errors: list[str] = []

    def on_link_opening(self, event: Event) -> None:
        if event.link.remote_target.type != Terminus.COORDINATOR:
            super().on_link_opening(event)
            return
        event.link.target.type = Terminus.COORDINATOR
        event.link.source.copy(event.link.remote_source)

    def on_message(self, event: Event) -> None:
        if event.link.remote_target.type == Terminus.COORDINATOR:
            self.control(event.delivery, event.message.body)
            return
        delivery = event.delivery
        self.messages.append(event.message)
        self.transferred += 1
        transaction = self.count_work(delivery)
        # A transactional outcome: state 0x34 holding the id and the provisional accepted.
        delivery.local.data = [transaction, Described(ulong(0x24), [])]
        delivery.update(TRANSACTIONAL)
        delivery.settle()

    def on_delivery(self, event: Event) -> None:
        delivery = event.delivery
        if delivery.link.is_sender and delivery.updated and delivery.remote_state:
            self.transferred += 1
            self.count_work(delivery)
            delivery.settle()

    def count_work(self, delivery: Any) -> bytes:
        state = delivery.remote_state
        if state != TRANSACTIONAL:
            self.errors.append(f"work outside a transaction: state {state}")
            return b""
        transaction = bytes(delivery.remote.data[0])
        if transaction not in self.work:
            self.errors.append(f"work in the unknown transaction {transaction!r}")
            return transaction
        self.work[transaction] += 1
        return transaction

    def control(self, delivery: Any, body: Any) -> None:
        names = {"amqp:declare:list": DECLARE, "amqp:discharge:list": DISCHARGE}
        code = names.get(str(body.descriptor), body.descriptor)
        if code == DECLARE:
            self.declared += 1
            transaction = f"transaction-{self.declared}".encode()
            self.work[transaction] = 0
            delivery.local.data = [transaction]
            delivery.update(DECLARED)
            delivery.settle()
            return
        fields = list(body.value)
        failed = bool(fields[1]) if len(fields) > 1 else False
        self.discharged.append((self.work.pop(bytes(fields[0])), failed))
        settle(delivery, "rejected" if self.refuse_discharge else "accepted")


def encode_message(maker: Callable[[str, int, bytes], bytes], size: int) -> Callable[[int], bytes]:
    """Adapt a maker of tests/interop/peers/wire_messages.py to a script's `encode`."""

    def encode(number: int) -> bytes:
        return maker(f"peer-{number}", time.time_ns() // 1_000_000, b"x" * size)

    return encode
