"""The goals of the data plane: one row each, against the tree before it and other references.

    make bench PYTEST_ARGS="-k reach"                  the whole table
    make bench PYTEST_ARGS="-k 'reach and server'"     some of it

Rows that the other files have already (the C reference, durable messages, shares of the direct
rate) carry the same mark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.certificates import make_certificates

from bench import connections, instructions, reach
from bench.cases import (
    LATENCY,
    REACH,
    REACH_LATENCY,
    REACH_SERVER,
    REACH_STREAMS,
    STREAM_FULL,
    THROUGHPUT,
)
from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.reference import build, old
from bench.reference.build import References
from bench.runner import Case, Certificate, Command, figures, run_pair
from bench.test_streaming import streamed
from bench.through import ServerLine, our_server, our_tls_server, run_queues, run_through

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.benchmark(timer=RATIO_CLOCK),
    pytest.mark.reach,
    pytest.mark.full,
]

BUSY = 5
IDLE = 10_000
STARTUP_ROUNDS_FACTOR = 3
NO_SPIN = "spin=0"
# Of 1 MB bodies within TLS.
TLS_LARGE = Case(2_000, body_size=1_000_000, credit=10)
# Eight pairs together send as many messages as one pair; milliseconds are fine enough.
ALONE = Case(4_000_000)
EACH_OF_EIGHT = Case(ALONE.count // 8)


def built(make: Callable[[], Path]) -> Path:
    """Return a reference's program, or skip with the name of the missing package."""
    try:
        return make()
    except build.BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def before() -> old.Tree:
    try:
        return old.tree()
    except build.BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    made = make_certificates(tmp_path_factory.mktemp("certificates"))
    return Certificate(made.server.cert, made.server.key, made.authority)


def pair(command: Command, case: Case) -> Callable[[], Figures]:
    return lambda: figures(run_pair(command, command, case))


def named(cases: dict[str, Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("name", "case"), cases.items(), ids=list(cases))


# ---- Peer-to-peer ------------------------------------------------------------


@named(REACH)
def test_pair(bench: Bench, arrow: Command, before: old.Tree, name: str, case: Case) -> None:
    bench.interleave(name, "rate", pair(arrow, case), pair(before.arrow, case))


@named(REACH_LATENCY)
def test_latency(bench: Bench, arrow: Command, before: old.Tree, name: str, case: Case) -> None:
    bench.interleave(name, "p50", pair(arrow, case), pair(before.arrow, case))


def test_one_cpu(bench: Bench, arrow: Command, before: old.Tree) -> None:
    """Both arrows on the same CPU, where spinning keeps the other arrow from its work."""
    case = THROUGHPUT["body-100"]
    ours, theirs = (reach.on_one_cpu(command) for command in (arrow, before.arrow))
    bench.interleave("old-one-cpu", "rate", pair(ours, case), pair(theirs, case))


def test_busy(bench: Bench, arrow: Command, before: old.Tree) -> None:
    case = THROUGHPUT["body-100"]
    with reach.busy(BUSY):
        bench.interleave("old-busy", "rate", pair(arrow, case), pair(before.arrow, case))


def test_stream(bench: Bench, arrow: Command, before: old.Tree) -> None:
    """One message of 10 GB."""

    def stream(command: Command) -> Callable[[], Figures]:
        return lambda: {"throughput": run_pair(command, command, STREAM_FULL).throughput}

    bench.interleave("old-stream-10g", "throughput", stream(arrow), stream(before.arrow))


def test_startup(bench: Bench, arrow: Command, before: old.Tree) -> None:
    """One message; the wall clock of a whole sender, and of a receiver until it listens."""
    bench.rounds *= STARTUP_ROUNDS_FACTOR

    def start(command: Command) -> Callable[[], Figures]:
        def measure() -> Figures:
            run = run_pair(command, command, Case(1))
            return {"sender_start": run.sender.wall * 1e3, "receiver_start": run.ready * 1e3}

        return measure

    bench.interleave("old-startup", "sender_start", start(arrow), start(before.arrow))


def test_pair_beside_zmq(bench: Bench, arrow: Command) -> None:
    """ZeroMQ pushes and pulls: it acknowledges nothing and settles nothing."""
    case = REACH["old-body-100"]
    program = built(build.zmq_pair)

    def ours() -> Figures:
        found = figures(run_pair(arrow, arrow, case))
        return {name: found[name] for name in ("rate", "sender_cpu", "receiver_cpu")}

    bench.interleave(
        "zmq-body-100", "rate", ours, lambda: reach.zmq(program, case.count, case.body_size)
    )


def test_pair_beside_tcp(bench: Bench, arrow: Command, references: References) -> None:
    """A raw copy of as many bytes as the arrows write to each other."""
    case = REACH["old-body-100"]
    size = reach.bytes_on_wire(arrow, case)

    def ours() -> Figures:
        run = run_pair(arrow, arrow, case)
        return {"throughput": run.count * size / run.elapsed / 1e6}

    def copy() -> Figures:
        words = reach.run_program([str(references.tcp_copy), str(int(case.count * size))])
        return {"throughput": float(words[0]) / 1e6}

    bench.interleave("tcp-body-100", "throughput", ours, copy)


# ---- Spinning ----------------------------------------------------------------


@pytest.fixture
def still(arrow: Command) -> Command:
    """The arrow that may not spin."""
    if not reach.knows_spin():
        pytest.skip("the arrow has no option spin: it has nothing to forbid")
    return [*arrow, NO_SPIN]


def test_without_spinning(bench: Bench, still: Command, before: old.Tree) -> None:
    case = REACH["old-body-100"]
    bench.interleave("old-no-spin", "sender_cpu", pair(still, case), pair(before.arrow, case))


@pytest.mark.parametrize(
    ("name", "server", "count"),
    [("spin-ours", our_server, 1_000_000), ("spin-rabbitmq", reach.rabbitmq_server, 50_000)],
    ids=["ours", "rabbitmq"],
)
def test_spin_beside_a_broker(
    bench: Bench, arrow: Command, still: Command, name: str, server: ServerLine, count: int
) -> None:
    """Ends that may spin, against ends that may not: they must not take the broker's CPU."""
    case = Case(count)
    bench.interleave(
        name,
        "rate",
        lambda: run_through(server, arrow, case),
        lambda: run_through(server, still, case),
    )


# ---- Instructions ------------------------------------------------------------


@pytest.mark.parametrize("operation", ["send", "receive"])
def test_instructions(
    bench: Bench, arrow: Command, before: old.Tree, references: References, operation: str
) -> None:
    """Under valgrind, with the C reference at the other end; a count needs one round."""
    if not instructions.valgrind():
        pytest.skip("valgrind is missing: install valgrind")
    peer = [str(references.arrow)]
    bench.rounds = 1

    def counted(command: Command) -> Callable[[], Figures]:
        return lambda: {"instructions": instructions.per_message(command, peer, operation)}

    bench.interleave(
        f"instructions-{operation}", "instructions", counted(arrow), counted(before.arrow)
    )


# ---- TLS ---------------------------------------------------------------------


def test_tls(bench: Bench, arrow: Command, certificate: Certificate) -> None:
    """Against the same pair without it."""
    case = THROUGHPUT["body-100"]
    secure = replace(case, tls=certificate)
    bench.interleave("tls-body-100", "rate", pair(arrow, secure), pair(arrow, case))


def test_tls_beside_openssl(bench: Bench, arrow: Command, certificate: Certificate) -> None:
    """A copy of as many bytes by OpenSSL alone."""
    case = replace(TLS_LARGE, tls=certificate)
    program = str(built(build.tls_copy))

    def ours() -> Figures:
        return {"throughput": run_pair(arrow, arrow, case).throughput}

    def copy() -> Figures:
        words = reach.run_program([program, str(case.count * case.body_size)])
        return {"throughput": float(words[0]) / 1e6}

    bench.interleave("tls-body-1m", "throughput", ours, copy)


# ---- Through the server ------------------------------------------------------


@named(REACH_SERVER)
def test_server(bench: Bench, arrow: Command, before: old.Tree, name: str, case: Case) -> None:
    """Each server with the arrows of its own tree."""
    bench.interleave(
        name,
        "rate",
        lambda: run_through(our_server, arrow, case),
        lambda: run_through(before.server, before.arrow, case),
    )


def test_server_beside_nats(bench: Bench, arrow: Command) -> None:
    """Core NATS delivers at most once; ours is settled from end to end."""
    case = REACH_SERVER["old-server-100"]
    program = built(build.nats_pair)
    bench.interleave(
        "nats-server-100",
        "rate",
        lambda: run_through(our_server, arrow, case),
        lambda: reach.nats(program, case.count, case.body_size),
    )


def test_server_latency(bench: Bench, arrow: Command, before: old.Tree) -> None:
    """The same arrows at both servers."""
    case = LATENCY["latency-50k"]
    bench.interleave(
        "old-server-latency-50k",
        "p50",
        lambda: run_through(our_server, arrow, case),
        lambda: run_through(before.server, arrow, case),
    )


def test_server_tls(bench: Bench, arrow: Command, certificate: Certificate) -> None:
    """TLS on both connections, against the same server and arrows without it."""
    case = REACH_SERVER["old-server-100"]
    secure = replace(case, tls=certificate)
    bench.interleave(
        "tls-server-100",
        "rate",
        lambda: run_through(our_tls_server(certificate), arrow, secure),
        lambda: run_through(our_server, arrow, case),
    )


def test_server_queues(bench: Bench, arrow: Command) -> None:
    """Eight pairs at once, each with its own connections and queue, against one pair."""
    bench.interleave(
        "queues-8",
        "rate",
        lambda: run_queues(arrow, EACH_OF_EIGHT, 8),
        lambda: run_queues(arrow, ALONE, 1),
    )


@named(REACH_STREAMS)
def test_server_streams(
    bench: Bench, arrow: Command, before: old.Tree, name: str, case: Case
) -> None:
    bench.interleave(
        name,
        "throughput",
        lambda: streamed(run_through(our_server, arrow, case), case),
        lambda: streamed(run_through(before.server, before.arrow, case), case),
    )


# ---- Memory ------------------------------------------------------------------


def test_stalled_stream(bench: Bench, arrow: Command, before: old.Tree) -> None:
    bench.interleave(
        "old-stalled",
        "held",
        lambda: reach.stalled_stream(our_server, arrow),
        lambda: reach.stalled_stream(before.server, before.arrow),
    )


def test_idle_connections(bench: Bench, before: old.Tree) -> None:
    connections.allow_descriptors()
    bench.rounds = 1

    def idle(server: ServerLine) -> Callable[[], Figures]:
        return lambda: {"server_rss": connections.measure(IDLE, server).held / 1e6}

    bench.interleave("old-idle", "server_rss", idle(our_server), idle(before.server))
