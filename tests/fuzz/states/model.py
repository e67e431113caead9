"""What a server may say to a connection: both sides' frames in, what must not happen out.

A `Connection` follows one connection by the frames of both sides (parts 2.4 to 2.7). It raises
`Wrong` at a frame of the server that the standard forbids. A `Ledger` follows the messages of
all connections: where each is, and who must still get it.

The server reads and writes at times that nobody knows, so credit and windows are judged by the
most that we allowed since the last moment when both sides had read everything (`settle`).
"""

from __future__ import annotations

from typing import Any

from quiver_fast.conform.wire.frames import Frame
from tests.fuzz.states.state import (
    JUDGED,
    LEAST_FRAME,
    MASK,
    NUMBER,
    Ledger,
    Link,
    Session,
    Wrong,
    later,
)

REFUSALS = {None, "amqp:resource-limit-exceeded", "amqp:connection:forced"}


class Connection:
    """Both sides of one connection, from the first open frame on."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.sessions: list[Session] = []
        self.frame_size = LEAST_FRAME
        self.their_frame_size = LEAST_FRAME
        self.channel_max = self.their_channel_max = 2**16 - 1
        self.opened = self.their_opened = False
        self.closed = self.their_closed = False
        # Whether all our frames are valid; `why` is for the list of frames.
        self.honest = True
        # Whether a frame of the server came since the last `settle`: more may be under way.
        self.busy = False
        # Whether the server may begin sessions and attach links.
        self.capable = False
        self.transactions: list[bytes] = []
        self.their_container: str = ""

    # -- what we said

    def sent(self, frame: Frame, size: int) -> None:
        """Note a frame of ours; one that is impossible makes this side dishonest."""
        if self.closed or size > self.their_frame_size:
            self.honest = False
        if self.their_opened and size > self.their_frame_size:
            # The server closes, whatever the frame says.
            return
        handler = getattr(self, f"sent_{frame.name}", None)
        if handler is not None:
            handler(frame, frame.fields)

    def ours(self, channel: int) -> Session | None:
        """Return the session that we began on a channel."""
        return next((each for each in self.sessions if each.ours == channel
                     and not each.ours_ended), None)  # fmt: skip

    def session(self, frame: Frame) -> Session | None:
        found = self.ours(frame.channel)
        self.honest &= found is not None
        return found

    def sent_open(self, _frame: Frame, fields: dict[str, Any]) -> None:
        self.honest &= not self.opened
        if self.opened:
            return
        self.opened = True
        self.frame_size = max(LEAST_FRAME, fields.get("max_frame_size", MASK))
        self.channel_max = fields.get("channel_max", 2**16 - 1)
        offered = fields.get("offered_capabilities") or []
        self.capable = bool({"qd.streaming-links", "quiver.trunk"} & set(offered))

    def sent_begin(self, frame: Frame, fields: dict[str, Any]) -> None:
        # The engine takes the lower of both sides' limits.
        most = min(self.their_channel_max, self.channel_max) if self.their_opened else 0
        self.honest &= self.opened and self.ours(frame.channel) is None and frame.channel <= most
        remote = fields.get("remote_channel")
        session = Session()
        if remote is not None:
            waiting = [s for s in self.sessions if s.theirs == remote and s.ours is None]
            self.honest &= bool(waiting)
            if waiting:
                session = waiting[0]
            else:
                session.wild = True
        if session not in self.sessions:
            self.sessions.append(session)
        session.ours = frame.channel
        session.next_transfer = session.next_delivery = fields.get("next_outgoing_id", 0)
        session.allowed.allow(fields.get("incoming_window", 0))
        session.handle_max = fields.get("handle_max", MASK)

    def sent_end(self, frame: Frame, _fields: dict[str, Any]) -> None:
        session = self.session(frame)
        if session is not None:
            session.ours_ended = True
            self.ledger.left(session)

    def sent_attach(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.session(frame)
        if session is None:
            return
        name, receives = fields.get("name", ""), bool(fields.get("role"))
        self.honest &= session.by_ours(fields["handle"]) is None
        asked = [each for each in session.links if each.name == name
                 and each.receives == receives and each.ours is None]  # fmt: skip
        link = asked[0] if asked else Link(name, receives)
        if not asked:
            session.links.append(link)
        link.ours = fields["handle"]
        terminus = fields.get("source" if receives else "target")
        if terminus is not None and hasattr(terminus, "fields"):
            link.kind = terminus.name
            link.address = terminus.fields.get("address")
            link.browses = terminus.fields.get("distribution_mode") == "copy"
            # A link that ends gives its deliveries the default outcome (part 3.5.3).
            default = terminus.fields.get("default_outcome")
            rejects = default is not None and default.name == "rejected"
            if receives and (rejects or fields.get("snd_settle_mode") == 1):
                self.ledger.leaky.add(link.address or "")
        if not receives:
            link.count = fields.get("initial_delivery_count", 0)

    def sent_detach(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.session(frame)
        link = session.by_ours(fields["handle"]) if session else None
        self.honest &= link is not None
        if session is not None and link is not None:
            link.ours_ended = True
            self.ledger.left(session, link)

    def sent_close(self, _frame: Frame, _fields: dict[str, Any]) -> None:
        self.closed = True
        self.over()

    def over(self) -> None:
        """Note that the connection ends: the server has all its deliveries again."""
        for session in self.sessions:
            self.ledger.left(session)

    def sent_flow(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.session(frame)
        if session is None:
            return
        incoming = fields.get("next_incoming_id")
        expected = session.next_incoming
        if incoming is None or expected is None:
            # Part 2.5.6: before the begin, the window counts from the initial outgoing-id.
            session.wild |= incoming is None and expected is not None
            session.allowed.allow(fields.get("incoming_window", 0))
        else:
            session.wild |= incoming != expected
            session.allowed.allow(fields.get("incoming_window", 0))
        if "handle" in fields:
            self.give(session, fields)

    def give(self, session: Session, fields: dict[str, Any]) -> None:
        link = session.by_ours(fields["handle"])
        self.honest &= link is not None
        if link is not None and link.receives and "link_credit" in fields:
            link.wild |= fields.get("delivery_count", link.count) != link.count
            link.credit.allow(fields["link_credit"])

    def sent_transfer(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.session(frame)
        link = session.by_ours(fields["handle"]) if session else None
        self.honest &= link is not None and not link.receives
        if session is None:
            return
        session.next_transfer = session.next_transfer + 1 & MASK
        session.window -= 1
        if link is None or link.receives:
            return
        link.content += frame.payload
        if link.delivery is None:
            link.plain = "state" not in fields
            link.delivery = fields.get("delivery_id", session.next_delivery)
            session.next_delivery = session.next_delivery + 1 & MASK
            link.count = link.count + 1 & MASK
            link.credit.take()
        if not fields.get("more") or fields.get("aborted"):
            found = NUMBER.search(link.content[-4000:])
            plain = link.plain and not fields.get("aborted") and not fields.get("resume")
            number = int(found[1]) if found and plain else None
            if not fields.get("settled"):
                session.sent[link.delivery] = link, number
            link.delivery, link.content = None, b""

    def sent_disposition(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.session(frame)
        if session is None or not fields.get("role"):
            return
        first, state = fields["first"], fields.get("state")
        span = later(fields.get("last", first), first)
        name, settled = state.name if state is not None else None, bool(fields.get("settled"))
        if session.last_delivery is None or later(first + span & MASK, session.last_delivery) > 0:
            # The outcome of deliveries that we have not read: they may never be read.
            self.ledger.leaky |= {link.address or "" for link in session.links}
            session.judged_ahead = first + span & MASK
        for delivery in list(session.got):
            if 0 <= later(delivery, first) <= span:
                link, number = session.got[delivery]
                if number is None or number == JUDGED:
                    # Before its end, which may have the number.
                    self.ledger.leaky.add(link.address or "")
                    session.got[delivery] = link, JUDGED
                else:
                    self.ledger.said(number, name, settled)
                if settled:
                    self.ledger.held.pop(number or -1, None)
                    del session.got[delivery]

    # -- what the server said

    def came(self, frame: Frame, size: int) -> None:
        """Judge a frame of the server.

        Raises:
            Wrong: The server must not send it.
        """
        if self.their_closed:
            raise Wrong(f"a frame after close: {frame.name}")
        if frame.name not in ("open", "empty") and not self.their_opened and frame.kind == 0:
            raise Wrong(f"a frame before open: {frame.name}")
        self.busy = True
        handler = getattr(self, f"came_{frame.name}", None)
        if handler is not None:
            handler(frame, frame.fields)
        if size > (self.frame_size if self.opened else LEAST_FRAME):
            raise Wrong(f"a frame that is too large: {frame.name}")

    def theirs(self, frame: Frame) -> Session:
        for each in self.sessions:
            if each.theirs == frame.channel and not each.theirs_ended:
                return each
        raise Wrong(f"a frame on a channel that is not begun: {frame.name}")

    def link(self, frame: Frame) -> tuple[Session, Link]:
        session = self.theirs(frame)
        link = session.by_theirs(frame.fields["handle"])
        if link is None:
            raise Wrong(f"a frame on a handle that is not attached: {frame.name}")
        return session, link

    def refused(self, what: str, fields: dict[str, Any]) -> None:
        """Judge the reason of an end or a close."""
        error = fields.get("error")
        condition = error.fields.get("condition") if error is not None else None
        description = error.fields.get("description", "") if error is not None else ""
        if self.honest and condition not in REFUSALS and "container-id" not in description:
            raise Wrong(f"an honest peer was refused by {what}: {condition}: "
                        f"{error.fields.get('description')}")  # fmt: skip
        if condition == "amqp:internal-error":
            raise Wrong(f"{what} with {error.fields}")

    def came_open(self, _frame: Frame, fields: dict[str, Any]) -> None:
        if self.their_opened:
            raise Wrong("a second open")
        self.their_opened = True
        self.their_frame_size = fields.get("max_frame_size", MASK)
        self.their_channel_max = fields.get("channel_max", 2**16 - 1)
        self.their_container = fields.get("container_id", "")

    def came_begin(self, frame: Frame, fields: dict[str, Any]) -> None:
        if any(s.theirs == frame.channel and not s.theirs_ended for s in self.sessions):
            raise Wrong("a begin on a channel that is begun")
        if frame.channel > self.channel_max:
            raise Wrong("a begin beyond channel-max")
        remote = fields.get("remote_channel")
        waiting = [s for s in self.sessions if s.ours == remote and s.theirs is None]
        if remote is not None and not waiting:
            raise Wrong("a begin that answers none")
        if remote is None and not self.capable:
            raise Wrong("an answer to a begin has no remote-channel")
        session = waiting[0] if remote is not None else Session()
        if remote is None:
            self.sessions.append(session)
        session.theirs = frame.channel
        session.next_incoming = fields["next_outgoing_id"]
        session.window = fields["incoming_window"] + session.window
        session.their_handle_max = fields.get("handle_max", MASK)

    def came_end(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.theirs(frame)
        session.theirs_ended = True
        self.ledger.left(session)
        self.refused("end", fields)

    def came_close(self, _frame: Frame, fields: dict[str, Any]) -> None:
        self.their_closed = True
        self.over()
        self.refused("close", fields)

    def came_attach(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.theirs(frame)
        if session.by_theirs(fields["handle"]):
            raise Wrong("an attach with a handle in use")
        if fields["handle"] > session.handle_max:
            raise Wrong("an attach beyond handle-max")
        receives = not fields["role"]
        asked = [each for each in session.links if each.name == fields["name"]
                 and each.receives == receives and each.theirs is None]  # fmt: skip
        if not asked and not self.capable:
            raise Wrong("an attach that answers none")
        link = asked[0] if asked else Link(fields["name"], receives)
        if not asked:
            session.links.append(link)
        link.theirs = fields["handle"]
        ours = fields.get("source" if receives else "target")
        link.refused = bool(asked) and ours is None
        if receives:
            link.count = fields.get("initial_delivery_count", 0)
        if link.kind == "":
            theirs = fields.get("source")
            link.address = theirs.fields.get("address") if hasattr(theirs, "fields") else None
        if link.address is None and ours is not None and hasattr(ours, "fields"):
            # Dynamic, or a subscription that was looked up.
            link.address = ours.fields.get("address")

    def came_detach(self, frame: Frame, fields: dict[str, Any]) -> None:
        session, link = self.link(frame)
        link.theirs_ended = True
        self.ledger.left(session, link)
        error = fields.get("error")
        if error is not None and error.fields.get("condition") == "amqp:internal-error":
            raise Wrong(f"detach with {error.fields}")

    def came_flow(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.theirs(frame)
        incoming = fields.get("next_incoming_id", session.next_transfer)
        session.window = later(incoming, session.next_transfer) + fields["incoming_window"]
        if "handle" not in fields:
            return
        session, link = self.link(frame)
        if not link.receives:
            ahead = later(fields.get("delivery_count", link.count), link.count)
            link.credit.left = ahead + fields.get("link_credit", 0)
        elif "delivery_count" in fields:
            # A drain advances the count (part 2.6.7).
            link.credit.take(later(fields["delivery_count"], link.count))
            link.count = fields["delivery_count"]

    def came_transfer(self, frame: Frame, fields: dict[str, Any]) -> None:
        session, link = self.link(frame)
        if not link.receives:
            raise Wrong("a transfer from a receiver")
        assert session.next_incoming is not None
        session.next_incoming = session.next_incoming + 1 & MASK
        if not session.allowed.take() and not session.wild:
            raise Wrong("a transfer beyond the session's window")
        if link.delivery is None:
            self.delivery_began(session, link, fields)
        elif fields.get("delivery_id", link.delivery) != link.delivery:
            raise Wrong("a part of another delivery")
        link.content += frame.payload
        if fields.get("aborted"):
            session.got.pop(link.delivery or 0, None)
        if fields.get("more") and not fields.get("aborted"):
            return
        if not fields.get("aborted"):
            self.delivery_ended(session, link, bool(fields.get("settled")))
        link.delivery, link.content = None, b""

    def delivery_began(self, session: Session, link: Link, fields: dict[str, Any]) -> None:
        delivery = fields.get("delivery_id")
        if delivery is None:
            raise Wrong("a delivery without an id")
        if session.last_delivery is not None and later(delivery, session.last_delivery) != 1:
            raise Wrong("delivery-ids that are not consecutive")
        session.last_delivery = link.delivery = delivery
        link.count = link.count + 1 & MASK
        if not link.credit.take() and not link.wild:
            raise Wrong("a delivery beyond the credit")
        ahead = session.judged_ahead
        early = ahead is not None and later(delivery, ahead) <= 0
        session.got[delivery] = link, JUDGED if early else None

    def delivery_ended(self, session: Session, link: Link, settled: bool) -> None:
        assert link.delivery is not None
        if settled:
            session.got.pop(link.delivery, None)
        found = NUMBER.search(link.content[-4000:])
        if found is None or link.browses or not (link.address or "q-").startswith("q-"):
            return
        number = int(found[1])
        _, judged = session.got.get(link.delivery, (link, JUDGED))
        if link.address is None or (judged == JUDGED and not settled):
            # A stream on a link of the server's names no queue; or we judged it before its end.
            self.ledger.doubt(number)
            return
        if not settled and (session.ours_ended or link.ours_ended or self.closed):
            # The server has it back, and another consumer may have it: whose frames we read first.
            session.got.pop(link.delivery, None)
            return
        self.ledger.came(session, link, number, settled)
        if not settled:
            session.got[link.delivery] = link, number

    def came_disposition(self, frame: Frame, fields: dict[str, Any]) -> None:
        session = self.theirs(frame)
        first, state = fields["first"], fields.get("state")
        span = later(fields.get("last", first), first)
        if span < 0:
            raise Wrong("a disposition that ends before its begin")
        if not fields.get("role"):
            if fields.get("settled"):
                # A later word of ours is about no delivery.
                for delivery in [each for each in session.got if 0 <= later(each, first) <= span]:
                    del session.got[delivery]
            return
        for delivery in [each for each in session.sent if 0 <= later(each, first) <= span]:
            link, number = session.sent[delivery]
            if state is not None and state.name == "declared":
                self.transactions.append(state.fields["txn_id"])
            accepted = state is not None and state.name == "accepted"
            if accepted and number is not None and (link.address or "").startswith("q-"):
                self.ledger.accepted[number] = link.address or ""
            if fields.get("settled"):
                del session.sent[delivery]

    # -- when both sides have read everything

    def settle(self) -> None:
        """Note that the server has read all of ours, and we all of the server's.

        A server that still writes may have more for us, which it wrote before it read our last.
        """
        busy, self.busy = self.busy, False
        if busy:
            return
        for session in self.sessions:
            session.allowed.settle()
            for link in session.links:
                link.credit.settle()

    def unanswered(self) -> str | None:
        """Say what the server owes on this connection; None if nothing."""
        if self.closed or self.their_closed or not self.honest:
            return None
        if self.opened and not self.their_opened:
            return "open"
        for session in self.sessions:
            if session.ours is not None and session.theirs is None:
                return "begin"
            if session.theirs_ended:
                continue
            if session.ours_ended:
                return "end"
            for link in session.links:
                if link.ours is not None and link.theirs is None:
                    return "attach"
                if link.ours_ended and not link.theirs_ended:
                    return "detach"
        return None
