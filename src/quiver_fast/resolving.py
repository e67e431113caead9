"""The addresses of a host's name. A silent name server stops neither time-outs nor signals."""

from __future__ import annotations

import _thread
import os
import select
import signal
import socket
import time

from quiver_fast.errors import PeerError, SignalError
from quiver_fast.loop import interrupt

Address = tuple[int, tuple[object, ...]]
"""The family of an address, and the address for a socket."""

# The usual time-out of a resolver for its first question is 5 s (resolv.conf(5)).
_TIMEOUT = 10.0
_LONGEST_POLL = 2**31 - 1
_HOSTS = "/etc/hosts"


def wait(fds: list[tuple[int, int]], deadline: float | None, doing: str = "") -> bool:
    """Wait for one of the descriptors; return False after the deadline (monotonic).

    Args:
        fds: descriptors with their events.
        deadline: None to wait for ever.
        doing: what is waited for, for the error of a signal.

    Raises:
        SignalError: a signal came.
    """
    poller = select.poll()
    for fd, events in fds:
        poller.register(fd, events)
    if interrupt.wake_fd() >= 0:
        poller.register(interrupt.wake_fd(), select.POLLIN)
    ready: object = None
    try:
        while not ready and (deadline is None or ready is None or time.monotonic() < deadline):
            ready = poller.poll(_rest_ms(deadline))
            interrupt.raise_if_pending()
    except SignalError as error:
        raise error.during(doing) if doing else error from None
    return bool(ready)


def _rest_ms(deadline: float | None) -> float | None:
    """Return the time-out of a poll, which is an int of C in milliseconds."""
    if deadline is None:
        return None
    return min(max(0.0, deadline - time.monotonic()) * 1000, _LONGEST_POLL)


def resolve(host: str, port: int, *, timeout: float = _TIMEOUT, flags: int = 0) -> list[Address]:
    """Return the addresses of ``host``.

    Args:
        host: a name or an address; empty for this machine.
        port: the port of the addresses.
        timeout: seconds that the name server may take.
        flags: as of getaddrinfo.

    Raises:
        PeerError: the name does not resolve in time.
        SignalError: a signal came.
    """
    try:
        # Most hosts are given as an address.
        return _look_up(host, port, flags | socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        if _is_unlisted_loopback(host):
            return [(socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))]
    try:
        return _Lookup(host, port, flags).result(timeout)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else "not a host name"
        raise PeerError(f"cannot resolve host '{host}': {reason}") from None


def wire_name(host: str) -> bytes:
    """Return a host's name for frames, TLS and the system: labels in ASCII (RFC 5890, 2.3.2.1).

    Raises:
        PeerError: it is no host name.
    """
    try:
        return host.encode("ascii" if host.isascii() else "idna")
    except UnicodeError:
        raise PeerError(f"cannot resolve host '{host}': not a host name") from None


def _look_up(host: str, port: int, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


def _is_unlisted_loopback(host: str) -> bool:
    """Say whether a name is of the loopback interface (RFC 6761, 6.3), and of no file.

    No name server has to know it.
    """
    name = host.lower().rstrip(".")
    if name != "localhost" and not name.endswith(".localhost"):
        return False
    try:
        with open(_HOSTS, encoding="utf-8", errors="replace") as file:
            return not any(name in line.partition("#")[0].lower().split()[1:] for line in file)
    except OSError:
        return True


class _Lookup:
    """A lookup in a thread of its own: nothing else can abandon getaddrinfo."""

    def __init__(self, host: str, port: int, flags: int) -> None:
        self._host = host
        self._arguments = (host, port, flags)
        self._found: list[Address] | None = None
        self._error: Exception | None = None
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            # The system allows no more threads.
            self._run()

    def _run(self) -> None:
        # The main thread sleeps in a poll, which a signal has to end.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._found = _look_up(*self._arguments)
        except Exception as error:
            self._error = error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(self._writer)

    def result(self, timeout: float) -> list[Address]:
        """Return the addresses.

        Raises:
            PeerError: nothing came in ``timeout`` seconds.
            SignalError: a signal came.
            OSError, UnicodeError: as getaddrinfo raised it.
        """
        try:
            deadline = time.monotonic() + timeout
            if not wait([(self._reader, select.POLLIN)], deadline, f"resolving '{self._host}'"):
                raise PeerError(
                    f"cannot resolve host '{self._host}': no answer within {timeout:g} s"
                )
        finally:
            os.close(self._reader)
        if self._error is not None:
            raise self._error
        return self._found or []
