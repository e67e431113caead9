"""Operations of the queue protocol and of stored queues that a client can repeat."""

from __future__ import annotations

from quiver_fast.conform.wire.codec import symbols
from quiver_fast.conform.wire.frames import composite, encode_frame
from support.bulk import BODY, Producer, dispositions, flow, header, to
from support.complexity import Bench, Operation
from support.fast_frames import DIGITS, NUMBER, copies
from support.remote import document, meta, request

STORED: dict[str, object] = {"store": True}
SERVED: dict[str, object] = {"store": True, "csp_port": True}
QUEUE, APPENDER = "//h/q#Queue", "//h/q#appender"
# The last request of each operation, and a part of its answer.
LAST = request("lastWrittenIndex: { }\n", csp=QUEUE, tid=77777777)
ANSWERED = b"tid: 77777777"


def submits(bench: Bench, count: int) -> None:
    """Submit entries and read the answers."""
    one = request('submit: "an entry"', csp=APPENDER, tid=1)
    bench.text_client().pump(one * count + LAST, ANSWERED)


def appenders(bench: Bench, count: int) -> None:
    """Create appenders and close them."""
    client = bench.text_client()
    data = b"".join(
        request("createAppender: { }\n", csp=QUEUE, tid=1)
        + request("close: { }\n", cid=number, tid=2)
        for number in range(1, count + 1)
    )
    client.pump(data + LAST, ANSWERED)


def last_indexes(bench: Bench, count: int) -> None:
    """Ask for the last index."""
    one = request("lastWrittenIndex: { }\n", csp=QUEUE, tid=3)
    bench.text_client().pump(one * count + LAST, ANSWERED)


def heartbeats(bench: Bench, count: int) -> None:
    """Send heartbeats, which are answered."""
    one = meta(tid=1) + document("heartbeat: 5\n")
    bench.text_client().pump(one * count + LAST, ANSWERED)


def stored(bench: Bench, count: int) -> None:
    """Send durable messages to one queue and accept them."""
    producer = Producer(bench, bench.fresh("stored"))
    producer.send(count, header(durable=True) + BODY)
    client = bench.client()
    client.attach_receiver(bench.fresh("stored"))
    client.pump(flow(count), lambda: client.seen["transfer"] >= count)
    client.pump(dispositions(range(count), "accepted"))
    client.echo()


def new_stored(bench: Bench, count: int) -> None:
    """Send a durable message to each of very many new queues, all before any exists."""
    producer = Producer(bench, None)
    for number in range(count):
        address = to(f"{bench.fresh('made')}-{number}")
        producer.send(1, header(durable=True) + address + BODY, settled=False)
    producer.client.pump(b"", lambda: producer.client.settled >= count)


def new_submitted(bench: Bench, count: int) -> None:
    """Submit an entry to each of very many new queues."""
    data = b"".join(
        request('submit: "an entry"', csp=f"//h/{bench.fresh('made')}-{number}#appender", tid=1)
        for number in range(count)
    )
    bench.text_client().pump(data + LAST, ANSWERED)


def durable_subscriptions(bench: Bench, count: int) -> None:
    """Subscribe to a topic very often, all before any subscription is there, and end them."""
    client = bench.client()
    source = composite(
        "source", address=bench.fresh("topic-kept"), durable=2, expiry_policy="never",
        capabilities=symbols("topic"),
    )  # fmt: skip
    attach = encode_frame(
        "attach", name=f"{bench.fresh('kept')}-{DIGITS}", handle=NUMBER, role=True, source=source,
        target=composite("target"),
    )  # fmt: skip
    client.pump(copies(attach, range(count)), lambda: client.seen["attach"] >= count)
    detach = encode_frame("detach", handle=NUMBER, closed=True)
    client.pump(copies(detach, range(count)), lambda: client.seen["detach"] >= count)


TEXT_OPERATIONS: list[Operation] = [
    # Each is synced to disk several times.
    Operation(
        "new durable queues, pipelined",
        new_stored,
        25,
        scale=3,
        keys=STORED,
        leaves=True,
    ),
    Operation(
        "new durable subscriptions, pipelined",
        durable_subscriptions,
        25,
        scale=2,
        keys=STORED,
        waits=True,
    ),
    Operation(
        "csp new queues, pipelined",
        new_submitted,
        25,
        scale=3,
        keys=SERVED,
        leaves=True,
    ),
    Operation("csp submit", submits, 40000, keys=SERVED),
    Operation("csp createAppender and close", appenders, 5000, keys=SERVED),
    Operation("csp lastWrittenIndex", last_indexes, 40000, keys=SERVED),
    Operation("csp heartbeat", heartbeats, 40000, keys=SERVED),
    Operation("durable messages taken and accepted", stored, 5000, keys=STORED),
]
