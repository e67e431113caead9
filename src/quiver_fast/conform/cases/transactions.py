"""Cases of transactions (part 4)."""

from __future__ import annotations

from typing import Any

from quiver_fast.conform.case import MUST, SHOULD, Unobservable, check, rows, server
from quiver_fast.conform.cases.messages import (
    VALUE,
    body,
    comes,
    cut,
    delivered,
    fails,
    intruder,
    next_of,
    section,
    settle,
)
from quiver_fast.conform.mutation import changed, dropped
from quiver_fast.conform.server import ACCEPTED, BODY, CONTROL, OTHER, Controller, Server, preparing
from quiver_fast.conform.wire.client import ENDS, FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import Composite, Frame, composite, message

MANY = "amqp:multi-txns-per-ssn"
ERRORS = tuple(f"amqp:transaction:{name}" for name in ("unknown-id", "rollback", "timeout"))
UNKNOWN = b"\xff" * 8
A, B, C = (message(name) for name in (b"A", b"B", b"C"))
MODIFIED = composite("modified", delivery_failed=True)


def within(txn_id: bytes, outcome: Value | None = None) -> Value:
    return composite("transactional_state", txn_id=txn_id, outcome=outcome)


def credited(peer: FrameClient, attach: Frame) -> None:
    """Wait for credit of this link: the control link gets some, too."""
    with preparing("get credit"):
        while True:
            flow = peer.expect("flow").fields
            if flow.get("handle") == attach.fields["handle"] and flow.get("link_credit"):
                return


def posting(server: Server) -> tuple[Controller, bytes]:
    """Declare a transaction, on a session that has a sender of the queue (handle 0), too."""
    work = server.controller()
    txn_id = work.declare()
    credited(work.peer, work.peer.attach_sender(server.queue()))
    return work, txn_id


def post(work: Controller, state: Value, *payloads: bytes, **transfer: Any) -> None:
    for payload in payloads:
        work.peer.transfer(work.peer.next_delivery, payload, state=state, **transfer)


def taking(server: Server, *payloads: bytes, **source: Any) -> tuple[Controller, bytes, list[int]]:
    """Declare a transaction on a session that took messages by its handle 1; return their ids."""
    address = server.filled(*payloads)
    work = server.controller()
    txn_id, peer = work.declare(), work.peer
    peer.attach_receiver(address, handle=1)
    peer.give_credit(len(payloads), handle=1, next_outgoing_id=peer.next_delivery)
    with preparing("receive messages"):
        return work, txn_id, [delivered(peer)[0].fields["delivery_id"] for _ in payloads]


# -- the coordinator


def coordinator(target: Composite | None) -> bool:
    return target is not None and target.name == "coordinator"


@rows(server, MUST, changed("attach", target=None), "coordinator", table={
    "4.5.1/1": ("The attach of a link to the coordinator has a coordinator as its target.", False),
    "4.5.1/2": ("The coordinator in the attach names its capabilities.", True, SHOULD,
                changed("attach", target=composite("coordinator"))),
})  # fmt: skip
def names_the_coordinator(server: Server, capable: bool) -> None:
    peer = server.session()
    termini = {"source": composite("source"), "target": composite("coordinator")}
    peer.send("attach", name="control", handle=0, role=False, initial_delivery_count=0, **termini)
    said = peer.expect("attach", target=coordinator).fields["target"].fields
    check(not capable or "capabilities" in said, "capabilities", said)


# -- declare and discharge


@server("4.2/1", MUST, dropped("disposition"), "coordinator")
def declared(server: Server) -> None:
    """A declare is answered by declared."""
    found = server.controller().ask(composite("declare"))
    check(found.fields["state"].name == "declared", "declared", found)


@server("4.2/6", MUST, changed("disposition", state=composite("declared", txn_id=b"1")),
        "coordinator", "queue")  # fmt: skip
def several(server: Server) -> None:
    """Each of several transactions of a session has its own id, and is discharged for itself."""
    able = server.controller().peer.theirs["attach"]["target"].fields.get("capabilities") or ()
    if MANY not in able:
        raise Unobservable(f"it does not offer {MANY}")
    work, first = posting(server)
    second = work.declare()
    check(first != second, "ids that differ", [first, second])
    post(work, within(first), A)
    post(work, within(second), B)
    work.discharge(second)
    comes(server, b"B")
    work.discharge(first)
    comes(server, b"A")


@server("4.5.4/1", MUST, changed("disposition", state__txn_id=bytes(33)), "coordinator")
def short_id(server: Server) -> None:
    """The id of a transaction has at most 32 bytes."""
    txn_id = server.controller().declare()
    check(len(txn_id) <= 32, "at most 32 bytes", f"{len(txn_id)} bytes")


@server("4.2/2", SHOULD, dropped("disposition"), "coordinator")
def other_sections(server: Server) -> None:
    """Other sections beside that of a declare are ignored."""
    work = server.controller()
    head = section(0x70, Value("list", (Value("boolean", True),))) + section(0x72, Value("map", ()))
    work.peer.transfer(0, head + section(VALUE, composite("declare")), handle=CONTROL)
    work.peer.outcome(0, "declared")


@rows(server, SHOULD, dropped("detach"), "coordinator", table={
    "4.2/3": ("A declare that is sent settled is refused.", "declare"),
    "4.3/2": ("A discharge that is sent settled is refused.", "discharge"),
})  # fmt: skip
def sent_settled(server: Server, name: str) -> None:
    work = server.controller()
    fields = {"txn_id": work.declare()} if name == "discharge" else {}
    request = section(VALUE, composite(name, **fields))
    work.peer.transfer(work.peer.next_delivery, request, handle=CONTROL, settled=True)
    work.peer.refused("detach")


@rows(server, MUST, dropped("disposition"), "coordinator", table={
    "4.3/6": ("A discharge that cannot be is rejected, if the source takes that, with an error.",
              ("amqp:rejected:list",), ("amqp:accepted:list", "amqp:rejected:list")),
})  # fmt: skip
def rejected(server: Server, *outcomes: tuple[str, ...]) -> None:
    for each in outcomes:
        work = server.controller(outcomes=symbols(*each))
        found = work.ask(composite("discharge", txn_id=UNKNOWN, fail=False)).fields["state"]
        check(found.name == "rejected" and "error" in found.fields, "rejected with an error", found)


@server("4.3/7", MUST, dropped("detach"), "coordinator")
def takes_no_rejection(server: Server) -> None:
    """A discharge that cannot be ends a control link whose source does not take rejected."""
    work = server.controller(outcomes=symbols("amqp:accepted:list"))
    request = section(VALUE, composite("discharge", txn_id=UNKNOWN, fail=False))
    work.peer.transfer(0, request, handle=CONTROL)
    work.peer.refused("detach")


@server("4.3/1", MUST, changed("disposition", nth=2, state=composite("rejected")), "coordinator")
def discharged(server: Server) -> None:
    """A discharge is answered by accepted; one that fails the transaction, too."""
    for fail in (False, True):
        work = server.controller()
        found = work.ask(composite("discharge", txn_id=work.declare(), fail=fail))
        check(found.fields["state"].name == "accepted", "accepted", found)


@rows(server, MUST, changed("disposition", nth=3, state=ACCEPTED), "coordinator", table={
    "4.3/3": ("A transaction that is discharged cannot be discharged again.",),
    "4.3/8": ("The error for one that is not there is unknown-id.", ERRORS[0], SHOULD),
})  # fmt: skip
def discharged_again(server: Server, *conditions: str) -> None:
    work = server.controller()
    txn_id = work.declare()
    work.discharge(txn_id)
    request = section(VALUE, composite("discharge", txn_id=txn_id, fail=False))
    work.peer.transfer(work.peer.next_delivery, request, handle=CONTROL)
    fails(work.peer, *conditions)


@server("4.5.2/1", SHOULD, changed("disposition", state=composite("declared", txn_id=b"1")),
        "coordinator")  # fmt: skip
def global_id(server: Server) -> None:
    """A global-id is refused where distributed transactions are not offered."""
    work = server.controller()
    able = work.peer.theirs["attach"]["target"].fields.get("capabilities") or ()
    if "amqp:distributed-transactions" in able:
        raise Unobservable("it offers distributed transactions")
    request = composite("declare", global_id=Value("binary", b"x"))
    work.peer.transfer(0, section(VALUE, request), handle=CONTROL)
    fails(work.peer)


@rows(server, MUST, changed("transfer", payload=OTHER), "coordinator", "queue", table={
    "4.3/4": ("A control link that ends rolls its transactions back.", "detach"),
    "4.3/5": ("A connection that ends rolls its transactions back.", "close", "cut"),
})  # fmt: skip
def rolled_back(server: Server, *ways: str) -> None:
    for way in ways:
        work, txn_id, (first, second) = taking(server, A, B)
        credited(work.peer, work.peer.attach_sender(server.queue()))
        post(work, within(txn_id), C)
        settle(work.peer, first, within(txn_id, ACCEPTED))
        settle(work.peer, second, within(txn_id, ACCEPTED), settled=False)
        if way == "detach":
            work.peer.send("detach", handle=CONTROL, closed=True)
            next_of(work.peer, "detach")
            work.peer.send("detach", handle=1, closed=True)
            next_of(work.peer, "detach")
        if way == "close":
            work.peer.send("close")
        cut(work.peer)
        comes(server, b"A", b"B")


# -- work


TAKEN = changed("disposition", nth=3, state=ACCEPTED)
OTHERWISE = changed("detach", error__condition="amqp:internal-error")


def worked(server: Server, what: str, known: bool) -> FrameClient:
    """Post or retire in a transaction that is not there (any more), beside a message A."""
    work, txn_id, (number,) = taking(server, A)
    credited(work.peer, work.peer.attach_sender(server.queue()))
    if known:
        work.discharge(txn_id, fail=True)
    state = txn_id if known else UNKNOWN
    if what == "post":
        post(work, within(state), B)
    else:
        settle(work.peer, number, within(state, ACCEPTED), settled=False)
    return work.peer


@rows(server, MUST, changed("transfer", payload=OTHER), "coordinator", "queue", table={
    "4.4/1": ("A message that is posted in a transaction that is not there does not come.", "post"),
    "4.4/2": ("A message that is retired in a transaction that is not there comes again.",
              "retire"),
})  # fmt: skip
def in_vain(server: Server, what: str) -> None:
    for known in (False, True):
        peer = worked(server, what, known)
        peer.nothing()
        cut(peer)
        comes(server, b"A")


@rows(server, SHOULD, TAKEN, "coordinator", "queue", table={
    "4.4/3": ("Posting in a transaction that is not there is refused.", "post"),
    "4.4/4": ("Retiring in a transaction that is not there is refused.", "retire",
              dropped("detach")),
    "4.4/6": ("The error for posting in an unknown transaction is unknown-id.", "post", ERRORS[0],
              OTHERWISE),
    "4.4/7": ("The error for retiring in an unknown transaction is unknown-id.", "retire",
              ERRORS[0], OTHERWISE),
})  # fmt: skip
def unknown(server: Server, what: str, *conditions: str) -> None:
    for known in (False, True):
        server.left()
        peer = worked(server, what, known)
        fails(peer, *conditions)
        cut(peer)


@server("4.4/5", SHOULD, changed("disposition", nth=2, state=ACCEPTED), "coordinator", "queue")
def of_another_connection(server: Server) -> None:
    """A transaction of another connection is refused."""
    txn_id, peer = server.controller().declare(), server.sender()
    peer.transfer(0, A, state=within(txn_id))
    fails(peer)


@rows(server, MUST, intruder(3), "coordinator", "queue", table={
    "4.4.1/1": ("A message that is posted is there after the discharge, and not before it.", False),
    "4.4.1/2": ("A message that is posted in a transaction that is rolled back never comes.", True),
})  # fmt: skip
def posted(server: Server, fail: bool) -> None:
    work, txn_id = posting(server)
    post(work, within(txn_id), A, B, C)
    outside = work.peer.next_delivery
    work.peer.transfer(outside, OTHER)
    work.peer.outcome(outside, "accepted")
    early = [*map(body, server.left())]
    check(early == [b"another"], "before the discharge only what was sent outside", early)
    work.discharge(txn_id, fail=fail)
    comes(server, *[] if fail else (b"A", b"B", b"C"))


@server("4.4.1/3", MUST, changed("disposition", nth=2, state__txn_id=b"other"),
        "coordinator", "queue")  # fmt: skip
def names_the_transaction(server: Server) -> None:
    """The outcome of a posted message names the transaction, before the discharge is accepted."""
    work, txn_id = posting(server)
    post(work, within(txn_id), A)
    asked = section(VALUE, composite("discharge", txn_id=txn_id, fail=False))
    work.peer.transfer(work.peer.next_delivery, asked, handle=CONTROL)
    state = work.peer.outcome(1, "accepted", "rejected", "released", "modified").fields["state"]
    told = state.fields.get("txn_id")
    check(told == txn_id, f"transactional-state with {txn_id!r}", state)


@server("4.4.1/4", MUST, changed("detach", error__condition="amqp:internal-error"),
        "coordinator", "queue")  # fmt: skip
def discharged_in_part(server: Server) -> None:
    """A discharge with a delivery that is posted in part ends the control link, rollback."""
    work, txn_id = posting(server)
    post(work, within(txn_id), A[:4], more=True)
    request = section(VALUE, composite("discharge", txn_id=txn_id, fail=False))
    work.peer.transfer(work.peer.next_delivery, request, handle=CONTROL)
    work.peer.refused("detach", ERRORS[1])


@rows(server, MUST, intruder(4), "coordinator", "queue", table={
    "4.4.2/1": ("Accepted in a transaction, settled or not, holds by its discharge.",
                (ACCEPTED, ACCEPTED), ()),
    "4.4.2/3": ("Released and modified in a transaction, settled or not, hold by its discharge.",
                (composite("released"), MODIFIED), (b"A", b"B")),
    "4.4.2/4": ("Rejected in a transaction, settled or not, holds by its discharge.",
                (composite("rejected"),), ()),
})  # fmt: skip
def retired(server: Server, states: tuple[Value, ...], again: tuple[bytes, ...]) -> None:
    for settled in (False, True):
        work, txn_id, numbers = taking(server, *(A, B, C)[: len(states)])
        for number, state in zip(numbers, states, strict=True):
            settle(work.peer, number, within(txn_id, state), settled)
        work.peer.nothing()
        early = [*map(body, server.left())]
        check(early == [], "no message before the discharge", early)
        work.discharge(txn_id)
        cut(work.peer)
        comes(server, *again)


@server("4.4.2/2", MUST, intruder(4), "coordinator", "queue")
def retired_in_vain(server: Server) -> None:
    """After a roll-back unsettled deliveries are still the receiver's, for any outcome."""
    work, txn_id, (first, second) = taking(server, A, B)
    for number in (first, second):
        settle(work.peer, number, within(txn_id, ACCEPTED), settled=False)
    work.discharge(txn_id, fail=True)
    early = [*map(body, server.left())]
    check(early == [], "messages that the receiver still has", early)
    settle(work.peer, first)
    settle(work.peer, second, composite("released"))
    # A message that is released may come to the same link first.
    cut(work.peer)
    comes(server, b"B")


@server("4.4.3/1", MUST, dropped("detach"), "coordinator", "queue")
def acquired(server: Server) -> None:
    """Acquisition in a transaction works, or it ends the link, not-implemented."""
    address = server.filled(BODY)
    work = server.controller()
    txn_id, peer = work.declare(), work.peer
    peer.attach_receiver(address, handle=1)
    asked = Value("map", ((Value("symbol", "txn-id"), Value("binary", txn_id)),))
    peer.give_credit(1, handle=1, next_outgoing_id=peer.next_delivery, properties=asked)
    found = next_of(peer, "transfer", *ENDS)
    if found.name == "transfer":
        told = found.fields["state"].fields.get("txn_id")
        check(told == txn_id, f"a transfer of {txn_id!r}", found)
    else:
        check(found.condition == "amqp:not-implemented", "amqp:not-implemented", found)


@server("4.4.4/1", MUST, dropped("transfer"), "coordinator", "queue")
def posted_settled(server: Server) -> None:
    """A message that is posted settled is there after the discharge."""
    work, txn_id = posting(server)
    post(work, within(txn_id), A, B, settled=True)
    work.discharge(txn_id)
    comes(server, b"A", b"B")
