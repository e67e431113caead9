"""Actions: connections, sessions and links, begun, answered and ended."""

from __future__ import annotations

from typing import Any

from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import AMQP_HEADER, composite, encode_frame, frame
from tests.fuzz.states.choices import (
    Draw,
    Peer,
    action,
    channel,
    credit_frame,
    free,
    links,
    sessions,
    windows,
)
from tests.fuzz.states.state import MASK, Session

STREAMING = "qd.streaming-deliveries"

# -- connections


def opening(peer: Peer, draw: Draw) -> bytes:
    streams = ["qd.streaming-links"]
    offered = [[], streams, streams, ["quiver.trunk"], [*streams, "quiver.trunk"],
               ["ANONYMOUS-RELAY"]]  # fmt: skip
    capabilities = ["qd.streaming-links", "quiver.trunk"] if peer.dialed else draw.pick(offered)
    # Two connections of one container take links from one another.
    container = f"fuzz-{peer.scenario}-{draw.pick([peer.number, peer.number, 0])}"
    fields: dict[str, Any] = {"container_id": container}
    if capabilities:
        fields["offered_capabilities"] = capabilities
    size = draw.pick([None, None, None, 512, 1024, 65536, 131072, 2**20])
    if size is not None:
        fields["max_frame_size"] = size
    most = draw.pick([None, None, None, 0, 1, 10])
    if most is not None:
        fields["channel_max"] = most
    if draw.one_in(20):
        fields["desired_capabilities"] = ["sole-connection-for-container"]
    return encode_frame("open", **fields)


@action(1)
def open(peer: Peer, draw: Draw) -> bytes:  # noqa: A001  # the frame's name
    if peer.known.opened and not draw.wrong():
        return b""
    return opening(peer, draw)


@action(1)
def close(_peer: Peer, draw: Draw) -> bytes:
    if not draw.one_in(10):
        return b""
    return encode_frame("close", error=composite("error", condition="fuzz:close"))


@action(1)
def empty(_peer: Peer, draw: Draw) -> bytes:
    return frame(b"", channel=draw.pick([1, 300, 65535]) if draw.wrong() else 0)


@action(1)
def garbage(_peer: Peer, draw: Draw) -> bytes:
    """A frame with damage, of SASL, or with a body that is none."""
    if not draw.wrong():
        return b""
    whole = bytearray(encode_frame("begin", next_outgoing_id=0, incoming_window=9,
                                   outgoing_window=9))  # fmt: skip
    whole[8 + draw.number() % (len(whole) - 8)] = draw.number() % 256
    others = [bytes(whole), frame(b"\x00\x53\x10\x45"), frame(b"\x40"), frame(b"\x00\x53\x99\x45"),
              frame(b"\x00\x53\x41\x45", kind=1), AMQP_HEADER, b"\0\0\0\x07",
              b"\0\0\0\x09\x02\0\0\0\0",
              encode_frame("sasl_outcome", code=0), frame(b"", kind=2)]  # fmt: skip
    return draw.pick(others)


# -- sessions


@action(3)
def begin(peer: Peer, draw: Draw) -> bytes:
    used = {s.ours for s in peer.known.sessions if not s.ours_ended}
    limits = [peer.known.their_channel_max, peer.known.channel_max]
    most = min(*limits, 5 if peer.known.their_opened else 0)
    number = free(used) if not draw.one_in(3) else free(used | {0, 1, 3})
    if number > most and not draw.wrong():
        return b""
    if draw.wrong():
        number = draw.pick([0, 1, 65535])
    fields: dict[str, Any] = {"next_outgoing_id": draw.pick([0, 0, 0, 1, MASK - 1])}
    most_handle = draw.pick([None, None, None, 0, 1, 9])
    if most_handle is not None:
        fields["handle_max"] = most_handle
    return encode_frame("begin", channel=number, **fields, **windows(draw))


@action(1)
def end(peer: Peer, draw: Draw) -> bytes:
    number = channel(peer, draw)
    if number is None:
        return b""
    error = composite("error", condition="fuzz:end", description="x" * draw.pick([0, 5, 700]))
    return encode_frame("end", channel=number, **({"error": error} if draw.one_in(4) else {}))


@action(4)
def answer_begin(peer: Peer, draw: Draw) -> bytes:
    """Answer a begin of the server's; rightly, with another channel, or once more."""
    waiting = [s for s in peer.known.sessions if s.ours is None and s.theirs is not None]
    used = {s.ours for s in peer.known.sessions if not s.ours_ended}
    number = free(used) if not draw.one_in(3) else free(used | set(range(100)))
    if draw.wrong():
        remote = draw.pick([0, 1, 2, 65535])
    elif waiting:
        remote = draw.pick(waiting).theirs or 0
    else:
        return b""
    limits = [peer.known.their_channel_max, peer.known.channel_max]
    if number > min(limits) and not draw.wrong():
        return b""
    return encode_frame("begin", channel=number, remote_channel=remote, next_outgoing_id=0,
                        **windows(draw))  # fmt: skip


@action(2)
def answer_end(peer: Peer, _draw: Draw) -> bytes:
    """End what the server ended."""
    ended = [s for s in peer.known.sessions if s.theirs_ended and not s.ours_ended
             and s.ours is not None]  # fmt: skip
    return b"".join(encode_frame("end", channel=s.ours) for s in ended)


# -- links


def name_of(peer: Peer, draw: Draw) -> str:
    """Return a name; most are new, others take another link's place."""
    if draw.one_in(3):
        return f"name-{draw.number() % 3}"
    return f"link-{peer.number}-{draw.number()}"


def attaching(peer: Peer, draw: Draw, receives: bool) -> tuple[Session, int, dict[str, Any]] | None:
    """Return the session, handle and common fields of an attach."""
    found = sessions(peer)
    if not found:
        return None
    session = draw.pick(found)
    handle = free({link.ours for link in session.links if not link.ours_ended})
    if draw.one_in(8):
        handle += 3
    if draw.wrong():
        handle = draw.pick([0, 1, MASK])
    elif handle > session.their_handle_max or len(session.links) > session.handle_max:
        return None
    fields: dict[str, Any] = {"name": name_of(peer, draw), "handle": handle, "role": receives}
    settle = draw.pick([None, None, None, 0, 1, 2])
    if settle is not None:
        fields["snd_settle_mode"] = settle
    if draw.one_in(4):
        fields["rcv_settle_mode"] = draw.pick([0, 1])
    if draw.one_in(8):
        fields["max_message_size"] = draw.pick([1, 100, 20_000])
    return session, handle, fields


SELECTORS = ["color = 'blue'", "color LIKE 'b%' OR n > 3", "n IN (1, 2)", "not ( this", "n = n / 0"]

PROPERTY_FILTERS = [
    Value("map", ((Value("string", key), value),))
    for key, value in (
        ("color", Value("string", "&p:b")), ("n", Value("ulong", 3)), ("n", Value("list", ())),
        ("color", Value("null", None)), ("color", Value("string", "&x")),
    )
]  # fmt: skip


def source_of(peer: Peer, draw: Draw) -> Value:
    """Return a source of any kind."""
    address = draw.pick(peer.addresses)
    fields: dict[str, Any] = {"address": address}
    wanted = [["topic"]] if address.startswith("topic") else []
    kind = draw.pick(["plain"] * 6 + ["copy", "kept", "shared", "both", "selector", "dynamic"])
    if kind == "copy":
        fields["distribution_mode"] = "copy"
    if kind in ("kept", "both"):
        fields |= {"durable": draw.pick([0, 2]), "expiry_policy": "never"}
    # Where there is a queue already, this is one more consumer.
    if kind in ("shared", "both") and wanted:
        wanted = [["topic", "shared"], ["topic", "shared", "global"]]
    if kind == "selector":
        name, value = draw.pick(
            [("apache.org:selector-filter:string", Value("string", draw.pick(SELECTORS)))] * 2
            + [("amqp:application-properties-filter", draw.pick(PROPERTY_FILTERS))]
        )
        described = Value("described", (Value("symbol", name), value))
        fields["filter"] = Value("map", ((Value("symbol", "s"), described),))
    if kind == "dynamic":
        fields = {"dynamic": True, "address": None}
    if wanted:
        fields["capabilities"] = draw.pick(wanted)
    if draw.one_in(6):
        error = composite("error", condition="fuzz:no", description="d" * draw.pick([1, 600]))
        fields["default_outcome"] = draw.pick(
            [composite("released"), composite("rejected", error=error), composite("modified")]
        )
    if draw.one_in(8):
        fields["outcomes"] = ["amqp:accepted:list"]
    return composite("source", **fields)


@action(10)
def attach_receiver(peer: Peer, draw: Draw) -> bytes:
    found = attaching(peer, draw, True)
    if found is None:
        return b""
    session, handle, fields = found
    fields["source"] = source_of(peer, draw)
    if draw.one_in(25):
        # Looks a subscription up.
        fields["source"] = Value("null", None)
    fields["target"] = composite("target")
    if draw.wrong():
        fields["name"] = draw.pick(["", "x\0y", "n" * 300])
    attach = encode_frame("attach", channel=session.ours or 0, **fields)
    if draw.one_in(3):
        return attach
    return attach + credit_frame(session, handle, draw.pick([1, 2, 10, 100]), 0)


@action(8)
def attach_sender(peer: Peer, draw: Draw) -> bytes:
    found = attaching(peer, draw, False)
    if found is None:
        return b""
    session, _, fields = found
    kind = draw.pick(["plain"] * 4 + ["stream"] * 3 + ["anonymous", "dynamic"])
    target: dict[str, Any] = {"address": draw.pick(peer.addresses)}
    if kind == "anonymous":
        target = {}
    if kind == "dynamic":
        target = {"dynamic": True}
    if kind == "stream" or (kind == "anonymous" and draw.one_in(2)):
        target["capabilities"] = [STREAMING]
    fields["target"] = composite("target", **target)
    fields |= {"source": composite("source"), "initial_delivery_count": draw.pick([0, 0, MASK])}
    if draw.wrong():
        fields["target"] = draw.pick([Value("null", None), composite("source", address="q")])
    return encode_frame("attach", channel=session.ours or 0, **fields)


@action(3)
def attach_control(peer: Peer, draw: Draw) -> bytes:
    """A link to the coordinator of transactions (part 4.5.1)."""
    found = attaching(peer, draw, False)
    if found is None:
        return b""
    fields = found[2] | {"source": composite("source"), "target": composite("coordinator")}
    return encode_frame("attach", channel=found[0].ours or 0, initial_delivery_count=0, **fields)


@action(3)
def loop(peer: Peer, draw: Draw) -> bytes:
    """A consumer and a sender of streams, of one queue in one session."""
    found = attaching(peer, draw, True)
    if found is None or found[1] + 1 > found[0].their_handle_max or found[0].handle_max < 9:
        return b""
    session, handle, fields = found
    address, number = peer.addresses[0], session.ours or 0
    target = composite("target", address=address, capabilities=[STREAMING])
    consumer = encode_frame(
        "attach", channel=number, **{**fields, "name": f"in-{peer.number}-{draw.number()}"},
        source=composite("source", address=address), target=composite("target"),
    )  # fmt: skip
    producer = encode_frame(
        "attach", channel=number, name=f"out-{peer.number}-{draw.number()}", handle=handle + 1,
        role=False, source=composite("source"), target=target, initial_delivery_count=0,
    )  # fmt: skip
    return consumer + credit_frame(session, handle, draw.pick([1, 10, 100]), 0) + producer


@action(6)
def answer_attach(peer: Peer, draw: Draw) -> bytes:
    """Answer an attach of the server's, or refuse it, and give credit."""
    waiting = [(s, link) for s in sessions(peer, begun=False) for link in s.links
               if link.ours is None and not link.theirs_ended]  # fmt: skip
    if not waiting:
        return b""
    session, link = draw.pick(waiting)
    handle = free({each.ours for each in session.links if not each.ours_ended})
    if draw.wrong():
        handle = draw.pick([0, 1, 9])
    elif handle > session.their_handle_max:
        return b""
    fields: dict[str, Any] = {"name": link.name, "handle": handle, "role": link.receives,
                              "source": composite("source", address=link.address),
                              "target": composite("target", address=link.address)}  # fmt: skip
    if not link.receives:
        fields["initial_delivery_count"] = 0
    answer = encode_frame("attach", channel=session.ours or 0, **fields)
    if draw.one_in(6):
        return answer + encode_frame("detach", channel=session.ours or 0, handle=handle,
                                     closed=draw.one_in(2))  # fmt: skip
    if link.receives and not draw.one_in(4):
        answer += credit_frame(session, handle, draw.pick([1, 2, 10]), link.count)
    return answer


@action(2)
def detach(peer: Peer, draw: Draw) -> bytes:
    found = links(peer)
    number = channel(peer, draw)
    if number is None:
        return b""
    handle = draw.pick([0, 1, 2, 77])
    if found and not draw.wrong():
        session, link = draw.pick(found)
        number, handle = session.ours or 0, link.ours or 0
    elif not draw.wrong():
        return b""
    fields: dict[str, Any] = {"closed": True} if draw.one_in(2) else {}
    if draw.one_in(5):
        fields["error"] = composite("error", condition="fuzz:detach", description="x" * 600)
    return encode_frame("detach", channel=number, handle=handle, **fields)


@action(4)
def answer_detach(peer: Peer, draw: Draw) -> bytes:
    """Detach what the server detached."""
    gone = [(s, link) for s in sessions(peer) for link in s.links
            if link.theirs_ended and link.ours is not None and not link.ours_ended]  # fmt: skip
    return b"".join(encode_frame("detach", channel=s.ours or 0, handle=link.ours or 0,
                                 closed=not draw.one_in(3))
                    for s, link in gone)  # fmt: skip
