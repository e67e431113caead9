#!/usr/bin/env python3
"""An arrow on python-qpid-proton that trusts nothing it receives.

It speaks the key=value contract (v3, and v2 where neither `set-message-id`
nor `rate` is given) in both roles, both connection modes and both channel
modes, so that pyfast meets a peer that pyfast's authors' engine code does not
reach. The receiver decodes each message with proton's own decoder and exits 1
with one line where the message disagrees with the arguments.

Beyond the contract: `layout=NAME`, one of wire_messages, for senders;
`trust-store`, `sasl-mechanisms`, `presettled`, `max-frame-size` as our arrow
takes them; `expect-mechanism=NAME`, the SASL mechanism that a server must see.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, TypeAlias

from proton import (
    Delivery,
    Endpoint,
    Message,
    SSLDomain,
    Url,
)
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container

sys.path.insert(0, str(Path(__file__).resolve().parent))

import wire_messages

# proton's annotations let every part of an event be None; in its own callback it is not.
Event: TypeAlias = Any
Link: TypeAlias = Any

SETTLEMENT_SAMPLE = 256  # requirement 000: the first and every 256th are 'S'


class IntentError(Exception):
    """The received messages do not fit the arguments."""


class Contract:
    """The arguments of one run.

    Raises:
        KeyError: A required key is missing.
    """

    def __init__(self, arguments: list[str]) -> None:
        self.raw = dict(argument.split("=", 1) for argument in arguments)
        self.server = self.raw["connection-mode"] == "server"
        self.active = self.raw["channel-mode"] == "active"
        self.sends = self.raw["operation"] == "send"
        self.id = self.raw["id"]
        self.path = self.raw["path"]
        self.tls = self.raw.get("scheme", "amqp") == "amqps"
        self.duration = int(self.raw["duration"])
        self.count = int(self.raw["count"])
        self.body_size = int(self.raw["body-size"])
        self.credit = int(self.raw["credit-window"])
        self.durable = self.raw["durable"] == "1"
        self.settlement = self.raw.get("settlement") == "1"
        self.presettled = self.raw.get("presettled") == "1"
        self.link_options = AtMostOnce() if self.presettled else None
        self.is_v3 = "set-message-id" in self.raw or "rate" in self.raw
        self.sets_ids = not self.is_v3 or self.raw.get("set-message-id") == "1"

    @property
    def url(self) -> Any:
        """Where to connect or listen."""
        scheme = "amqps" if self.tls else "amqp"
        make_url: Any = Url  # proton leaves it without types
        return make_url(scheme=scheme, host=self.raw["host"], port=int(self.raw["port"]))

    def ssl_domain(self) -> SSLDomain | None:
        """The TLS set-up: certificates as the contract names them, peers verified."""
        if not self.tls:
            return None
        domain = SSLDomain(SSLDomain.MODE_SERVER if self.server else SSLDomain.MODE_CLIENT)
        if "cert" in self.raw:
            domain.set_credentials(self.raw["cert"], self.raw["key"], None)
        trusted = self.raw.get("trust-store")
        if trusted is not None:
            domain.set_trusted_ca_db(trusted)
        if not self.server:
            domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        elif trusted is not None:
            domain.set_peer_authentication(SSLDomain.VERIFY_PEER, trusted)
        return domain


def now() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Arrow(MessagingHandler):
    """The common part of both roles: the connection, the link's opening, the end of the run."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(
            prefetch=0, auto_accept=False, auto_settle=False, peer_close_is_error=False
        )
        self.contract = contract
        self.records: list[str] = []
        self.failure: str | None = None
        self.expired = False
        self.ended = False
        self.link: Link = None
        self.container: Any = None
        self.acceptor: Any = None
        self.connection: Any = None
        self.connections = 0
        self.sessions = 0
        self.links = 0

    def on_start(self, event: Event) -> None:
        self.container = event.container
        contract = self.contract
        if contract.server:
            self.acceptor = self.container.listen(contract.url, ssl_domain=contract.ssl_domain())
            return
        options: dict[str, Any] = {"ssl_domain": contract.ssl_domain(), "reconnect": False}
        if "username" in contract.raw:
            options["user"] = contract.raw["username"]
            options["password"] = contract.raw["password"]
        if "sasl-mechanisms" in contract.raw:
            options["allowed_mechs"] = contract.raw["sasl-mechanisms"].replace(",", " ")
        if "max-frame-size" in contract.raw:
            options["max_frame_size"] = int(contract.raw["max-frame-size"])
        self.container.connect(contract.url, **options)

    def on_connection_opening(self, event: Event) -> None:
        expected = self.contract.raw.get("expect-mechanism")
        mechanism = event.transport.sasl().mech
        if expected is not None and mechanism != expected:
            self.fail(f"the client authenticated by {mechanism}, not {expected}")

    def on_connection_opened(self, event: Event) -> None:
        self.connection = event.connection
        self.connections += 1
        if self.contract.duration:
            self.container.schedule(self.contract.duration, self)
        if self.contract.active:
            self.open_link(event)

    def open_link(self, event: Event) -> None:
        """Open this role's link."""
        raise NotImplementedError

    def expire(self) -> None:
        """The duration is over."""
        raise NotImplementedError

    def on_session_opening(self, event: Event) -> None:
        self.sessions += 1

    def on_link_opening(self, event: Event) -> None:
        self.links += 1
        if (self.connections, self.sessions, self.links) != (1, 1, 1):
            self.fail("the peer opened more than one connection, session or link")
        event.link.source.copy(event.link.remote_source)
        event.link.target.copy(event.link.remote_target)
        event.link.open()
        self.link = event.link
        self.check_address()

    def on_link_opened(self, event: Event) -> None:
        self.link = event.link

    def check_address(self) -> None:
        """The peer must name the path at its own end of the link."""
        terminus = self.link.remote_source if self.contract.sends else self.link.remote_target
        if terminus.address != self.contract.path:
            self.fail(f"the peer attached to {terminus.address!r}, not to {self.contract.path!r}")

    def on_timer_task(self, event: Event) -> None:
        self.expired = True
        self.expire()

    def on_link_closing(self, event: Event) -> None:
        self.peer_gone("link", event.link.remote_condition)

    def on_connection_closing(self, event: Event) -> None:
        self.peer_gone("connection", event.connection.remote_condition)
        event.connection.close()

    def on_transport_error(self, event: Event) -> None:
        if self.connection is None and self.contract.server:
            return  # A probe of the port, not the peer.
        condition = event.transport.condition
        self.fail(f"transport: {condition.name}: {condition.description}")

    def on_transport_closed(self, event: Event) -> None:
        if self.connection is None and self.contract.server:
            return
        if not self.ended and self.contract.duration == 0:
            self.fail("the peer cut the connection")
        self.finish()
        self.container.stop()

    def peer_gone(self, what: str, condition: object) -> None:
        """The peer closes first: an error before our count is reached."""
        if condition:
            self.fail(f"{what} closed by the peer: {condition}")
        elif not self.ended and self.contract.duration == 0:
            self.fail(f"{what} closed by the peer too early")
        self.finish()

    def fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
        self.finish()

    def finish(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self.acceptor is not None:
            self.acceptor.close()
        if self.connection is not None and self.connection.state & Endpoint.LOCAL_ACTIVE:
            self.connection.close()
        self.container.schedule(2, _Stop(self.container))


class _Stop(MessagingHandler):
    """Ends the loop when a peer does not answer our close."""

    def __init__(self, container: Container) -> None:
        super().__init__()
        self.container = container

    def on_timer_task(self, event: Event) -> None:
        self.container.stop()


class SenderArrow(Arrow):
    """Sends while there is credit, waits for every outcome."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(contract)
        layout = contract.raw.get("layout")
        makers = {**wire_messages.GOOD, **wire_messages.BAD}
        self.layout = makers[layout] if layout else None
        self.body = b"x" * contract.body_size
        self.sent = 0
        self.outcomes: dict[str, int] = {}

    def open_link(self, event: Event) -> None:
        self.link = self.container.create_sender(
            event.connection, self.contract.path, options=self.contract.link_options
        )

    def on_sendable(self, event: Event) -> None:
        while event.sender.credit > 0 and not self.expired and not self.ended and self.remaining():
            self.send_one(event.sender)
        if self.contract.presettled:
            self.finish_when_settled()

    def remaining(self) -> bool:
        return self.contract.count == 0 or self.sent < self.contract.count

    def send_one(self, sender: Link) -> None:
        identifier = f"{self.contract.id}-{self.sent + 1}"
        sent = now()
        self.records.append(f"{sent},0" if self.contract.is_v3 else f"{identifier},{sent}")
        delivery = sender.delivery(str(self.sent + 1))
        sender.stream(self.encoded(identifier, sent))
        sender.advance()
        delivery.context = identifier
        if self.contract.presettled:
            delivery.settle()
        self.sent += 1

    def encoded(self, identifier: str, sent: int) -> bytes:
        if self.layout is not None:
            return self.layout(identifier, sent, self.body)
        message: Any = Message(body=self.body, durable=self.contract.durable, inferred=True)
        message.properties = {"SendTime": sent}
        if self.contract.sets_ids:
            message.id = identifier
        encoded: bytes = message.encode()
        return encoded

    def on_delivery(self, event: Event) -> None:
        delivery = event.delivery
        if delivery.link.is_receiver or not delivery.updated or not delivery.remote_state:
            return
        name = delivery.remote_state.name.lower()
        self.outcomes[name] = self.outcomes.get(name, 0) + 1
        self.record_settlement(delivery.context)
        delivery.settle()
        self.finish_when_settled()

    def record_settlement(self, identifier: str) -> None:
        if not self.contract.settlement:
            return
        number = int(identifier.rsplit("-", 1)[1])
        prefix = "S" if number % SETTLEMENT_SAMPLE == 1 else "s"
        self.records.append(f"{prefix}{identifier},{now()}")

    def finish_when_settled(self) -> None:
        awaited = 0 if self.contract.presettled else self.sent
        outstanding = awaited - sum(self.outcomes.values())
        if outstanding or (self.remaining() and not self.expired):
            return
        refused = {name: n for name, n in self.outcomes.items() if name != "accepted"}
        if refused:
            self.fail(f"outcomes other than accepted: {refused}")
        self.finish()

    def expire(self) -> None:
        self.finish_when_settled()


class ReceiverArrow(Arrow):
    """Accepts each message that agrees with the arguments."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(contract)
        self.granted = 0
        self.received = 0
        self.ids: set[str] = set()

    def open_link(self, event: Event) -> None:
        self.link = self.container.create_receiver(
            event.connection, self.contract.path, options=self.contract.link_options
        )

    def on_link_opening(self, event: Event) -> None:
        super().on_link_opening(event)
        self.grant()

    def on_link_opened(self, event: Event) -> None:
        super().on_link_opened(event)
        self.grant()

    def grant(self) -> None:
        """Keep the window full, and never invite more than the count."""
        wanted = self.received + self.contract.credit - self.granted
        if self.contract.count:
            wanted = min(wanted, self.contract.count - self.granted)
        if wanted > 0 and self.link is not None:
            self.link.flow(wanted)
            self.granted += wanted

    def on_message(self, event: Event) -> None:
        if self.contract.count and self.received == self.contract.count:
            self.fail("the peer sent more than the count")
            return
        try:
            self.records.append(self.checked_record(event))
        except IntentError as error:
            self.reject(event.delivery)
            self.fail(f"message {self.received + 1}: {error}")
            return
        self.received += 1
        self.accept(event.delivery)
        if self.received == self.contract.count:
            self.finish()
        else:
            self.grant()

    def checked_record(self, event: Event) -> str:
        message = event.message
        self.check_settlement(event.delivery)
        self.check_header(message)
        self.check_id(message.id)
        self.check_body(message.body)
        sent = self.send_time(message)
        if self.contract.is_v3:
            return f"{sent},{now()}"
        return f"{message.id},{sent},{now()}"

    def check_settlement(self, delivery: Delivery) -> None:
        if delivery.settled != self.contract.presettled:
            raise IntentError(f"settled by the sender: {delivery.settled}")

    def check_header(self, message: Message) -> None:
        if message.durable != self.contract.durable:
            raise IntentError(f"durable is {message.durable}")

    def check_id(self, identifier: object) -> None:
        if not self.contract.sets_ids:
            if identifier is not None:
                raise IntentError(f"has the message id {identifier!r}, none was asked for")
            return
        if type(identifier) is not str or identifier == "" or "\0" in identifier:
            raise IntentError(f"the message id is {identifier!r}, not a clean string")
        if identifier in self.ids:
            raise IntentError(f"the message id {identifier!r} is not unique")
        self.ids.add(identifier)

    def check_body(self, body: object) -> None:
        raw = body.encode() if isinstance(body, str) else body
        if not isinstance(raw, (bytes, memoryview)):
            raise IntentError(f"the body is a {type(body).__name__}")
        if bytes(raw) != b"x" * self.contract.body_size:
            raise IntentError(f"the body of {len(raw)} bytes is not {self.contract.body_size} x")

    def send_time(self, message: Message) -> int:
        properties: dict[str, Any] = message.properties or {}
        sent = properties.get("SendTime")
        # proton gives every other integer type a subclass: only long is plain int.
        if type(sent) is not int:
            raise IntentError(f"SendTime is {sent!r} of type {type(sent).__name__}, not a long")
        if abs(now() - sent) > 60_000:
            raise IntentError(f"SendTime is {sent}, not now in milliseconds")
        return sent

    def expire(self) -> None:
        self.finish()


def main(arguments: list[str]) -> int:
    """Run one arrow.

    Returns:
        0 when the run did what its arguments say, otherwise 1.
    """
    contract = Contract(arguments)
    arrow = SenderArrow(contract) if contract.sends else ReceiverArrow(contract)
    Container(arrow, container_id=contract.id).run()
    sys.stdout.write("".join(record + "\n" for record in arrow.records))
    sys.stdout.flush()
    if arrow.failure is not None:
        print(f"proton_arrow: {arrow.failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
