"""Connecting to a host with several addresses (RFC 8305), and the resolution of its name."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast import resolving, sockets
from quiver_fast.errors import PeerError

V4, V6 = socket.AF_INET, socket.AF_INET6


@pytest.fixture
def silent() -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield an address that drops each SYN: the queue of its listener is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        fillers = [socket.socket() for _ in range(4)]
        for each in fillers:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield V4, listener.getsockname()
        for each in fillers:
            each.close()


@pytest.fixture
def live() -> Iterator[tuple[int, tuple[str, int]]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield V4, listener.getsockname()


@pytest.fixture
def refusing() -> tuple[int, tuple[str, int]]:
    return V4, ("127.0.0.1", sockets.free_port("127.0.0.1"))


def connected(*addresses: tuple[int, tuple[str, int]], seconds: float = 30) -> tuple[str, int]:
    """Return the address that `connect_to` connects to."""
    with sockets.connect_to(addresses, "two:1", time.monotonic() + seconds) as sock:
        return sock.getpeername()


def test_a_silent_address_does_not_keep_from_the_next(silent, live) -> None:
    assert connected(silent, live) == live[1]
    assert connected(silent, silent, silent, live) == live[1]
    assert connected(live, silent) == live[1]


def test_a_refusal_begins_the_next_attempt_at_once(refusing, live, silent) -> None:
    with closing(sockets.Race([refusing, refusing, live, silent])) as race:
        while race.step() is None:
            # Only a silent address is waited for, and none comes before the live one.
            assert race.due > time.monotonic() or select.select([race], [], [], 0)[0]
            select.select([race], [], [], 30)


def test_the_last_reason_is_told(refusing, silent) -> None:
    with pytest.raises(PeerError, match="cannot connect to two:1: Connection refused"):
        connected(refusing, refusing)
    with pytest.raises(PeerError, match="cannot connect to two:1: Connection timed out"):
        connected(refusing, silent, seconds=0.5)


def test_no_socket_is_left(silent, live, refusing, monkeypatch) -> None:
    made = []
    begin = sockets.begin_connect
    monkeypatch.setattr(sockets, "begin_connect", lambda *a: made.append(begin(*a)) or made[-1])
    connected(silent, refusing, live)
    assert [each.fileno() for each in made] == [-1, -1, -1]


@given(st.lists(st.tuples(st.sampled_from([V4, V6]), st.integers())))
def test_families_take_turns(addresses: list[tuple[int, int]]) -> None:
    found = sockets._in_turns(addresses)
    assert sorted(found) == sorted(addresses)
    for family in (V4, V6):
        assert [a for a in found if a[0] == family] == [a for a in addresses if a[0] == family]
    shorter = min(sum(a[0] == family for a in addresses) for family in (V4, V6))
    assert [a[0] for a in found[: 2 * shorter]] == [a[0] for a in found[:2]] * shorter
    assert found[:1] == addresses[:1]


# -- names


def test_a_lookup_without_answer_is_abandoned(monkeypatch) -> None:
    answer = threading.Event()

    def silent_lookup(host, port, flags):
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        answer.wait()

    monkeypatch.setattr(resolving, "_look_up", silent_lookup)
    with pytest.raises(PeerError, match=r"cannot resolve host 'a\.b': no answer within 0\.1 s"):
        resolving.resolve("a.b", 1, timeout=0.1)
    answer.set()


def test_without_threads_names_resolve_all_the_same(monkeypatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(resolving._thread, "start_new_thread", refuse)
    with pytest.raises(PeerError, match=r"cannot resolve host 'no-such-host\.invalid'"):
        resolving.resolve("no-such-host.invalid", 1)


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..b", "\ud800"])
def test_what_is_no_host_name_is_named(host: str) -> None:
    with pytest.raises(PeerError, match="cannot resolve host"):
        resolving.resolve(host, 1)
