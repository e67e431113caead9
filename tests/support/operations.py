"""Operations that a client can repeat: the table of tests/complexity."""

from __future__ import annotations

import numpy as np

from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import composite, decode_frame, encode_frame
from support.bulk import (
    BODY,
    WINDOW,
    Producer,
    dispositions,
    fill,
    flow,
    header,
    holding,
    shuffled,
    to,
)
from support.complexity import Bench, Operation
from support.control_operations import CONTROL_OPERATIONS
from support.fast_frames import DIGITS, NUMBER, copies
from support.floods import Flood
from support.link_operations import LINK_OPERATIONS
from support.more_operations import MORE_OPERATIONS
from support.selector_operations import SELECTOR_OPERATIONS
from support.text_operations import TEXT_OPERATIONS

# Few enough held deliveries that 16 N of them stay in the caches: each has 2 KiB,
# and with many more the same instructions take half as long again.
FEW = 1500


# ---- F1: links and sessions of a client that does not read


def attach_detach(handle: int = 0) -> bytes:
    """Return an attach of a sender and its detach."""
    attach = encode_frame(
        "attach", name=DIGITS, handle=handle, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address="flood"),
    )  # fmt: skip
    return attach + encode_frame("detach", handle=handle, closed=True)


def unread_links(bench: Bench, count: int) -> None:
    """Attach and detach without reading an answer, then go."""
    client = bench.client()
    client.pour(copies(attach_detach(), range(count)))
    bench.wait_until_quiet()
    client.socket.close()


def unread_sessions(bench: Bench, count: int) -> None:
    """Begin and end without reading an answer, then go."""
    client = bench.client()
    begin = encode_frame(
        "begin", channel=1, next_outgoing_id=0, incoming_window=100, outgoing_window=100
    )
    client.pour((begin + encode_frame("end", channel=1)) * count)
    bench.wait_until_quiet()
    client.socket.close()


# ---- F3: release


def release_random(bench: Bench, count: int) -> None:
    """Release a consumer's messages in random order."""
    client = holding(bench, bench.fresh("release"), count)
    client.pump(dispositions(shuffled(count), "released"))
    client.echo()


# ---- F8: time to live


def fill_ttl(bench: Bench, count: int) -> None:
    """Fill a queue with messages of very different times to live."""
    producer = Producer(bench, bench.fresh("ttl"))
    ttls = np.random.default_rng(1).integers(50, 30_000, count)
    while producer.sent < count:
        at = producer.sent
        part = min(200, count - at)
        producer.send(part, header(ttl_ms=int(ttls[at])) + BODY)
    producer.client.echo()


def idle_ttl(bench: Bench, count: int) -> None:
    """Hold messages that will expire one day."""
    producer = Producer(bench, bench.fresh("idle"))
    producer.send(count, header(ttl_ms=500_000) + BODY)
    producer.client.echo()


def expire(bench: Bench, count: int) -> None:
    """Have messages expire all at once."""
    producer = Producer(bench, bench.fresh("expire"))
    producer.send(count, header(ttl_ms=50) + BODY)
    producer.client.echo()


# ---- F4: transactions


def declare(client: Flood, number: int) -> bytes:
    """Declare a transaction on handle 5 and return its id."""
    client.kept = {"disposition"}
    body = encode(Value("described", (Value("ulong", 0x77), composite("declare"))))
    client.frames.clear()
    frame = encode_frame(
        "transfer", handle=5, delivery_id=number, delivery_tag=b"%d" % number, message_format=0,
        payload=body,
    )  # fmt: skip
    client.pump(frame, lambda: bool(client.frames))
    told = decode_frame(client.frames[-1]).fields["state"]
    client.kept = set()
    client.frames.clear()
    return bytes(told.fields["txn_id"])


def discharge(client: Flood, number: int, transaction: bytes, fail: bool = False) -> None:
    """Discharge a transaction and wait for the answer."""
    value = composite("discharge", txn_id=Value("binary", transaction), fail=fail)
    body = encode(Value("described", (Value("ulong", 0x77), value)))
    before = client.settled
    frame = encode_frame(
        "transfer", handle=5, delivery_id=number, delivery_tag=b"%d" % number, message_format=0,
        payload=body,
    )  # fmt: skip
    client.pump(frame, lambda: client.settled > before)


def coordinator(client: Flood) -> None:
    """Attach the link of `declare` and `discharge`."""
    client.attach_sender("", handle=5, target=composite("coordinator"))


def in_transaction(transaction: bytes) -> Value:
    """Return the state of work in a transaction: accepted."""
    return composite(
        "transactional_state", txn_id=Value("binary", transaction), outcome=composite("accepted")
    )


def accept_in_transaction(bench: Bench, count: int) -> None:
    """Accept in one transaction, settle one by one, and commit."""
    client = holding(bench, bench.fresh("transactional"), count)
    coordinator(client)
    transaction = declare(client, 0)
    state = in_transaction(transaction)
    outcome = encode_frame("disposition", role=True, first=NUMBER, settled=False, state=state)
    settle = encode_frame("disposition", role=True, first=NUMBER, settled=True, state=state)
    client.pump(copies(outcome, range(count)) + copies(settle, range(count)))
    discharge(client, 1, transaction)


def roll_back(bench: Bench, count: int) -> None:
    """Accept and settle in one transaction, and roll it back."""
    client = holding(bench, bench.fresh("rollback"), count)
    coordinator(client)
    transaction = declare(client, 0)
    state = in_transaction(transaction)
    settle = encode_frame("disposition", role=True, first=NUMBER, settled=True, state=state)
    client.pump(copies(settle, range(count)))
    discharge(client, 1, transaction, fail=True)


def open_transactions(bench: Bench, count: int) -> None:
    """Declare very many and leave them."""
    client = bench.client()
    coordinator(client)
    body = encode(Value("described", (Value("ulong", 0x77), composite("declare"))))
    template = encode_frame(
        "transfer", handle=5, delivery_id=NUMBER, delivery_tag=DIGITS.encode(), message_format=0,
        payload=body,
    )  # fmt: skip
    for start in range(0, count, 40):
        numbers = range(start, min(start + 40, count))
        client.pump(copies(template, numbers), lambda end=numbers[-1]: client.settled > end)
    client.echo()


# ---- F9: outcomes


def undeliverable(bench: Bench, count: int) -> None:
    """Call all messages undeliverable, and then get as many others one by one."""
    name = bench.fresh("undeliverable")
    client = holding(bench, name, count)
    client.pump(dispositions(range(count), "modified", undeliverable_here=True))
    client.pump(flow(2 * count, count=count, incoming=count))
    producer = Producer(bench, name)
    done = client.seen["transfer"]
    for number in range(0, count, 50):
        producer.send(min(50, count - number), BODY)
        done += min(50, count - number)
        client.pump(b"", lambda want=done: client.seen["transfer"] >= want)


def outcomes(state: str, *, together: bool = False, **fields: object) -> Operation:
    """Return the operation of giving an outcome, one by one or for all at once."""

    def run(bench: Bench, count: int) -> None:
        client = holding(bench, bench.fresh(state), count)
        if together:
            told = composite(state, **fields)
            client.pump(
                encode_frame(
                    "disposition", role=True, first=0, last=count - 1, settled=True, state=told
                )
            )
        else:
            client.pump(dispositions(range(count), state, **fields))
        client.echo()

    name = " ".join([state, *fields, "all at once" if together else "one by one"])
    return Operation(name.replace("_", " "), run, FEW, leaves=state in ("released", "modified"))


def release_descending(bench: Bench, count: int) -> None:
    """Release a consumer's messages, the latest first."""
    client = holding(bench, bench.fresh("descending"), count)
    client.pump(dispositions(range(count - 1, -1, -1), "released"))
    client.echo()


def release_by_going(bench: Bench, count: int) -> None:
    """End a consumer that holds messages."""
    client = holding(bench, bench.fresh("going"), count)
    client.pump(encode_frame("detach", handle=0, closed=True), lambda: client.seen["detach"] > 0)


def release_and_get(bench: Bench, count: int) -> None:
    """Release in random order while the consumer gets them again."""
    client = holding(bench, bench.fresh("again"), count)
    credit = flow(count, count=count, incoming=count)
    client.pump(
        credit + dispositions(shuffled(count), "released"),
        lambda: client.seen["transfer"] >= 2 * count,
    )


# ---- F10: addresses


def relayed_addresses(bench: Bench, count: int) -> None:
    """Send to ever new addresses through the anonymous terminus."""
    producer = Producer(bench, None)
    producer.send(count, to(f"{bench.fresh('relay')}-{DIGITS}") + BODY)
    producer.client.echo()


def attached_addresses(bench: Bench, count: int) -> None:
    """Attach to ever new addresses and detach."""
    address = f"{bench.fresh('at')}-{DIGITS}"
    attach = encode_frame(
        "attach", name=DIGITS, handle=0, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address=address),
    )  # fmt: skip
    client = bench.client()
    detach = encode_frame("detach", handle=0, closed=True)
    client.pump(copies(attach + detach, range(count)), lambda: client.seen["detach"] >= count)


def dynamic_nodes(bench: Bench, count: int) -> None:
    """Attach to ever new dynamic nodes and detach."""
    attach = encode_frame(
        "attach", name=DIGITS, handle=0, role=True, source=composite("source", dynamic=True),
        target=composite("target"),
    )  # fmt: skip
    client = bench.client()
    detach = encode_frame("detach", handle=0, closed=True)
    client.pump(copies(attach + detach, range(count)), lambda: client.seen["detach"] >= count)


# ---- performatives


def links(bench: Bench, count: int) -> None:
    """Attach and detach while answers are read."""
    client = bench.client()
    client.pump(copies(attach_detach(), range(count)), lambda: client.seen["detach"] >= count)


def many_links(bench: Bench, count: int) -> None:
    """Attach very many, and end their session."""
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address="many"),
    )  # fmt: skip
    client.pump(copies(attach, range(count)), lambda: client.seen["attach"] >= count)
    client.pump(encode_frame("end"), lambda: client.seen["end"] > 0)


def many_consumers(bench: Bench, count: int) -> None:
    """Attach very many consumers of one queue and detach them."""
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=True,
        source=composite("source", address="consumed"), target=composite("target"),
    )  # fmt: skip
    client.pump(copies(attach, range(count)), lambda: client.seen["attach"] >= count)
    detach = encode_frame("detach", handle=NUMBER, closed=True)
    client.pump(copies(detach, range(count)), lambda: client.seen["detach"] >= count)


def sessions(bench: Bench, count: int) -> None:
    """Begin and end while answers are read."""
    client = bench.client()
    begin = encode_frame(
        "begin", channel=1, next_outgoing_id=0, incoming_window=100, outgoing_window=100
    )
    client.pump(
        (begin + encode_frame("end", channel=1)) * count, lambda: client.seen["end"] >= count
    )


def sessions_with_links(bench: Bench, count: int) -> None:
    """Hold very many links and begin and end sessions beside them."""
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address="beside"),
    )  # fmt: skip
    client.pump(copies(attach, range(count)), lambda: client.seen["attach"] >= count)
    begin = encode_frame(
        "begin", channel=1, next_outgoing_id=0, incoming_window=100, outgoing_window=100
    )
    client.pump((begin + encode_frame("end", channel=1)) * 200, lambda: client.seen["end"] >= 200)


def flows(bench: Bench, count: int) -> None:
    """Give credit again and again."""
    client = bench.client()
    client.attach_receiver("flows")
    client.pump(b"".join(flow(each + 1) for each in range(100)) * (count // 100))
    client.echo()


def drains(bench: Bench, count: int) -> None:
    """Drain an empty queue again and again."""
    client = bench.client()
    client.attach_receiver("drains")
    drain = encode_frame(
        "flow", next_incoming_id=0, incoming_window=WINDOW, next_outgoing_id=0,
        outgoing_window=WINDOW, handle=0, delivery_count=0, link_credit=5, drain=True,
    )  # fmt: skip
    client.pump(drain * count)
    client.echo()


def sent_settled(bench: Bench, count: int) -> None:
    """Send settled messages to a queue."""
    fill(bench, bench.fresh("settled"), count)


def sent_unsettled(bench: Bench, count: int) -> None:
    """Send messages and wait for their outcomes."""
    producer = Producer(bench, bench.fresh("unsettled"))
    producer.send(count, BODY, settled=False)
    producer.client.pump(b"", lambda: producer.client.settled >= count)


def through(bench: Bench, count: int) -> None:
    """Send messages through a queue to a consumer that accepts them."""
    client = holding(bench, bench.fresh("through"), count)
    client.pump(dispositions(range(count), "accepted"))
    client.echo()


def aborted(bench: Bench, count: int) -> None:
    """Begin messages and abort them."""
    producer = Producer(bench, "aborted")
    template = encode_frame(
        "transfer", handle=0, delivery_id=NUMBER, delivery_tag=DIGITS.encode(), message_format=0,
        more=True, payload=BODY,
    )  # fmt: skip
    abort = encode_frame("transfer", handle=0, delivery_id=NUMBER, more=False, aborted=True)
    for start in range(0, count, 20):
        client = producer.client
        client.pump(copies(template + abort, range(start, min(start + 20, count))))
        client.echo()


def not_messages(bench: Bench, count: int) -> None:
    """Send bytes that are no message, which are rejected."""
    producer = Producer(bench, "garbage")
    producer.send(count, b"\x00\x53\x70\xd0 this is none", settled=False)
    producer.client.pump(b"", lambda: producer.client.settled >= count)


def browse(bench: Bench, count: int) -> None:
    """Browse a queue from its beginning to its end."""
    fill(bench, bench.fresh("browsed"), count)
    client = bench.client()
    source = composite("source", address=bench.fresh("browsed"), distribution_mode="copy")
    client.attach_receiver("", source=source, snd_settle_mode=1)
    client.pump(flow(count), lambda: client.seen["transfer"] >= count)


def unread_messages(bench: Bench, count: int) -> None:
    """Give credit for messages and never read them."""
    fill(bench, bench.fresh("unread"), count)
    client = bench.client()
    client.attach_receiver(bench.fresh("unread"))
    client.pour(flow(count))
    bench.wait_until_quiet()


def subscriptions(bench: Bench, count: int) -> None:
    """Subscribe to a topic very often, and publish once to all."""
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=True,
        source=composite("source", address="topic-x"), target=composite("target"),
    )  # fmt: skip
    client.pump(copies(attach, range(count)), lambda: client.seen["attach"] >= count)
    fill(bench, "topic-x", 1)
    detach = encode_frame("detach", handle=NUMBER, closed=True)
    client.pump(copies(detach, range(count)), lambda: client.seen["detach"] >= count)


def unread_topic(bench: Bench, count: int) -> None:
    """Publish to a subscriber that has no credit, and go."""
    client = bench.client()
    client.attach_receiver("topic-unread")
    fill(bench, "topic-unread", count)
    client.pump(encode_frame("detach", handle=0, closed=True), lambda: client.seen["detach"] > 0)
    bench.wait_until_quiet()


def connections(bench: Bench, count: int) -> None:
    """Connect, open and go, again and again."""
    for _ in range(count):
        bench.client()
        bench.close()


OPERATIONS: list[Operation] = [
    Operation("attach and detach, unread", unread_links, 4000, waits=True),
    Operation("begin and end, unread", unread_sessions, 4000, waits=True),
    Operation("attach and detach", links, 2000),
    # The engine compares an attach's name with those of its session's links, of which there
    # are no more than max-links.
    Operation("many links of a session that ends", many_links, 100, scale=1),
    Operation("many consumers of a queue", many_consumers, 100, scale=1),
    Operation("begin and end", sessions, 2000),
    Operation("begin and end beside many links", sessions_with_links, 150, scale=1),
    Operation("flow", flows, 10000),
    Operation("flow with drain", drains, 10000),
    Operation("connections that come and go", connections, 100),
    Operation("messages sent settled", sent_settled, 10000, leaves=True),
    Operation("messages sent unsettled", sent_unsettled, 10000, leaves=True),
    Operation("messages taken and accepted", through, FEW),
    Operation("aborted messages", aborted, 1000),
    Operation("what is no message", not_messages, 5000),
    Operation("messages not read", unread_messages, 5000, leaves=True),
    Operation("browsing", browse, 5000, leaves=True),
    Operation("released in random order", release_random, FEW, leaves=True),
    Operation("released, the latest first", release_descending, FEW, leaves=True),
    Operation("released and taken again", release_and_get, FEW, leaves=True),
    Operation("released by going", release_by_going, FEW, leaves=True),
    outcomes("accepted", together=True),
    outcomes("rejected"),
    outcomes("released", together=True),
    outcomes("modified", delivery_failed=True),
    outcomes("modified", undeliverable_here=True),
    Operation("messages beside undeliverable ones", undeliverable, FEW, leaves=True),
    Operation("accepted in a transaction", accept_in_transaction, FEW),
    Operation("rolled back", roll_back, FEW, leaves=True),
    Operation("open transactions", open_transactions, 1500, keys={"max_transactions": 1_000_000}),
    Operation("messages with many times to live", fill_ttl, 10000, leaves=True),
    Operation("messages that will expire", idle_ttl, 10000, leaves=True),
    Operation("messages that expire", expire, 10000, waits=True),
    Operation("addresses by the anonymous terminus", relayed_addresses, 2000, leaves=True),
    Operation("addresses by attaching", attached_addresses, 2000),
    Operation("dynamic nodes", dynamic_nodes, 1000),
    Operation("subscriptions of a topic", subscriptions, 37, scale=4),
    Operation("messages that a subscriber leaves", unread_topic, 5000),
    *TEXT_OPERATIONS,
    *MORE_OPERATIONS,
    *CONTROL_OPERATIONS,
    *LINK_OPERATIONS,
    *SELECTOR_OPERATIONS,
]
