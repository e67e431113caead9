"""Operations that clients can repeat: trunks, streams, stored queues, very many connections."""

from __future__ import annotations

from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import composite, encode_frame
from support.bulk import BODY, Producer, dispositions, fill, flow, header, transfers
from support.complexity import Bench, Operation
from support.fast_frames import DIGITS, NUMBER, copies
from support.floods import Flood
from support.remote import request
from support.text_operations import ANSWERED, APPENDER, LAST, QUEUE, SERVED

# Links of one connection, below max-links; with more links there are more connections.
LINKS = 100
# Transfers that a session takes before it says how many more.
IN_WINDOW = 50
TRUNK = {"offered_capabilities": Value("symbol", "quiver.trunk")}
GROUP: dict[str, object] = {"store": True, "durability": "group"}


def attach_many(client: Flood, template: bytes, count: int) -> None:
    """Attach links and wait for the answers."""
    before = client.seen["attach"]
    client.pump(copies(template, range(count)), lambda: client.seen["attach"] >= before + count)


def detach_many(client: Flood, count: int) -> None:
    """Detach links in the order in which they were attached, and wait for the answers."""
    before = client.seen["detach"]
    detach = encode_frame("detach", handle=NUMBER, closed=True)
    client.pump(copies(detach, range(count)), lambda: client.seen["detach"] >= before + count)


def stream_senders(address: str) -> bytes:
    """Return the attach of a sender of streams."""
    capability = Value("symbol", "qd.streaming-deliveries")
    return encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=False, initial_delivery_count=0,
        source=composite("source"),
        target=composite("target", address=address, capabilities=capability),
    )  # fmt: skip


def receivers(address: str) -> bytes:
    """Return the attach of a consumer."""
    return encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=True,
        source=composite("source", address=address), target=composite("target"),
    )  # fmt: skip


def parts(count: int) -> list[int]:
    """Return how many links each of several connections has."""
    return [min(LINKS, count - at) for at in range(0, count, LINKS)]


def senders_of_streams(bench: Bench, count: int) -> None:
    """Attach senders of streams to one address, and detach them."""
    template = stream_senders(bench.fresh("streams"))
    clients = [(bench.client(), part) for part in parts(count)]
    for client, part in clients:
        attach_many(client, template, part)
    for client, part in clients:
        detach_many(client, part)


def consumers_beside_senders(bench: Bench, count: int) -> None:
    """Attach consumers to an address that has senders of streams, and detach them."""
    address = bench.fresh("demand")
    for part in parts(count):
        attach_many(bench.client(), stream_senders(address), part)
    client = bench.client()
    client.attach_receiver(address, handle=LINKS)
    attach_many(client, receivers(address), LINKS)
    detach_many(client, LINKS)


def send_streams(producer: Producer, count: int) -> None:
    """Send streams in two parts, settled."""
    # The window counts frames; a delivery has two here.
    producer.window = 0
    first = {"settled": True, "more": True}
    for start in range(0, count, 20):
        stop = min(start + 20, count)
        frames = b"".join(
            transfers([number], BODY, **first)
            + encode_frame("transfer", handle=0, delivery_id=number, more=False, payload=b"")
            for number in range(start, stop)
        )
        while producer.credit() < stop or producer.window < 2 * stop:
            producer.client.pump(b"", lambda: bool(producer.client.frames))
        producer.client.pump(frames)


def streams(bench: Bench, count: int) -> None:
    """Send streams in two parts to a consumer."""
    address = bench.fresh("stream")
    client = bench.client()
    client.attach_receiver(address)
    client.pump(flow(count))
    send_streams(Producer(bench, address, handle=0), count)
    client.pump(b"", lambda: client.seen["transfer"] >= count)


def streams_behind_a_backlog(bench: Bench, count: int) -> None:
    """Send streams to a queue full of messages, beside consumers that have no credit yet."""
    address = bench.fresh("backlog")
    fill(bench, address, count)
    attach_many(bench.client(), receivers(address), LINKS)
    client = bench.client()
    client.attach_receiver(address)
    send_streams(Producer(bench, address, handle=0), count)
    client.pump(flow(2 * count), lambda: client.seen["transfer"] >= 2 * count)


def draining_consumers(bench: Bench, count: int) -> None:
    """Have consumers drain while a message is on its way to none, and go."""
    address = bench.fresh("draining")
    drain = encode_frame(
        "flow", next_incoming_id=0, incoming_window=2**31 - 1, next_outgoing_id=0,
        outgoing_window=2**31 - 1, handle=NUMBER, delivery_count=0, link_credit=5, drain=True,
    )  # fmt: skip
    for part in parts(count):
        client = bench.client()
        attach_many(client, receivers(address), part)
        client.pump(copies(drain, range(part)))
        detach_many(client, part)


def trunks(bench: Bench, count: int) -> None:
    """Connect as another server, again and again, beside consumers of many addresses."""
    for part in parts(LINKS):
        client = bench.client()
        attach_many(client, receivers(f"{bench.fresh('trunk')}-{DIGITS}"), part)
    for _ in range(count):
        Flood(bench.port).start(**TRUNK).socket.close()


def trunks_of_one_address(bench: Bench, count: int) -> None:
    """Hold connections of other servers that all ask for one address, which a consumer here has."""
    address = bench.fresh("asked")
    client = bench.client()
    client.attach_receiver(address)
    for _ in range(count):
        attach_many(bench.client(**TRUNK), receivers(address), 1)
    fill(bench, address, LINKS)
    client.pump(flow(LINKS), lambda: client.seen["transfer"] >= LINKS)


def consumers_beside_connections(bench: Bench, count: int) -> None:
    """Hold connections, one of them another server's, and attach and detach consumers."""
    for _ in range(count):
        bench.client()
    bench.client(**TRUNK)
    client = bench.client()
    for _ in range(4):
        attach_many(client, receivers(bench.fresh("held")), LINKS)
        detach_many(client, LINKS)


def waiting_for_a_sync(bench: Bench, count: int) -> None:
    """Send durable messages by a link each, which goes before they are on disk.

    Very many others wait for the disk meanwhile.
    """
    durable = header(durable=True) + BODY
    producer = Producer(bench, bench.fresh("waiting"))
    producer.send(count, durable, settled=False)
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=0, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address=bench.fresh("group")),
    )  # fmt: skip
    transfer = encode_frame(
        "transfer", handle=0, delivery_id=NUMBER, delivery_tag=DIGITS.encode(), message_format=0,
        settled=False, payload=durable,
    )  # fmt: skip
    one = attach + transfer + encode_frame("detach", handle=0, closed=True)
    for start in range(0, count, IN_WINDOW):
        stop = min(start + IN_WINDOW, count)
        client.pump(copies(one, range(start, stop)), lambda end=stop: client.seen["detach"] >= end)
    producer.client.pump(b"", lambda: producer.client.settled >= count)


def synced(bench: Bench, count: int) -> None:
    """Send durable messages and wait for the outcomes, which come with a sync."""
    producer = Producer(bench, bench.fresh("synced"))
    producer.send(count, header(durable=True) + BODY, settled=False)
    producer.client.pump(b"", lambda: producer.client.settled >= count)


def modified(bench: Bench, count: int) -> None:
    """Modify one message again and again, each time with a new annotation."""
    address = bench.fresh("modified")
    fill(bench, address, 1, BODY)
    client = bench.client()
    client.attach_receiver(address)
    client.pump(flow(count + 1), lambda: client.seen["transfer"] >= 1)
    pairs = ((Value("symbol", f"key-{DIGITS}"), Value("string", "v" * 200)),)
    state = composite("modified", annotations=Value("map", pairs))
    template = encode_frame("disposition", role=True, first=NUMBER, settled=True, state=state)
    for number in range(count):
        client.pump(
            copies(template, [number]),
            lambda: client.seen["transfer"] > number + 1,  # noqa: B023
        )


def modified_with_many(bench: Bench, count: int) -> None:
    """Modify messages of many annotations by one disposition of as many others."""
    address = bench.fresh("annotated")
    section = Value("described", (Value("ulong", 0x72), annotations("before", 200)))
    fill(bench, address, count, encode(section) + BODY)
    client = bench.client()
    client.attach_receiver(address)
    client.pump(flow(count), lambda: client.seen["transfer"] >= count)
    state = composite("modified", annotations=annotations("after", 200))
    client.pump(
        encode_frame("disposition", role=True, first=0, last=count - 1, settled=True, state=state)
    )
    client.echo()


def annotations(name: str, count: int) -> Value:
    value = Value("uint", 1)
    return Value("map", tuple((Value("symbol", f"{name}-{i}"), value) for i in range(count)))


def many_subscriptions(bench: Bench, count: int) -> None:
    """Send to a topic with 1,000 subscriptions, then end them."""
    address = f"topic/{bench.fresh('wide')}"
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=True,
        source=composite("source", address=address), target=composite("target"),
    )  # fmt: skip
    client.pump(copies(attach, range(1000)), lambda: client.seen["attach"] >= 1000)
    fill(bench, address, count, BODY)
    client.socket.close()


def many_files(bench: Bench, count: int) -> None:
    """Send and accept durable messages over very many small files."""
    address = bench.fresh("files")
    producer = Producer(bench, address)
    producer.send(count, header(durable=True) + BODY)
    client = bench.client()
    client.attach_receiver(address)
    client.pump(flow(count), lambda: client.seen["transfer"] >= count)
    client.pump(dispositions(range(count), "accepted"))
    client.echo()


def held_connections(bench: Bench, count: int) -> None:
    """Hold connections that do nothing."""
    for _ in range(count):
        bench.client()


def tailers(bench: Bench, count: int) -> None:
    """Create tailers and close them."""
    data = b"".join(
        request("createTailer: { }\n", csp=QUEUE, tid=1)
        + request("close: { }\n", cid=number, tid=2)
        for number in range(1, count + 1)
    )
    bench.text_client().pump(data + LAST, ANSWERED)


def entries(bench: Bench, count: int) -> None:
    """Submit entries and read them from the first to the last."""
    client = bench.text_client()
    one = request('submit: "an entry"', csp=APPENDER, tid=1)
    client.pump(one * count + LAST, ANSWERED)
    data = request("createTailer: { }\n", csp=QUEUE, tid=1)
    data += request("hasNext: { batch: 50 }\n", cid=1, tid=2) * (count // 50)
    client.pump(data + LAST, ANSWERED)


MORE_OPERATIONS: list[Operation] = [
    Operation("senders of streams", senders_of_streams, 400, scale=4),
    Operation("consumers beside senders of streams", consumers_beside_senders, 400, scale=4),
    Operation("streams", streams, 1000),
    Operation("streams behind a backlog", streams_behind_a_backlog, 1000),
    Operation("consumers that drain and go", draining_consumers, 400, scale=4),
    Operation("trunks that come and go", trunks, 30),
    Operation("trunks that ask for one address", trunks_of_one_address, 300, scale=3),
    Operation("consumers beside connections and a trunk", consumers_beside_connections, 60),
    Operation("modified with new annotations", modified, 600, leaves=True),
    Operation("modified with many annotations", modified_with_many, 60, leaves=True),
    Operation("messages for many subscriptions", many_subscriptions, 200, scale=4, waits=True),
    Operation("links that go before the sync", waiting_for_a_sync, 1000, keys=GROUP),
    Operation("messages accepted after a sync", synced, 3000, keys=GROUP, leaves=True),
    Operation(
        "durable messages over many files", many_files, 3000,
        keys={"store": True, "roll_size": 65536},
    ),
    Operation("csp createTailer and close", tailers, 2000, keys=SERVED),
    Operation("csp hasNext", entries, 5000, keys=SERVED),
    # 10,000 of them in the long form.
    Operation("connections that are held", held_connections, 60, scale=41),
]  # fmt: skip
