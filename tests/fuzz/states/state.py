"""The state of a connection as both sides see it, and where each message is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MASK = 2**32 - 1
LEAST_FRAME = 512
# In place of the number of a message of which we said an outcome before its end.
JUDGED = -1
# The number of a message in its body, see `actions.body`.
NUMBER = re.compile(rb"<(\d+)>")


class Wrong(Exception):  # noqa: N818  # what the server did, not what failed here
    """The server did what it must not do."""


def later(one: int, other: int) -> int:
    """Return how far a serial number is behind another one (RFC 1982)."""
    return (one - other + 2**31) % 2**32 - 2**31


@dataclass
class Allowance:
    """How much the server may still send: now, and at most since both sides had read all."""

    left: int = 0
    most: int = 0

    def allow(self, left: int) -> None:
        self.left = left
        self.most = max(self.most, left)

    def take(self, count: int = 1) -> bool:
        self.left -= count
        self.most -= count
        return self.most >= 0

    def settle(self) -> None:
        self.most = self.left


@dataclass
class Link:
    """A link: our attach, the server's, or both."""

    name: str
    receives: bool
    address: str | None = None
    # Our handle and the server's, from attach on.
    ours: int | None = None
    theirs: int | None = None
    ours_ended: bool = False
    theirs_ended: bool = False
    refused: bool = False
    kind: str = ""
    browses: bool = False
    # The receiver's allowance for us, or ours for the server.
    credit: Allowance = field(default_factory=Allowance)
    count: int = 0
    # We said something about its credit that is wrong.
    wild: bool = False
    # The delivery under way: its number or our id, and its bytes so far.
    delivery: int | None = None
    content: bytes = b""
    # It is in no transaction.
    plain: bool = True

    @property
    def usable(self) -> bool:
        """Whether both sides have attached, and neither has detached."""
        return None not in (self.ours, self.theirs) and not (
            self.ours_ended or self.theirs_ended or self.refused
        )


@dataclass
class Session:
    """A session: our begin, the server's, or both."""

    ours: int | None = None
    theirs: int | None = None
    ours_ended: bool = False
    theirs_ended: bool = False
    links: list[Link] = field(default_factory=list)
    # Ours: the next transfer and delivery, and what the server's window allows.
    next_transfer: int = 0
    next_delivery: int = 0
    window: int = 0
    sent: dict[int, tuple[Link, int | None]] = field(default_factory=dict)
    # The server's: its next transfer and delivery, and what our window allows.
    next_incoming: int | None = None
    last_delivery: int | None = None
    # The last id of which we said an outcome, if no delivery with it had come.
    judged_ahead: int | None = None
    allowed: Allowance = field(default_factory=Allowance)
    got: dict[int, tuple[Link, int | None]] = field(default_factory=dict)
    # It ended, or its connection did.
    over: bool = False
    handle_max: int = MASK
    their_handle_max: int = MASK
    wild: bool = False

    @property
    def usable(self) -> bool:
        """Whether both sides have begun, and neither has ended."""
        return None not in (self.ours, self.theirs) and not (self.ours_ended or self.theirs_ended)

    def by_ours(self, handle: int) -> Link | None:
        """Return the link that we attached with a handle."""
        return next((each for each in self.links if each.ours == handle and not each.ours_ended),
                    None)  # fmt: skip

    def by_theirs(self, handle: int) -> Link | None:
        """Return the link that the server attached with a handle."""
        return next(
            (each for each in self.links if each.theirs == handle and not each.theirs_ended), None
        )


class Ledger:
    """Which messages the server has accepted, and which of them somebody may have consumed."""

    def __init__(self) -> None:
        self.accepted: dict[int, str] = {}
        # By message: who holds it unsettled.
        self.held: dict[int, tuple[Session, Link]] = {}
        # What would be wrong, unless one of these has ended: it may have had the message first.
        # Whose frames came first is not known.
        self.doubted: list[tuple[str, list[tuple[Session, Link]]]] = []
        self.consumed: set[int] = set()
        # Addresses whose messages may be lost with a link: it asked for settled deliveries. With
        # "" those of all: a link of the server's names no queue.
        self.leaky: set[str] = set()
        # Anybody may have these once more: their delivery was given back, or ended.
        self.returned: set[int] = set()

    def came(self, session: Session, link: Link, number: int, settled: bool) -> None:
        """Note a delivery of a queue's message to a consumer that does not browse."""
        here = session, link
        if number in self.held and number not in self.returned:
            holders = [self.held[number], here]
            self.doubted.append(("a message is with two consumers at once", holders))
        elif number in self.consumed and number not in self.returned:
            # A settled delivery does not go back to the queue, not even with its session.
            holders = [] if settled else [here]
            self.doubted.append(("a message is delivered after its acceptance", holders))
        self.returned.discard(number)
        if settled:
            self.consumed.add(number)
        else:
            self.held[number] = session, link

    def said(self, number: int, state: str | None, settled: bool) -> None:
        """Note our outcome of a delivery."""
        # Without a state, the default outcome counts.
        if state not in ("accepted", "rejected") or not settled:
            self.returned.add(number)
        if state != "released":
            self.consumed.add(number)

    def doubt(self, number: int) -> None:
        """Note that a message may be consumed, and may come again."""
        self.consumed.add(number)
        self.returned.add(number)

    def left(self, session: Session, link: Link | None = None) -> None:
        """Note that a link or a session ended: the server has its deliveries again."""
        session.over |= link is None
        for of, number in session.got.values():
            if number is not None and (link is None or of is link):
                self.returned.add(number)
                self.held.pop(number, None)

    def settle(self) -> None:
        """Judge doubts, when the frames of all connections were read."""
        doubted, self.doubted = self.doubted, []
        for what, holders in doubted:
            if not any(s.over or s.theirs_ended or link.theirs_ended for s, link in holders):
                raise Wrong(what)

    def judge(self, address: str, found: list[int]) -> None:
        """Compare the rest of a queue with the messages that nobody consumed."""
        if len(found) != len(set(found)):
            raise Wrong("a message is in its queue twice")
        if self.leaky & {address, ""}:
            return
        missing = {
            number for number, where in self.accepted.items() if where == address
        } - set(found) - self.consumed  # fmt: skip
        if missing:
            raise Wrong("an accepted message is lost")
        for number in found:
            if number in self.consumed and number not in self.returned:
                raise Wrong("a message is delivered after its acceptance")
