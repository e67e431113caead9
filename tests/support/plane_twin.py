"""The effect of a connection's frames on transfers: the slow twin of amqp/plane.c.

It takes frames as names and fields, keeps all of them in lists, and finds endpoints by
walking the lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.plane_layer import OURS, THEIRS, Event

BEFORE, ACTIVE, CLOSED = 0, 1, 2
NOT_ALLOWED = "amqp:not-allowed"
INVALID = "amqp:invalid-field"
IN_USE = "amqp:session:handle-in-use"
UNATTACHED = "amqp:session:unattached-handle"
BEYOND = "amqp:link:transfer-limit-exceeded"
MODULUS = 2**32


def ahead(number: int, base: int) -> int:
    """Return how far a serial number is ahead of another (RFC 1982)."""
    return (number - base + MODULUS // 2) % MODULUS - MODULUS // 2


def limited(value: int) -> int:
    return min(max(value, 0), MODULUS - 1)


class Refused(Exception):  # noqa: N818 - a peer's fault, not the program's
    """The frame breaks the protocol: the endpoint to close, and the condition."""

    def __init__(self, extent: str, condition: str) -> None:
        super().__init__(condition)
        self.event = Event("refused", {"extent": extent, "condition": condition})


@dataclass
class TwinLinkEnd:
    """A link, from the first attach of either side on."""

    name: str
    receives: bool
    phase: list[int] = field(default_factory=lambda: [BEFORE, BEFORE])
    handle: list[int] = field(default_factory=lambda: [-1, -1])
    initial: int = 0
    count: int = 0
    credit: int = 0
    available: int = 0
    drain: bool = False
    # The incomplete delivery: its id, its format, whether it is settled.
    delivery: tuple[int, int] | None = None
    settled: bool = False


@dataclass
class TwinSessionEnd:
    """A session, from the first begin of either side on."""

    phase: list[int] = field(default_factory=lambda: [BEFORE, BEFORE])
    channel: list[int] = field(default_factory=lambda: [-1, -1])
    links: list[TwinLinkEnd] = field(default_factory=list)
    window: int = 0
    incoming: int = 0
    # The fields of our begin, and the peer's last ones.
    outgoing_id: int = 0
    incoming_id: int = 0
    peer_incoming: int = 0
    peer_outgoing: int = 0
    # The id of the next delivery to come, once one has come.
    following: int | None = None


class Twin:
    """One connection."""

    def __init__(self, *, lenient: bool = False) -> None:
        self.lenient = lenient
        self.sessions: list[TwinSessionEnd] = []
        # The flows that the plane sends by itself: our channel, and the fields.
        self.flows: list[tuple[int, dict[str, Any]]] = []

    def session(self, side: int, channel: int) -> TwinSessionEnd | None:
        for each in self.sessions:
            if each.phase[side] == ACTIVE and each.channel[side] == channel:
                return each
        return None

    def link(self, side: int, channel: int, handle: int) -> TwinLinkEnd | None:
        session = self.session(side, channel)
        for each in session.links if session else []:
            if each.phase[side] == ACTIVE and each.handle[side] == handle:
                return each
        return None

    def kept(self) -> tuple[int, int]:
        """Return how many sessions and links are not over."""
        links = [[link for link in each.links if link.phase != [CLOSED, CLOSED]]
                 for each in self.sessions]  # fmt: skip
        sessions = [each for each, left in zip(self.sessions, links, strict=True)
                    if left or each.phase != [CLOSED, CLOSED]]  # fmt: skip
        return len(sessions), sum(map(len, links))

    def take(self, side: int, name: str, channel: int, fields: dict[str, Any]) -> Event | None:
        """Take a frame; return the event, None for none.

        Raises:
            Refused: it is not allowed.
        """
        return getattr(self, f"take_{name}")(side, channel, fields)  # type: ignore[no-any-return]

    def take_begin(self, side: int, channel: int, fields: dict[str, Any]) -> Event:
        if self.session(side, channel):
            raise Refused("connection", NOT_ALLOWED)
        remote = fields.get("remote_channel")
        session = TwinSessionEnd()
        if remote is not None:
            answered = self.session(1 - side, remote)
            if answered is None or answered.phase[side] != BEFORE:
                raise Refused("connection", INVALID)
            session = answered
        else:
            self.sessions.append(session)
        session.phase[side], session.channel[side] = ACTIVE, channel
        if side == OURS:
            session.window = session.incoming = fields["incoming_window"]
            session.outgoing_id = fields["next_outgoing_id"]
        else:
            self.note_windows(session, fields)
        return Event("engine", {})

    def note_windows(self, session: TwinSessionEnd, fields: dict[str, Any]) -> None:
        session.incoming_id = fields["next_outgoing_id"]
        session.peer_outgoing = fields["outgoing_window"]
        # No transfer of ours goes out here: the peer's unseen ones were counted before.
        unseen = ahead(session.outgoing_id, fields.get("next_incoming_id", session.outgoing_id))
        session.peer_incoming = limited(fields["incoming_window"] - unseen)

    def is_discarded(self, side: int, channel: int) -> bool:
        """Say whether a frame of the peer is for a session that we ended."""
        session = self.session(side, channel)
        return side == THEIRS and session is not None and session.phase[OURS] == CLOSED

    def take_attach(self, side: int, channel: int, fields: dict[str, Any]) -> Event | None:
        session = self.session(side, channel)
        if session is None:
            raise Refused("connection", NOT_ALLOWED)
        if self.is_discarded(side, channel):
            return None
        if self.link(side, channel, fields["handle"]):
            raise Refused("connection", IN_USE)
        receives = fields["role"] == (side == OURS)
        for link in session.links:
            if (link.name, link.receives, link.phase[side]) == (fields["name"], receives, BEFORE):
                break
        else:
            link = TwinLinkEnd(fields["name"], receives)
            session.links.append(link)
            if session.phase[1 - side] == CLOSED:
                link.phase[1 - side] = CLOSED
        link.phase[side], link.handle[side] = ACTIVE, fields["handle"]
        if not fields["role"]:
            link.initial = link.count = fields["initial_delivery_count"]
        return Event("engine", {})

    def take_detach(self, side: int, channel: int, fields: dict[str, Any]) -> Event | None:
        if self.is_discarded(side, channel):
            return None
        link = self.link(side, channel, fields["handle"])
        if link is None:
            raise Refused("connection", UNATTACHED)
        link.phase[side] = CLOSED
        return Event("engine", {})

    def take_end(self, side: int, channel: int, _: dict[str, Any]) -> Event:
        session = self.session(side, channel)
        if session is None:
            raise Refused("connection", NOT_ALLOWED)
        # No begin answers a session that has ended.
        sides = [OURS, THEIRS] if session.phase[1 - side] == BEFORE else [side]
        for each in sides:
            session.phase[each] = CLOSED
            for link in session.links:
                link.phase[each] = CLOSED
        return Event("engine", {})

    # ---- Frames of the peer that the engine does not get.

    def take_empty(self, _side: int, _channel: int, _fields: dict[str, Any]) -> None:
        return None

    def of_session(self, channel: int) -> TwinSessionEnd:
        session = self.session(THEIRS, channel)
        if session is None:
            raise Refused("connection", NOT_ALLOWED)
        return session

    def tell(self, session: TwinSessionEnd, link: TwinLinkEnd | None) -> None:
        if session.incoming < (session.window + 1) // 2:
            session.incoming = session.window
        told = {"incoming_window": session.incoming, "next_outgoing_id": session.outgoing_id,
                "outgoing_window": MODULUS // 2 - 1}  # fmt: skip
        if session.phase[THEIRS] != BEFORE:
            told["next_incoming_id"] = session.incoming_id
        if link:
            told |= {"handle": link.handle[OURS], "delivery_count": link.count % MODULUS,
                     "link_credit": link.credit, "available": link.available,
                     "drain": link.drain, "echo": False}  # fmt: skip
        self.flows.append((session.channel[OURS], told))

    def take_flow(self, _: int, channel: int, fields: dict[str, Any]) -> Event | None:
        session = self.of_session(channel)
        if session.phase[OURS] == CLOSED:
            return None
        self.note_windows(session, fields)
        told: dict[str, Any] = {"channel": channel}
        link = None
        if "handle" in fields:
            link = self.link(THEIRS, channel, fields["handle"])
            if link is None:
                raise Refused("session", UNATTACHED)
            told["handle"] = fields["handle"]
            self.take_credit(link, fields)
        drains = link is not None and not link.receives and fields.get("drain", False)
        active = session.phase[OURS] == ACTIVE and (link is None or link.phase[OURS] == ACTIVE)
        if fields.get("echo") and active and not drains:
            self.tell(session, link)
        return Event("credit", told)

    def take_credit(self, link: TwinLinkEnd, fields: dict[str, Any]) -> None:
        if link.receives:
            link.available = fields.get("available", link.available)
            advance = ahead(fields.get("delivery_count", link.count), link.count)
            if not self.lenient and not 0 <= advance <= link.credit:
                raise Refused("link", BEYOND)
            advance = max(advance, 0)
            link.count += advance
            link.credit -= min(advance, link.credit)
            return
        link.drain = fields.get("drain", False)
        if "link_credit" in fields:
            seen = fields.get("delivery_count", link.initial)
            link.credit = limited(fields["link_credit"] - ahead(link.count, seen))

    def take_disposition(self, _: int, channel: int, fields: dict[str, Any]) -> Event | None:
        if self.of_session(channel).phase[OURS] == CLOSED:
            return None
        if ahead(fields["last"], fields["first"]) < 0:
            raise Refused("connection", INVALID)
        told = {name: fields[name] for name in ("role", "first", "last", "settled")}
        code, of = fields["state"] or (None, {})
        told |= {"code": code, "txn_id": of.get("txn_id"), "outcome": of.get("outcome")}
        return Event("outcome", {"channel": channel, **told})

    def take_transfer(self, _: int, channel: int, fields: dict[str, Any]) -> Event | None:
        session = self.of_session(channel)
        if session.phase[OURS] == CLOSED:
            return None
        if session.incoming == 0:
            raise Refused("session", "amqp:session:window-violation")
        session.incoming -= 1
        session.incoming_id = (session.incoming_id + 1) % MODULUS
        session.peer_outgoing -= min(1, session.peer_outgoing)
        link = self.link(THEIRS, channel, fields["handle"])
        if session.incoming < (session.window + 1) // 2:
            named = link is not None and link.receives and link.phase[OURS] == ACTIVE
            self.tell(session, link if named else None)
        if link is None:
            raise Refused("session", UNATTACHED)
        if not link.receives:
            raise Refused("link", NOT_ALLOWED)
        if link.delivery is None:
            self.count(session, fields)
        if link.phase[OURS] == CLOSED:
            more = fields.get("more", False) and not fields.get("aborted", False)
            link.delivery = (0, 0) if more else None
            return None
        return self.take_delivery(channel, link, fields)

    def count(self, session: TwinSessionEnd, fields: dict[str, Any]) -> None:
        """Count a delivery's first frame, whose id follows that of the one before it."""
        number = fields.get("delivery_id")
        if number is None or "delivery_tag" not in fields:
            raise Refused("connection", INVALID)
        if session.following not in (None, number) and not self.lenient:
            raise Refused("connection", INVALID)
        session.following = (number + 1) % MODULUS

    def take_delivery(self, channel: int, link: TwinLinkEnd, fields: dict[str, Any]) -> Event:
        first = link.delivery is None
        number = fields.get("delivery_id")
        if link.delivery is None:
            if link.credit == 0 and not self.lenient:
                raise Refused("link", BEYOND)
            link.credit -= min(1, link.credit)
            link.available -= min(1, link.available)
            link.count += 1
            link.delivery, link.settled = (number, fields.get("message_format", 0)), False
        elif number not in (None, link.delivery[0]):
            raise Refused("connection", NOT_ALLOWED)
        link.settled |= fields.get("settled", False)
        delivery, aborted = link.delivery, fields.get("aborted", False)
        more = fields.get("more", False) and not aborted
        if not more:
            link.delivery = None
        told = {"channel": channel, "handle": fields["handle"], "delivery_id": delivery[0]}
        told |= {"message_format": delivery[1], "first": first, "more": more, "aborted": aborted}
        told |= {"settled": link.settled, "payload": fields["payload"]}
        return Event("arrival", told | {"tag": fields.get("delivery_tag")})
