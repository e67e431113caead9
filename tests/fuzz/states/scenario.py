"""Scenarios: the first writes of a peer, dangerous fragments, and the steps of a seed."""

from __future__ import annotations

import random

from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, encode_frame
from tests.fuzz.states import endpoints, messages
from tests.fuzz.states.choices import ACTIONS, NUMBERS, Draw, Peer, Step, windows
from tests.fuzz.states.endpoints import opening
from tests.fuzz.states.state import MASK

# Importing them has filled the table of actions.
__all__ = ["ACTIONS", "endpoints", "messages"]

Part = tuple[str, bool]
# Short pieces that were dangerous once, with choices of their own; True glues to the next one.
FRAGMENTS: list[list[Part]] = [
    [("begin", True), ("end", False)],
    [("begin", True), ("end", False), ("begin", False), ("answer_begin", False),
     ("attach_receiver", True), ("attach_receiver", False)],
    [("begin", True), ("end", True), ("begin", True), ("end", False)],
    [("attach_receiver", True), ("detach", False)],
    [("attach_sender", True), ("detach", True), ("attach_sender", False)],
    [("detach", True), ("attach_receiver", False)],
    [("detach", True), ("end", False)],
    [("send", False), ("settle", False), ("settle", False)],
    [("part", False), ("settle", False), ("settle", False), ("send", False)],
    [("part", False), ("answer_begin", False), ("answer_attach", False), ("settle", False)],
    [("part", False), ("answer_begin", False), ("send", True), ("tear", False)],
    [("part", False), ("send", True), ("stray", False), ("answer_end", False)],
    [("loop", False), ("stall", False), ("part", False), ("send", False), ("stray", False),
     ("answer_end", False)],
    [("loop", False), ("part", False), ("send", False), ("stray", False), ("answer_end", False)],
    [("loop", False), ("send", False), ("receive", False), ("burst", False), ("forget", False)],
    [("receive", False), ("settle", False)],
    [("receive", False), ("detach", False)],
    [("receive", True), ("forget", False)],
    [("loop", False), ("send", False), ("receive", True), ("send", False), ("forget", False)],
    [("begin", True), ("attach_receiver", True), ("attach_receiver", True), ("end", False)],
    [("attach_control", False), ("control", False), ("send", False), ("settle", False),
     ("control", False)],
    [("attach_control", False), ("control", False), ("send", True), ("settle", True),
     ("end", False)],
    [("control", False), ("send", False), ("detach", False)],
    [("send", True), ("close", False)],
    [("begin", True), ("close", False)],
    [("attach_receiver", True), ("close", False)],
    [("part", False), ("abort", True), ("detach", False)],
]  # fmt: skip
# How a peer begins.
FIRST = [["loop"], ["loop", "attach_control"], ["attach_receiver", "attach_sender"],
         ["attach_sender", "credit"], ["attach_receiver"], []]  # fmt: skip
# What a listener may say inside of SASL to a server that connects to it.
MECHANISMS = encode_frame("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"])


def start(peer: Peer, draw: Draw) -> list[bytes]:
    """Return the first writes of a connection that the server accepts."""
    first = draw.number() % 12
    if first == 0:
        peer.known.honest = False
        early = encode_frame("begin", next_outgoing_id=0, incoming_window=1, outgoing_window=1)
        first_bytes = [b"", b"AMQP", b"\0", SASL_HEADER, AMQP_HEADER + early]
        return [draw.pick([*first_bytes, SASL_HEADER + opening(peer, draw)])]
    begin_frame = encode_frame("begin", next_outgoing_id=draw.pick([0, MASK]), **windows(draw))
    if first < 4:
        return [AMQP_HEADER + opening(peer, draw) + begin_frame]
    return [AMQP_HEADER, opening(peer, draw), begin_frame]


def greeting(user: bool, draw: Draw) -> list[bytes]:
    """Return the writes of SASL, right or wrong."""
    response, name = b"\0user\0pencil", "PLAIN"
    if not user:
        response, name = b"", "ANONYMOUS"
    init = encode_frame("sasl_init", mechanism=name, initial_response=response)
    if draw.wrong():
        wrong = [
            b"",
            b"\0user",
            b"\0user\0" + b"p" * 400,
            b"n,,n=user,r=nonce",
            "\u0300".encode() * 100,
        ]
        name = draw.pick(["PLAIN", "SCRAM-SHA-256", "EXTERNAL", "", "ANONYMOUS"])
        init = encode_frame("sasl_init", mechanism=name, initial_response=draw.pick(wrong))
        init += encode_frame("sasl_response", response=draw.pick(wrong)) * draw.pick([0, 1, 3])
    return [SASL_HEADER, init]


def steps(seed: int, peers: int) -> tuple[int, list[Step]]:
    """Return a scenario: its wildness (the chance of wrong choices, 0 for none), its steps."""
    rng = random.Random(seed)
    names = list(ACTIONS)
    weights = [weight for weight, _ in ACTIONS.values()]
    wildness = rng.choice([0, 0, 6, 12, 30])
    found: list[Step] = []

    def add(peer: int, name: str, glued: bool) -> None:
        numbers = tuple(rng.randrange(2**20) for _ in range(NUMBERS))
        found.append(Step(peer, name, numbers, glued, rng.random() < 0.15))

    def fragment(peer: int) -> None:
        for name, glued in rng.choice(FRAGMENTS):
            add(peer, name, glued)

    for peer in range(peers):
        add(peer, "start", False)
        for name in rng.choice(FIRST):
            add(peer, name, rng.random() < 0.1)
        if rng.random() < 0.5:
            fragment(peer)
    for _ in range(rng.choice([5, 10, 20, 40])):
        peer = rng.randrange(peers)
        if rng.random() < 0.25:
            fragment(peer)
        else:
            add(peer, rng.choices(names, weights)[0], rng.random() < 0.2)
    for peer in range(peers):
        add(peer, "leave", False)
    return wildness, found
