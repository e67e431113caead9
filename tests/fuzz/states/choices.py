"""What a peer may do, valid and half-valid: a scenario is a list of such steps.

Steps are a pure function of the seed. Each has numbers (`Draw`) that choose among the sessions,
links and deliveries that there are when the step is taken. So a scenario without some of its steps
is a scenario, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from quiver_fast.conform.wire.frames import encode_frame
from tests.fuzz.states.model import Connection
from tests.fuzz.states.state import MASK, Link, Session

T = TypeVar("T")
NUMBERS = 12
EDGES = [0, 1, 2, 7, 2**16 - 1, 2**31 - 1, 2**31, MASK]


class Step(NamedTuple):
    """One action of one peer.

    Attributes:
        peer: whose.
        name: which.
        numbers: its choices.
        glued: whether its bytes wait for those of the peer's next step, for one write.
        cut: whether its bytes are written in two parts.
    """

    peer: int
    name: str
    numbers: tuple[int, ...]
    glued: bool = False
    cut: bool = False


class Draw:
    """The choices of a step, one after the other."""

    def __init__(self, numbers: tuple[int, ...], wildness: int, known: Connection) -> None:
        self.numbers = numbers
        self.at = 0
        self.wildness = wildness
        self.known = known

    def number(self) -> int:
        self.at += 1
        return self.numbers[(self.at - 1) % len(self.numbers)] // (1 + self.at // len(self.numbers))

    def pick(self, options: list[T]) -> T:
        return options[self.number() % len(options)]

    def one_in(self, count: int) -> bool:
        return self.number() % count == 0

    def wrong(self) -> bool:
        """Say whether to do something that is not valid, from which on the peer is not honest."""
        found = self.wildness > 0 and self.one_in(self.wildness)
        self.known.honest &= not found
        return found


@dataclass
class Peer:
    """What an action sees: its connection, and the scenario's names."""

    known: Connection
    number: int
    scenario: str
    dialed: bool = False
    sent: int = 0

    @property
    def addresses(self) -> list[str]:
        name = self.scenario
        return [f"q-{name}", f"q-{name}", f"q-{name}-b", f"topic-{name}"]

    def next_number(self) -> int:
        self.sent += 1
        return self.number * 10_000 + self.sent


Action = Callable[[Peer, Draw], bytes]
ACTIONS: dict[str, tuple[int, Action]] = {}


def action(weight: int) -> Callable[[Action], Action]:
    """Add an action with its weight."""

    def add(function: Action) -> Action:
        ACTIONS[function.__name__] = weight, function
        return function

    return add


def sessions(peer: Peer, *, begun: bool = True) -> list[Session]:
    """Return the sessions that we may use; also those that the server has not answered yet."""
    return [s for s in peer.known.sessions if s.ours is not None and not s.ours_ended
            and not s.theirs_ended and (s.theirs is not None or begun)]  # fmt: skip


def links(peer: Peer, receives: bool | None = None) -> list[tuple[Session, Link]]:
    """Return the links that we attached and may use."""
    return [(s, link) for s in sessions(peer) for link in s.links
            if link.ours is not None and not link.ours_ended and not link.theirs_ended
            and not link.refused and receives in (None, link.receives)]  # fmt: skip


def free(used: set[int | None]) -> int:
    return next(number for number in range(2**16) if number not in used)


def channel(peer: Peer, draw: Draw) -> int | None:
    """Return the channel of a session, or a wrong one; None if there is none."""
    if draw.wrong():
        return draw.pick([7, 100, 65535])
    found = sessions(peer)
    return draw.pick(found).ours if found else None


def windows(draw: Draw) -> dict[str, int]:
    return {
        "incoming_window": draw.pick([1000, 1000, 1000, 1, 5, 2**31 - 1]),
        "outgoing_window": draw.pick([1000, 1000, 1000, 0, 2**31 - 1]),
    }


def session_fields(session: Session, window: int = 1000) -> dict[str, Any]:
    fields = {"incoming_window": window, "next_outgoing_id": session.next_transfer,
              "outgoing_window": 1000}  # fmt: skip
    if session.next_incoming is not None:
        fields["next_incoming_id"] = session.next_incoming
    return fields


def credit_frame(session: Session, handle: int, credit: int, count: int, **fields: Any) -> bytes:
    """Return a flow with credit for a link."""
    return encode_frame("flow", channel=session.ours or 0, handle=handle, delivery_count=count,
                        link_credit=credit, **{**session_fields(session), **fields})  # fmt: skip
