"""The run starts and the peer ends it: conditions, cuts, silence, refused messages."""

from __future__ import annotations

import sys
import time

import pytest
from proton import Terminus
from support.arrows import INTEROP, arguments, arguments_v2, run_at, run_pyfast
from support.frame_peer import FramePeer, ended
from support.judgement import ERROR_SECONDS, assert_clean, assert_error
from support.network import breaking_proxy
from support.processes import run
from support.scripted_peer import (
    Act,
    AttachesNoCoordinator,
    Coordinator,
    NeverAttaches,
    RefusesCoordinator,
    RefusesLink,
    ScriptedPeer,
    close_connection_plainly,
    detach_plainly,
    encode_message,
    plain_message,
)

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.frames import composite

sys.path.insert(0, str(INTEROP / "peers"))

import wire_messages

from quiver_fast.arrow.main import SETUP_TIMEOUT

BOTH = pytest.mark.parametrize("operation", ["send", "receive"])


@BOTH
def test_link_refused(operation: str) -> None:
    end = run_at(RefusesLink(), operation)
    assert_error(end, "amqp:not-found", "no such queue here")
    assert end.stdout == ""


@BOTH
@pytest.mark.parametrize("act", [detach_plainly, close_connection_plainly])
def test_peer_ends_the_run_early_without_a_condition(operation: str, act: Act) -> None:
    end = run_at(ScriptedPeer(after=10, act=act, credit=20, to_send=50), operation)
    assert_error(end, "the peer closed the")


@BOTH
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_tcp_cut(operation: str, how: str) -> None:
    with ScriptedPeer() as peer, breaking_proxy(peer.port, 200_000, how) as proxy:
        end = run_pyfast(*arguments(operation, proxy.port, count=1_000_000))
    assert_error(end, f"127.0.0.1:{proxy.port}")
    assert end.lines, "the records until the cut are lost"


@BOTH
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_tcp_cut_during_the_handshake(operation: str, how: str) -> None:
    with ScriptedPeer() as peer, breaking_proxy(peer.port, 40, how) as proxy:
        end = run_pyfast(*arguments(operation, proxy.port))
    assert_error(end, f"127.0.0.1:{proxy.port}")


@BOTH
def test_peer_falls_silent(operation: str) -> None:
    """AMQP 1.0 part 2, 2.4.5: no frame within the idle time-out closes the connection."""
    with ScriptedPeer() as peer, breaking_proxy(peer.port, 200_000, "silence") as proxy:
        words = arguments(operation, proxy.port, count=1_000_000, idle_timeout=1)
        end = run_pyfast(*words)
    assert_error(end, "idle", f"127.0.0.1:{proxy.port}")


# Seconds that a peer lets the arrow be silent.
IDLE_TIMEOUT = 0.6


def heartbeats() -> list[float]:
    """Have a peer ask for heartbeats; return how long it waited for each of the first few."""
    waited = []

    def script(talk: Talk) -> None:
        talk.answer_session(idle_time_out=int(1000 * IDLE_TIMEOUT))
        talk.answer_attach(target=composite("target", address="queue0"))
        talk.wait_for_credit()
        for _ in range(4):
            began = time.monotonic()
            talk.expect("empty")
            waited.append(time.monotonic() - began)
        talk.send_bytes(ended("close"))

    with FramePeer(script) as peer:
        assert_error(run_pyfast(*arguments("receive", peer.port)), "test:close")
    return waited


# An arrow that has less patience than ours, which is the first of its arguments.
IMPATIENT = """
import sys
from quiver_fast.arrow import main as arrow
arrow.SETUP_TIMEOUT = float(sys.argv.pop(1))
sys.exit(arrow.main())
"""


@BOTH
@pytest.mark.parametrize("seconds", [1.5, pytest.param(SETUP_TIMEOUT, marks=pytest.mark.slow)])
def test_attach_never_answered(operation: str, seconds: float) -> None:
    """The arrow gives a peer ten seconds for each step of the set-up."""
    assert SETUP_TIMEOUT == 10
    with NeverAttaches() as peer:
        words = arguments(operation, peer.port)
        end = run([sys.executable, "-c", IMPATIENT, str(seconds), *words])
    assert_error(end, "attach", f"127.0.0.1:{peer.port}", within=seconds + ERROR_SECONDS)
    assert end.seconds >= seconds
    assert end.stdout == ""


# -- content of a message


@pytest.mark.parametrize("layout", sorted(wire_messages.BAD))
def test_message_that_is_not_what_the_contract_demands(layout: str) -> None:
    maker = wire_messages.BAD[layout]
    end = run_at(ScriptedPeer(encode=encode_message(maker, 100), to_send=1), "receive", count=10)
    assert_error(end, "message" if layout == "truncated" else "SendTime")


def test_bad_message_amid_good_ones_keeps_their_records() -> None:
    bad = encode_message(wire_messages.no_send_time, 100)
    end = run_at(ScriptedPeer(encode=lambda n: bad(n) if n == 6 else plain_message(n)), "receive")
    assert_error(end, "SendTime")
    assert len(end.lines) == 5


# -- outcomes


def test_every_kind_of_outcome_has_its_own_count() -> None:
    names = {1: "rejected", 2: "released", 3: "released", 4: "modified"}
    end = run_at(ScriptedPeer(outcome=lambda n: names.get(n, "accepted")), "send", count=10)
    assert_error(end, "1 rejected", "2 released", "1 modified")


def test_credit_that_never_comes_ends_with_the_duration() -> None:
    end = run_at(ScriptedPeer(credit=10), "send", count=0, duration=1)
    assert_clean(end)
    assert len(end.lines) == 10


# -- transactions


@BOTH
def test_peer_without_a_transaction_coordinator(operation: str) -> None:
    end = run_at(RefusesCoordinator(), operation, transaction_size=10)
    assert_error(end, "transaction", "amqp:not-implemented")


@pytest.mark.parametrize("target", [Terminus.TARGET, Terminus.UNSPECIFIED])
def test_peer_that_attaches_no_transaction_coordinator(target: int) -> None:
    end = run_at(AttachesNoCoordinator(target), "send", transaction_size=10)
    assert_error(end, "no transaction coordinator: its attach names none")


@BOTH
def test_peer_that_refuses_to_commit(operation: str) -> None:
    end = run_at(Coordinator(refuse_discharge=True), operation, transaction_size=10)
    assert_error(end, "transaction", "amqp:precondition-failed")


@BOTH
@pytest.mark.parametrize(("count", "batches"), [(100, [10] * 10), (25, [10, 10, 5]), (3, [3])])
def test_transactions_hold_all_work_in_batches(
    operation: str, count: int, batches: list[int]
) -> None:
    with Coordinator() as peer:
        words = arguments(operation, peer.port, count=count, transaction_size=10)
        end = run_pyfast(*words)
        assert_clean(end)
        assert len(end.lines) == count
        assert peer.errors == []
        assert peer.discharged == [(size, False) for size in batches]


def test_transactions_with_settlement_records() -> None:
    with Coordinator() as peer:
        words = arguments_v2("send", peer.port, count=20, transaction_size=10, settlement=1)
        end = run_pyfast(*words)
    assert_clean(end)
    assert sum(line[0] in "Ss" for line in end.lines) == 20
