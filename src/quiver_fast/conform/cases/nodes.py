"""Cases of nodes: termini, dynamic nodes, distribution modes, the anonymous terminus (part 3.5)."""

from __future__ import annotations

import secrets
from typing import Any

from quiver_fast.conform.case import MUST, SHOULD, Unobservable, check, rows, server
from quiver_fast.conform.cases.messages import (
    NULL,
    comes,
    cut,
    delivered,
    fails,
    head,
    intruder,
    next_of,
    properties,
    settle,
)
from quiver_fast.conform.cases.messages import body as body_of
from quiver_fast.conform.mutation import changed, dropped
from quiver_fast.conform.server import ACCEPTED, BODY, Server, preparing
from quiver_fast.conform.wire.client import ENDS, FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import Composite, composite

RECEIVED = composite("received", section_number=0, section_offset=0)
OUTCOMES = {
    "accepted": ACCEPTED,
    "rejected": composite("rejected"),
    "released": composite("released"),
    "modified": composite("modified", delivery_failed=True),
}
# The delivery-count with which it comes again.
AGAIN = {"released": 0, "modified": 1}
SAME = changed("attach", source__address="same")


def answered(peer: FrameClient, terminus: str) -> Composite | None:
    """Return the terminus in the answer to an attach; None for a refusal, which says why."""
    found = next_of(peer, "attach", *ENDS)
    said: Composite | None = found.fields.get(terminus)
    if said is None and found.name == "attach":
        peer.refused("detach")
    return said


# -- dynamic nodes


def dynamic(peer: FrameClient, terminus: str, handle: int = 0, **fields: Any) -> Composite:
    """Attach to a node that the server makes; return the terminus in its answer."""
    attach = peer.attach_receiver if terminus == "source" else peer.attach_sender
    asked = composite(terminus, dynamic=True, **fields)
    said: Composite = attach("", handle=handle, **{terminus: asked}).fields[terminus]
    return said


@rows(server, MUST, changed("attach", source__address=None), "dynamic", table={
    "3.5.3/1": ("The attach of a dynamic source names its address.", "source"),
    "3.5.4/1": ("The attach of a dynamic target names its address.", "target",
                changed("attach", target__address=None)),
})  # fmt: skip
def named(server: Server, terminus: str) -> None:
    said = dynamic(server.session(), terminus)
    check(bool(said.fields.get("address")), "an address", said)


@server("3.5.3/2", MUST, SAME, "dynamic")
def different(server: Server) -> None:
    """Dynamic nodes have addresses that differ."""
    peer = server.session()
    found = [dynamic(peer, "source", handle).fields["address"] for handle in range(5)]
    check(len({*found}) == len(found), "addresses that differ", found)


@server("3.5.3/3", SHOULD, SAME, "dynamic")
def speaking(server: Server) -> None:
    """The address of a dynamic node has the names of the link and of our container."""
    peer = server.opened(container_id="conform-names")
    peer.begin()
    found = dynamic(peer, "source").fields["address"]
    check("from-0" in found and "conform-names" in found, "the two names", found)


def policy(code: int) -> Value:
    described = Value("described", (Value("ulong", code), Value("list", ())))
    return Value("map", ((Value("symbol", "lifetime-policy"), described),))


def policy_of(terminus: Composite | None) -> int | None:
    """Return the lifetime policy in an answer; its descriptor may be a symbol."""
    said = (terminus.fields.get("dynamic_node_properties") or {}) if terminus is not None else {}
    found = said.get("lifetime-policy")
    code = found.value[0].value if isinstance(found, Value) else None
    return POLICIES.get(code, code) if code is not None else None


ON_CLOSE, ON_NO_LINKS, ON_NO_MESSAGES, ON_NEITHER = range(0x2B, 0x2F)
POLICIES: dict[Any, int] = {
    "amqp:delete-on-close:list": ON_CLOSE,
    "amqp:delete-on-no-links:list": ON_NO_LINKS,
    "amqp:delete-on-no-messages:list": ON_NO_MESSAGES,
    "amqp:delete-on-no-links-or-messages:list": ON_NEITHER,
}
NONE = 0x2F


@server("3.5.9/1", SHOULD, changed("attach", target__dynamic_node_properties=None), "dynamic")
def tells_its_policy(server: Server) -> None:
    """The attach of a dynamic node names its lifetime policy."""
    said = dynamic(server.session(), "target", dynamic_node_properties=policy(ON_CLOSE))
    check(policy_of(said) in POLICIES.values(), "a lifetime-policy", said)


@server("3.5.9/2", SHOULD, changed("attach", target=composite("target", address="x",
        dynamic=True, dynamic_node_properties=policy(NONE))), "dynamic")  # fmt: skip
def claims_no_other(server: Server) -> None:
    """A lifetime policy that there is not is not claimed."""
    peer = server.session()
    target = composite("target", dynamic=True, dynamic_node_properties=policy(NONE))
    peer.send("attach", name="odd", handle=0, role=False, source=composite("source"),
              target=target, initial_delivery_count=0)  # fmt: skip
    said = answered(peer, "target")
    check(policy_of(said) != NONE, "no such policy", said)


def made(server: Server, code: int) -> tuple[FrameClient, str]:
    """Make a node by a sending link (handle 0) with a lifetime policy that the server claims."""
    peer = server.session()
    said = dynamic(peer, "target", dynamic_node_properties=policy(code))
    if policy_of(said) != code:
        raise Unobservable("it does not claim that policy")
    return peer, said.fields["address"]


def exists(server: Server, address: str) -> bool:
    peer = server.session()
    peer.send("attach", name="looks", handle=0, role=True, target=composite("target"),
              source=composite("source", address=address))  # fmt: skip
    if answered(peer, "source") is None:
        return False
    detach(peer)
    return True


def detach(peer: FrameClient) -> None:
    peer.send("detach", handle=0, closed=True)
    next_of(peer, "detach")


def check_gone(server: Server, address: str) -> None:
    if exists(server, address):
        server.session().nothing()
        check(not exists(server, address), "no such node any more", "a link to it")


def put(peer: FrameClient) -> None:
    with preparing("send a message"):
        peer.wait_for_credit()
        peer.transfer(0, BODY)
        peer.outcome(0, "accepted")


def take(server: Server, address: str) -> FrameClient:
    peer = server.receiver(address, credit=1)
    settle(peer, delivered(peer)[0].fields["delivery_id"])
    return peer


STAYS = changed("attach", source=composite("source", address="stays"))


@server("3.5.10/1", MUST, STAYS, "dynamic", "pinned")
def on_close(server: Server) -> None:
    """A node of delete-on-close goes with the link that made it, whoever else has one."""
    peer, address = made(server, ON_CLOSE)
    server.receiver(address)
    detach(peer)
    check_gone(server, address)


@server("3.5.11/1", MUST, STAYS, "dynamic", "pinned")
def on_no_links(server: Server) -> None:
    """A node of delete-on-no-links goes with its last link, and not before."""
    peer, address = made(server, ON_NO_LINKS)
    user = server.receiver(address)
    detach(peer)
    check(exists(server, address), "the node", "none")
    detach(user)
    check_gone(server, address)


@server("3.5.12/1", MUST, STAYS, "dynamic", "pinned")
def on_no_messages(server: Server) -> None:
    """A node of delete-on-no-messages goes when its maker and its messages have gone."""
    peer, address = made(server, ON_NO_MESSAGES)
    put(peer)
    detach(peer)
    check(exists(server, address), "the node", "none")
    take(server, address)
    check_gone(server, address)


@server("3.5.13/1", MUST, STAYS, "dynamic", "pinned")
def on_neither(server: Server) -> None:
    """A node of delete-on-no-links-or-messages goes when it has neither."""
    peer, address = made(server, ON_NEITHER)
    put(peer)
    detach(peer)
    check(exists(server, address), "the node", "none")
    detach(take(server, address))
    check_gone(server, address)


# -- what a source says


@server("3.5.3/4", MUST, changed("attach", source__distribution_mode=None), "copy", "queue")
def names_its_mode(server: Server) -> None:
    """A source that can copy and move names its distribution mode."""
    peer = server.receiver(
        source=composite("source", address=server.filled(), distribution_mode="copy"), credit=1
    )
    with preparing("copy a message"):
        settle(peer, delivered(peer)[0].fields["delivery_id"])
    if not server.left():
        raise Unobservable("it has one mode: a message that it copies is gone, too")
    for mode in (None, "move", "copy"):
        source = composite("source", address=server.queue(), distribution_mode=mode)
        said = server.receiver(source=source).theirs["attach"]["source"].fields
        check(said.get("distribution_mode") in ("move", "copy"), "a distribution-mode", said)


@server("3.5.2/1", MUST, dropped("transfer", nth=2), "copy", "queue")
def copied(server: Server) -> None:
    """A message that is copied stays for others as it is, whatever its outcome."""
    for state in (*OUTCOMES.values(), composite("modified", undeliverable_here=True)):
        source = composite("source", address=server.filled(BODY), distribution_mode="copy")
        peer = server.receiver(source=source, credit=1)
        settle(peer, delivered(peer)[0].fields["delivery_id"], state)
        cut(peer)
        (found,) = comes(server, b"conform")
        check(head(found)["delivery_count"] == 0, "a delivery-count of 0", head(found))


FILTER = Value("symbol", "x-quiver:none")
FILTERS = Value("map", ((FILTER, Value("described", (FILTER, Value("string", "x")))),))
TOLD = changed("attach", source=composite("source", filter=FILTERS))


@rows(server, MUST, TOLD, "address", table={
    "3.5.3/5": ("A filter that nobody knows is not told as in place.", "filter", FILTERS),
    "2.6.3/7": ("A capability that nobody knows is not told as there.", "capabilities",
                symbols(FILTER.value), SHOULD,
                changed("attach", source__capabilities=[FILTER.value])),
})  # fmt: skip
def unknown(server: Server, field: str, asked: Value) -> None:
    peer = server.session()
    source = composite("source", address=server.queue(), **{field: asked})
    peer.send("attach", name="odd", handle=0, role=True, source=source, target=composite("target"))
    said = answered(peer, "source")
    found = said.fields.get(field) or {} if said is not None else {}
    check(FILTER.value not in found, f"no such {field}", found)


# -- the default outcome


@rows(server, MUST, intruder(3), "queue", table={
    "3.5.3/6": ("The default-outcome is that of deliveries that are settled without one.",
                "settled", "received"),
    "3.5.3/7": ("The default-outcome is that of deliveries of a link that ends.",
                "detach", "end", "cut"),
})  # fmt: skip
def default_outcome(server: Server, *ways: str) -> None:
    for name, outcome in OUTCOMES.items():
        for way in ways:
            _left_by(server, way, name, outcome)
            if name not in AGAIN:
                found = [*map(body_of, server.left())]
                check(found == [], f"no message, {name}", found)
                continue
            (payload,) = comes(server, b"conform")
            count = head(payload)["delivery_count"]
            check(count == AGAIN[name], f"{name}, delivery-count={AGAIN[name]}", count)


def _left_by(server: Server, way: str, name: str, outcome: Value) -> None:
    """Take a message from a source with a default-outcome, and leave it without one."""
    source = composite("source", address=server.filled(BODY), default_outcome=outcome)
    peer = server.receiver(source=source, credit=1)
    said = peer.theirs["attach"]["source"].fields.get("default_outcome")
    if said is None or said.name != name:
        raise Unobservable("it does not take a default-outcome")
    number = delivered(peer)[0].fields["delivery_id"]
    if way in ("settled", "received"):
        state = RECEIVED if way == "received" else None
        peer.send("disposition", role=True, first=number, settled=True, state=state)
    elif way == "detach":
        detach(peer)
    elif way == "end":
        peer.send("end")
        next_of(peer, "end")
    cut(peer)


@server("3.5.3/8", MUST, changed("attach", source=composite("source", default_outcome=RECEIVED)),
        "address")  # fmt: skip
def no_default_outcome(server: Server) -> None:
    """A default-outcome that is no outcome is refused, or not told as in place."""
    # Declared is an outcome, too (part 4.5.5).
    for odd in (RECEIVED, Value("string", "odd")):
        peer = server.session()
        source = composite("source", address=server.queue(), default_outcome=odd)
        peer.send("attach", name="odd", handle=0, role=True, source=source,
                  target=composite("target"))  # fmt: skip
        said = answered(peer, "source")
        told = said.fields.get("default_outcome") if said is not None else None
        told = told.name if isinstance(told, Composite) else told
        check(told is None or told in OUTCOMES, "no such default-outcome", said)


# -- the anonymous terminus


@server("anonterm/1", MUST, dropped("flow"), "anonymous")
def anonymous(server: Server) -> None:
    """A link to the null target is taken, and gets credit, where ANONYMOUS-RELAY is offered."""
    peer = server.session()
    termini = {"source": composite("source"), "target": composite("target")}
    peer.send("attach", name="any", handle=0, role=False, initial_delivery_count=0, **termini)
    peer.expect("attach", target=lambda said: said is not None)
    next_of(peer, "flow")


def relayed(server: Server, payload: bytes) -> FrameClient:
    peer = server.session()
    peer.attach_sender("", target=composite("target"))
    peer.wait_for_credit()
    peer.transfer(0, payload)
    return peer


@server("anonterm/2", MUST, changed("disposition", state=composite("rejected")),
        "anonymous", "queue")  # fmt: skip
def to_decides(server: Server) -> None:
    """A message to the null target goes to the node that its to names."""
    to = properties(NULL, NULL, Value("string", server.queue()))
    relayed(server, to + BODY).outcome(0, "accepted")
    comes(server, b"conform")


@server("anonterm/3", MUST, changed("disposition", state=ACCEPTED), "anonymous", "pinned")
def to_nowhere(server: Server) -> None:
    """A message to the null target that has no to, or one that is nowhere, is not accepted."""
    nowhere = Value("string", f"quiver-conform-{secrets.token_hex(8)}")
    for payload in (properties(NULL, NULL, nowhere) + BODY, properties(Value("ulong", 1)) + BODY,
                    BODY):  # fmt: skip
        fails(relayed(server, payload))
