"""Operations with selectors that clients can repeat."""

from __future__ import annotations

from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import composite, encode_frame
from support.bulk import BODY, WINDOW, Producer, dispositions, fill, flow, shuffled
from support.complexity import Bench, Operation
from support.fast_frames import DIGITS, NUMBER, copies

# The application-properties section of a message that no selector here asks for (part 3.2.5).
RED = encode(
    Value(
        "described",
        (Value("ulong", 0x74), Value("map", ((Value("string", "color"), Value("string", "red")),))),
    )
)


def selective(address: str, selector: str) -> Value:
    """Return a source with a selector."""
    filters = Value(
        "described",
        (Value("symbol", "apache.org:selector-filter:string"), Value("string", selector)),
    )
    return composite(
        "source", address=address, filter=Value("map", ((Value("symbol", "selector"), filters),))
    )


def beside_a_selector(bench: Bench, count: int) -> None:
    """Take the messages of a queue, none of which is what another consumer asks for."""
    address = bench.fresh("selector")
    other = bench.client()
    other.attach_receiver("", source=selective(address, "color = 'blue'"))
    other.pump(flow(count))
    fill(bench, address, count, RED + BODY)
    client = bench.client()
    client.attach_receiver(address)
    client.pump(flow(count), lambda: client.seen["transfer"] >= count)
    client.pump(dispositions(range(count), "accepted"))
    client.echo()
    assert other.seen["transfer"] == 0


def selectors_beside_a_queue(bench: Bench, count: int) -> None:
    """Attach consumers whose selectors match nothing in a queue, and detach them."""
    address = bench.fresh("searched")
    fill(bench, address, count, RED + BODY)
    client = bench.client()
    for _ in range(4):
        client.attach_receiver("", source=selective(address, "color = 'blue'"))
        client.pump(flow(10))
        bench.wait_until_quiet()
        client.pump(encode_frame("detach", handle=0, closed=True))
        client.echo()


def many_selectors(bench: Bench, count: int) -> None:
    """Attach consumers with a selector each, send messages that match none, and detach."""
    address = bench.fresh("selectors")
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=True, target=composite("target"),
        source=selective(address, f"color = '{DIGITS}'"),
    )  # fmt: skip
    credit = encode_frame(
        "flow", next_incoming_id=0, incoming_window=WINDOW, next_outgoing_id=0,
        outgoing_window=WINDOW, handle=NUMBER, delivery_count=0, link_credit=5,
    )  # fmt: skip
    client.pump(copies(attach, range(count)), lambda: client.seen["attach"] >= count)
    client.pump(copies(credit, range(count)))
    producer = Producer(bench, address)
    producer.send(20, RED + BODY)
    producer.client.echo()
    detach = encode_frame("detach", handle=NUMBER, closed=True)
    client.pump(copies(detach, range(count)), lambda: client.seen["detach"] >= count)


def released_beside_a_selector(bench: Bench, count: int) -> None:
    """Release the messages of a consumer with a selector in random order."""
    address = bench.fresh("passed")
    fill(bench, address, count, RED + BODY)
    holder = bench.client()
    holder.attach_receiver("", source=selective(address, "color = 'red'"))
    holder.pump(flow(count), lambda: holder.seen["transfer"] >= count)
    other = bench.client()
    other.attach_receiver("", source=selective(address, "color <> 'blue'"))
    other.pump(flow(count))
    other.echo()
    holder.pump(dispositions(shuffled(count), "released"))
    other.pump(b"", lambda: other.seen["transfer"] >= count)


def properties(*pairs: tuple[str, str]) -> bytes:
    """Return an application-properties section (part 3.2.5)."""
    items = tuple((Value("string", name), Value("string", text)) for name, text in pairs)
    return encode(Value("described", (Value("ulong", 0x74), Value("map", items))))


def subscribe(bench: Bench, address: str, count: int, selector: str) -> None:
    """Attach consumers to a topic, with credit, in one session."""
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=True, target=composite("target"),
        source=selective(address, selector),
    )  # fmt: skip
    for number in range(0, count, 50):
        handles = range(number, min(number + 50, count))
        client.pump(copies(attach, handles), lambda: client.seen["attach"] > handles[-1])  # noqa: B023


def patterns_of_a_topic(bench: Bench, count: int) -> None:
    """Send messages of 60 KB to a topic whose subscriptions have patterns of 4,000 characters."""
    address = bench.fresh("topic-patterns")
    subscribe(bench, address, 60, "text LIKE '" + "%a_" * 1300 + "%b'")
    producer = Producer(bench, address)
    producer.send(count, properties(("text", "a" * 60_000)) + BODY)
    producer.client.echo()


def many_properties(bench: Bench, count: int) -> None:
    """Send messages with 5,000 properties to a topic whose selectors have 200 names."""
    address = bench.fresh("topic-properties")
    asked = " AND ".join(f"p{number} IS NULL" for number in range(200))
    subscribe(bench, address, 100, asked)
    producer = Producer(bench, address)
    producer.send(count, properties(*((f"q{number}", "") for number in range(5000))) + BODY)
    producer.client.echo()


def released_at_once(bench: Bench, count: int) -> None:
    """Release messages with one disposition before 100 consumers with selectors."""
    address = bench.fresh("released")
    fill(bench, address, count, RED + BODY)
    client = bench.client()
    attach = encode_frame(
        "attach", name=DIGITS, handle=NUMBER, role=True, target=composite("target"),
        source=selective(address, "color = 'blue' OR size > 7 OR label LIKE '%blue%'"),
    )  # fmt: skip
    client.pump(copies(attach, range(100)), lambda: client.seen["attach"] >= 100)
    credit = encode_frame(
        "flow", next_incoming_id=0, incoming_window=WINDOW, next_outgoing_id=0,
        outgoing_window=WINDOW, handle=NUMBER, delivery_count=0, link_credit=5,
    )  # fmt: skip
    client.pump(copies(credit, range(100)))
    bench.wait_until_quiet()
    holder = bench.client()
    holder.attach_receiver(address)
    holder.pump(flow(count), lambda: holder.seen["transfer"] >= count)
    release = {"role": True, "first": 0, "last": count - 1, "state": composite("released")}
    holder.pump(encode_frame("flow", next_incoming_id=count, incoming_window=WINDOW,
        next_outgoing_id=0, outgoing_window=WINDOW, handle=0, delivery_count=count,
        link_credit=0))  # fmt: skip
    holder.pump(encode_frame("disposition", settled=True, **release))
    holder.echo()


SELECTOR_OPERATIONS: list[Operation] = [
    Operation("messages beside a selector", beside_a_selector, 2000),
    Operation("selectors beside a queue", selectors_beside_a_queue, 5000, leaves=True),
    Operation("selectors of a queue", many_selectors, 120, scale=1),
    Operation("released beside a selector", released_beside_a_selector, 1500, leaves=True),
    Operation("patterns of a topic", patterns_of_a_topic, 4, scale=4, waits=True),
    Operation("many properties and selectors", many_properties, 4, scale=4, waits=True),
    Operation("released before selectors", released_at_once, 500, waits=True, leaves=True),
]
