"""The relay of `--fault`: a process between the arrows and the server, which disturbs connections.

It listens on a free port for each place. Its first argument has the addresses of each place, in
JSON; the second is the descriptor of the wrapper's socket, which gets the ports and whose end ends
the relay. Each further one is the socket of a fault: the wrapper writes the fault as a line of JSON
when it is due, and closes its end to end the fault early. The relay answers in such lines: ``at``
when the fault has begun, then ``until`` and ``proof``; or a ``problem``.

Bytes are passed on unchanged, so TLS passes as well. A peer that reads slowly slows down the other
one: the relay reads no more than it can pass on, or than a delay may hold.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import heapq
import itertools
import json
import math
import resource
import select
import socket
import struct
import sys
import termios
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from quiver_fast.words import counted

Addresses = list[tuple[int, list[Any]]]

_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
_BUFFER = memoryview(bytearray(1 << 18))
# The bytes that a delay may hold for each direction of a connection.
_MOST_HELD = 1 << 24
# Throttled connections get their bytes in portions.
_PORTION_SECONDS = 0.01
_CUTTING, _HOLDING = ("cut", "refuse"), ("freeze", "half")
_DONE = {"delay": "delayed", "throttle": "throttled"}
# Closing sends a reset (socket(7), SO_LINGER).
_RESET = struct.pack("ii", 1, 0)


class _Flow:
    """One direction of a connection."""

    def __init__(self, link: _Link, source: socket.socket, target: socket.socket) -> None:
        self._link, self._source, self._target = link, source, target
        # Bytes, and when they are due; None is the end of the stream.
        self._waiting: deque[tuple[float, memoryview | None]] = deque()
        self._held = 0
        self._ended = self._rings = False
        self.blocked = False
        self.passed = 0
        # The faults that it has: how many hold it, seconds, and bytes that it may still read.
        self.stops, self.delay = 0, 0.0
        self.portions: dict[_Fault, float] = {}

    @property
    def _portion(self) -> float:
        return min(self.portions.values(), default=math.inf)

    @property
    def reads(self) -> bool:
        """Whether it takes bytes."""
        if self._ended or self.stops or self._portion < 1:
            return False
        return self._held < _MOST_HELD if self.delay else not self._waiting

    @property
    def over(self) -> bool:
        """Whether the stream has ended, and all of it was passed on."""
        return self._ended and not self._waiting

    def take(self) -> None:
        """Read once, and pass on what is due."""
        count = self._source.recv_into(_BUFFER, int(min(self._portion, len(_BUFFER))))
        for fault in self.portions:
            self.portions[fault] -= count
        self.passed += count
        self._ended = not count
        sent = 0 if self.delay or self._waiting or not count else self._send(_BUFFER[:count])
        if sent < count or not count:
            data = memoryview(bytes(_BUFFER[sent:count])) if count else None
            self._waiting.append((time.monotonic() + self.delay, data))
            self._held += count - sent
            self.give()

    def give(self) -> None:
        """Write the bytes that are due."""
        self.blocked, now = False, time.monotonic()
        while self._waiting and not self.stops and (self._waiting[0][0] <= now or not self.delay):
            due, data = self._waiting.popleft()
            if data is None:
                self._target.shutdown(socket.SHUT_WR)
                continue
            sent = self._send(data)
            self._held -= sent
            if sent < len(data):
                self._waiting.appendleft((due, data[sent:]))
                self.blocked = True
                return
        if self._waiting and not self.stops and not self._rings:
            self._rings = True
            self._link.relay.ring(self._waiting[0][0], self._ring)

    def _ring(self) -> None:
        self._rings = False
        self._link.do(self.give)

    def _send(self, data: memoryview) -> int:
        try:
            return self._target.send(data)
        except BlockingIOError:
            return 0

    def unread(self) -> int:
        """Return the bytes that it holds, or has not read."""
        size = bytearray(4)
        fcntl.ioctl(self._source, termios.FIONREAD, size)
        return self._held + int.from_bytes(size, sys.byteorder)


class _Link:
    """A connection of a client, and ours to the server."""

    def __init__(self, relay: Relay, client: socket.socket, addresses: Addresses) -> None:
        self.relay, self._client, self._addresses = relay, client, [*addresses]
        self._server = client
        self._masks: dict[socket.socket, int] = {}
        self.flows: tuple[_Flow, ...] = ()
        self._passed = 0
        self._connect()

    @property
    def passed(self) -> int:
        """The bytes that it has passed on in both directions."""
        return self._passed + sum(flow.passed for flow in self.flows)

    def _connect(self) -> None:
        """Begin to connect to the next address."""
        if not self._addresses:
            self.reset()
            return
        family, address = self._addresses.pop(0)
        self._server = _tuned(socket.socket(family, socket.SOCK_STREAM))
        if self._server.connect_ex(tuple(address)) in (0, errno.EINPROGRESS):
            self.relay.handle(self._server, lambda _: self._connected(), _OUT)
        else:
            self._connect()

    def _connected(self) -> None:
        client, server = self._client, self._server
        if server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            server.close()
            self._connect()
            return
        self.relay.epoll.unregister(server)
        self._masks = {client: 0, server: 0}
        up, down = self.flows = (_Flow(self, client, server), _Flow(self, server, client))
        self.relay.handlers[client.fileno()] = lambda events: self._pass(events, up, down)
        self.relay.handlers[server.fileno()] = lambda events: self._pass(events, down, up)
        self.relay.add(self)
        self._watch()

    def _pass(self, events: int, taken: _Flow, given: _Flow) -> None:
        """Obey the events of the source of one flow, which is the target of the other."""
        if given.blocked and events & ~_IN:
            self.do(given.give)
        if taken.reads and events & ~_OUT and self.flows:
            self.do(taken.take)

    def do(self, step: Callable[[], None] = lambda: None) -> None:
        """Do a step of a flow; an error of one side is passed on to the other."""
        if not self.flows:
            return
        try:
            step()
        except BlockingIOError:
            pass
        except OSError:
            self.reset()
            return
        if all(flow.over for flow in self.flows):
            self._close()
        else:
            self._watch()

    def _watch(self) -> None:
        """Have the poller watch for what the flows wait for; it does not know idle sockets."""
        for sock, out, back in zip(self._masks, self.flows, self.flows[::-1], strict=True):
            mask = (_IN if out.reads else 0) | (_OUT if back.blocked else 0)
            before, self._masks[sock] = self._masks[sock], mask
            if mask and before and mask != before:
                self.relay.epoll.modify(sock, mask)
            elif mask and not before:
                self.relay.epoll.register(sock, mask)
            elif before and not mask:
                self.relay.epoll.unregister(sock)

    def reset(self) -> None:
        """End it at once: both sides get a reset."""
        for sock in self._masks or (self._client,):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close()

    def _close(self) -> None:
        for sock in (self._client, self._server):
            self.relay.handlers.pop(sock.fileno(), None)
            sock.close()
        self._passed, self._masks, self.flows = self.passed, {}, ()
        self.relay.links.pop(self, None)


class _Fault:
    """A fault of the network: its socket to the wrapper, and what it does to connections."""

    def __init__(self, relay: Relay, control: socket.socket) -> None:
        self._relay, self._control = relay, control
        self._kind, self._value, self._share = "", 0.0, 1.0
        self._on = False
        self._seen = self._cut = self._refused = 0
        self._links: dict[_Link, int] = {}
        self._refilled = 0.0
        relay.handle(control, lambda _: self._hear())

    def _hear(self) -> None:
        if line := self._control.recv(4096):
            told = json.loads(line)
            self._kind, self._value, self._share = told["kind"], told["value"], told["share"]
            self._begin(told["seconds"])
        else:
            self._relay.epoll.unregister(self._control)
            self._end()

    def _begin(self, seconds: float) -> None:
        links = [link for link in self._relay.links if self._takes()]
        if not links:
            none = f"{100 * self._share:g}% of {counted(self._seen, 'connection')} are none"
            self._say(problem=none if self._seen else "there was no connection")
            return
        self._on, self._refilled = True, time.monotonic()
        self._relay.faults.append(self)
        for link in links:
            if self._kind in _CUTTING:
                self._cut += 1
                link.reset()
            else:
                self._disturb(link)
        self._say(at=time.monotonic_ns())
        self._relay.ring(self._refilled + seconds, self._end)
        self._refill()

    def _takes(self) -> bool:
        """Say whether the next connection is of the share; these are evenly spread."""
        self._seen += 1
        # A share such as 10 % is no binary fraction.
        before, after = ((self._seen - n) * self._share + 1e-9 for n in (1, 0))
        return int(after) > int(before)

    def refuses(self) -> bool:
        """Say whether it refuses a new connection, and count that."""
        refuses = self._kind == "refuse" and self._takes()
        self._refused += refuses
        return refuses

    def meet(self, link: _Link) -> None:
        """Disturb a new connection, if it is of the share."""
        if self._kind not in _CUTTING and self._takes():
            self._disturb(link)

    def _disturb(self, link: _Link) -> None:
        self._links[link] = link.passed
        self._change(link, 1)

    def _change(self, link: _Link, sign: int) -> None:
        for flow in link.flows[1 if self._kind == "half" else 0 :]:
            if self._kind in _HOLDING:
                flow.stops += sign
            elif self._kind == "delay":
                flow.delay = max(flow.delay + sign * self._value, 0.0)
            elif sign > 0:
                flow.portions[self] = 0.0
            else:
                flow.portions.pop(self)
            link.do(flow.give)

    def _refill(self) -> None:
        """Give throttled flows the bytes that they may pass on since the last time."""
        if self._kind != "throttle" or not self._on:
            return
        now = time.monotonic()
        more = self._value * (now - self._refilled)
        links = [link for link in self._links if link.flows]
        for flows in zip(*(link.flows for link in links), strict=True):
            # Others have not used theirs, and keep it. Parts of a byte add up.
            busy = [flow for flow in flows if flow.portions[self] < max(more, 1)]
            for flow in busy:
                flow.portions[self] += more / len(busy)
        for link in links:
            link.do()
        self._refilled = now
        self._relay.ring(now + _PORTION_SECONDS, self._refill)

    def _end(self) -> None:
        if self._on:
            self._on, proof = False, self._proof()
            self._relay.faults.remove(self)
            for link in self._links:
                self._change(link, -1)
            self._say(until=time.monotonic_ns(), proof=proof)

    def _proof(self) -> str:
        links = counted(len(self._links), "connection")
        if self._kind in _CUTTING:
            refused = f", {self._refused:,} refused" if self._kind == "refuse" else ""
            return f"{counted(self._cut, 'connection')} cut{refused}"
        if self._kind in _HOLDING:
            flows = [flow for link in self._links for flow in link.flows if flow.stops]
            unread = counted(sum(flow.unread() for flow in flows), "byte")
            return f"{links} held, {unread} unread at the end"
        passed = sum(link.passed - before for link, before in self._links.items())
        return f"{links} {_DONE[self._kind]}, {counted(passed, 'byte')} passed"

    def _say(self, **answer: Any) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(answer).encode() + b"\n")


class Relay:
    """All connections, and the loop that serves them."""

    def __init__(self, places: list[Addresses], control: int, faults: list[int]) -> None:
        """Listen for each place, and tell the ports."""
        self.epoll = select.epoll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.links: dict[_Link, None] = {}
        self.faults: list[_Fault] = []
        self._bells: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._runs = True
        self._wrapper = socket.socket(fileno=control)
        self.handle(self._wrapper, lambda _: self._stop())
        for fd in faults:
            _Fault(self, socket.socket(fileno=fd))
        self._wrapper.sendall(json.dumps([*map(self._listen, places)]).encode() + b"\n")

    def _listen(self, addresses: Addresses) -> int:
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        listener.setblocking(False)
        self.handle(listener, lambda _: self._accept(listener, addresses))
        return int(listener.getsockname()[1])

    def _accept(self, listener: socket.socket, addresses: Addresses) -> None:
        with contextlib.suppress(OSError):
            client = _tuned(listener.accept()[0])
            refused = any(fault.refuses() for fault in self.faults)
            _Link(self, client, [] if refused else addresses)

    def handle(self, sock: socket.socket, call: Callable[[int], None], mask: int = _IN) -> None:
        """Call whenever a socket can be read, or has other events."""
        self.handlers[sock.fileno()] = call
        self.epoll.register(sock, mask)

    def add(self, link: _Link) -> None:
        """Serve a connection; the faults of the moment disturb it as well."""
        self.links[link] = None
        for fault in self.faults:
            fault.meet(link)

    def ring(self, when: float, call: Callable[[], None]) -> None:
        """Call at a time of the monotonic clock."""
        heapq.heappush(self._bells, (when, next(self._numbers), call))

    def _stop(self) -> None:
        self._runs = False

    def run(self) -> None:
        """Serve until the wrapper closes its socket."""
        while self._runs:
            now = time.monotonic()
            while self._bells and self._bells[0][0] <= now:
                heapq.heappop(self._bells)[2]()
            for fd, events in self.epoll.poll(self._bells[0][0] - now if self._bells else None):
                if handler := self.handlers.get(fd):
                    handler(events)


def _tuned(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    Relay(json.loads(sys.argv[1]), int(sys.argv[2]), list(map(int, sys.argv[3:]))).run()
