"""The faults of a run: the server and the relay that have them, their times, and their proof.

Each fault has a thread: it waits until the fault is due, causes it, and notes the time at which it
was proven. The threads end with the run, or when it is interrupted: then each undoes its fault.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from quiver_fast.arguments import endpoint
from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.pair.fault_text import OF_NETWORK, Fault
from quiver_fast.cli.server.command import make_parser
from quiver_fast.cli.server.plan import ServerPlan, check_arguments, server_plan
from quiver_fast.cli.server.run import ServerRun
from quiver_fast.cli.shared.implementations import (
    BROKERS,
    DEFAULT_IMPLEMENTATION,
    find_server,
)
from quiver_fast.cli.shared.url import parse_url
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.own_process import own_command, own_environment
from quiver_fast.process import STOP_GRACE, Child, exit_text
from quiver_fast.ready_file import WITHDRAWN
from quiver_fast.reconnecting import parse_places
from quiver_fast.resolving import resolve
from quiver_fast.words import counted

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}
_TICK = 0.001
_SLOW_TICK = 0.01
# A broker may have much to write to its disk before it ends, and to read when it starts.
_PATIENCE = 60.0
_PINGS = 500
_NEW_STORE = "(a new folder)"


class Faults:
    """All faults of a run."""

    def __init__(
        self, faults: Sequence[Fault], arrow: ArrowPlan, server: ServerPlan | None,
        pid: str | None, signals: SignalWatch,
    ) -> None:  # fmt: skip
        """Prepare.

        Args:
            faults: what is asked for.
            arrow: a plan of an arrow, which connects to the server.
            server: the plan of the server that the run starts; None for none.
            pid: the server's process number, or a file that has it.
            signals: the watch on signals, entered later.
        """
        others = parse_places(arrow.options.failover or "")
        self._places = [(arrow.url.host, arrow.port), *others]
        self._faults, self._base = faults, arrow.clock_base or 0
        self._plan, self._pid, self._signals = server, pid, signals
        self._launched = server is not None and server.implementation.name in BROKERS
        # As the document has them: times are those of the records, in nanoseconds.
        self._found: list[dict[str, Any]] = [
            {name: vars(fault)[name] for name in ("text", "kind", "planned")}
            | dict.fromkeys(("began", "at", "until", "proof", "problem"))
            for fault in self._faults
        ]
        self._server: ServerRun | None = None
        # The server is meant to be gone; how it ended by itself.
        self._down, self._died = False, ""
        self._controls: dict[int, socket.socket] = {}
        self._relay: dict[str, float] = {}
        self._threads: list[threading.Thread] = []
        self._begun = 0
        self._over = threading.Event()
        self._lines: deque[str] = deque()

    @contextmanager
    def running(self) -> Iterator[list[str]]:
        """Run the server, and the relay; yield its hosts and ports, none without a relay.

        Raises:
            QuiverError: one cannot be started, or the process of the faults is not there.
        """
        with ExitStack() as stack:
            if self._pid is not None:
                _Processes([_read_pid(self._pid)]).close()
            if self._plan is not None:
                folder = tempfile.TemporaryDirectory(prefix="quiver-server-")
                self._start_server(self._plan, Path(stack.enter_context(folder)), stack)
            numbers = [n for n, fault in enumerate(self._faults) if fault.kind in OF_NETWORK]
            yield self._start_relay(numbers, stack) if numbers else []

    def _start_server(self, plan: ServerPlan, folder: Path, stack: ExitStack) -> None:
        new = {"store": folder / "store"} if plan.options.get("store") == _NEW_STORE else {}
        plan = replace(plan, ready_file=str(folder / "ready"), options=plan.options | new)
        server = self._server = ServerRun(plan, log := folder / "output.txt")
        server.start()
        stack.callback(server.end)
        try:
            server.wait_until_ready(self._signals, 2 * _PATIENCE)
        except QuiverError as error:
            lines = log.read_text(errors="replace").split("\n")
            raise QuiverError(f"{error}: {next(filter(None, reversed(lines)), '')}") from None

    def _start_relay(self, numbers: Sequence[int], stack: ExitStack) -> list[str]:
        own = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        places = [resolve(*place, timeout=_PATIENCE) for place in self._places]
        places.append([(socket.AF_INET, own.getsockname())])
        pairs = [socket.socketpair() for _ in range(len(numbers) + 1)]
        fds = tuple(theirs.fileno() for _, theirs in pairs)
        words = [*own_command("quiver_fast.cli.pair.relay"), json.dumps(places), *map(str, fds)]
        relay = Child(words, own_environment(), pass_fds=fds)
        stack.callback(relay.end)
        for ours, theirs in pairs:
            stack.callback(ours.close)
            theirs.close()
        self._controls = {n: ours for n, (ours, _) in zip(numbers, pairs[1:], strict=True)}
        with pairs[0][0].makefile() as told:
            *ports, probe = json.loads(told.readline() or "[0]")
        if not ports:
            raise QuiverError("the relay of --fault did not start")
        self._relay = _latency(own, probe)
        p50, p99 = self._relay.values()
        self._lines.append(f"The relay adds {p50:.0f} us to a packet (p50; p99 {p99:.0f} us)")
        return [f"127.0.0.1:{port}" for port in ports]

    def begin(self) -> None:
        """Begin to count: the sending begins. Only the first call counts."""
        if not self._begun:
            self._begun = time.monotonic_ns()
            for number in range(len(self._faults)):
                self._threads.append(threading.Thread(target=self._perform, args=(number,)))
                self._threads[-1].start()

    def end(self) -> None:
        """End and undo the faults, and return when that is done."""
        self._over.set()
        for control in self._controls.values():
            with suppress(OSError):
                control.shutdown(socket.SHUT_WR)
        for thread in self._threads:
            thread.join()
        if self._server is not None and not self._down and self._server.child.poll():
            self._died = exit_text(self._server.child.returncode)

    @property
    def active(self) -> bool:
        """Whether a fault lasts that will end by itself."""
        return any(
            fault.seconds and found["at"] and not (found["until"] or found["problem"])
            for fault, found in zip(self._faults, self._found, strict=True)
        )

    def told(self) -> list[str]:
        """Return the lines about faults since the last call."""
        return [self._lines.popleft() for _ in range(len(self._lines))]

    def sections(self) -> dict[str, Any]:
        """Return the keys of the document."""
        found = {"faults": self._found, "relay": self._relay}
        return {key: value for key, value in found.items() if value}

    def problems(self) -> list[str]:
        """Return a line for each fault that did not happen, or did not end."""
        died = [f"the server of --server ended by itself: {self._died}"] if self._died else []
        why = "nothing proves it" if self._begun else "the sending did not begin"
        return died + [
            f"the fault '{one['text']}' did not {'end' if one['at'] else 'happen'}: {problem}"
            for one in self._found
            if (problem := one["problem"] or (None if one["at"] else why))
        ]

    def _perform(self, number: int) -> None:
        fault, found = self._faults[number], self._found[number]
        due = self._begun / 10**9 + fault.planned
        try:
            if self._over.wait(max(due - time.monotonic(), 0)):
                raise QuiverError("the run ended before")
            if fault.kind in OF_NETWORK:
                self._disturb(fault, found, self._controls[number])
            elif fault.kind == "run":
                self._command(fault, found)
            else:
                self._send(fault, found)
        except (QuiverError, OSError) as error:
            found["problem"] = str(error)
            self._tell(found, str(error))

    def _tell(self, found: dict[str, Any], words: str) -> None:
        seconds = (time.monotonic_ns() - self._begun) / 10**9
        self._lines.append(f"{seconds:,.1f} s: fault '{found['text']}': {words}")

    def _note(self, found: dict[str, Any], key: str, proof: str, at: int | None = None) -> None:
        """Note when a fault began or was over, in monotonic nanoseconds, and its proof."""
        at = time.monotonic_ns() if at is None else at
        found |= {key: at + self._base, "proof": proof}
        if key == "at":
            found["began"] = (at - self._begun) / 10**9
        self._tell(found, proof if key == "at" else f"over: {proof}")

    def _disturb(self, fault: Fault, found: dict[str, Any], control: socket.socket) -> None:
        """Have the relay do a fault, and note what it answers."""
        told = {"kind": fault.kind, "value": fault.value, "share": fault.share,
                "seconds": fault.seconds or 0}  # fmt: skip
        control.sendall(json.dumps(told).encode())
        with control.makefile() as lines:
            for answer in map(json.loads, lines):
                if "problem" in answer:
                    raise QuiverError(answer["problem"])
                if "at" in answer:
                    self._note(found, "at", "begun", answer["at"])
                else:
                    self._note(found, "until", answer["proof"], answer["until"])
                    return
        raise QuiverError("the relay ended")

    def _command(self, fault: Fault, found: dict[str, Any]) -> None:
        self._note(found, "at", "started")
        words = ["sh", "-c", fault.command]
        null = subprocess.DEVNULL
        # A server that the command starts goes on, with what it has for its errors.
        with tempfile.TemporaryFile("w+", errors="replace") as errors, subprocess.Popen(
            words, stdin=null, stdout=null, stderr=errors, start_new_session=True
        ) as child:  # fmt: skip
            while child.poll() is None:
                if self._over.wait(_SLOW_TICK):
                    os.killpg(child.pid, signal.SIGTERM)
                    try:
                        child.wait(STOP_GRACE)
                    except subprocess.TimeoutExpired:
                        os.killpg(child.pid, signal.SIGKILL)
                    raise QuiverError("the run ended before the command")
            how = exit_text(child.returncode)
            if child.returncode:
                errors.seek(0)
                last = next(filter(None, reversed(errors.read().split("\n"))), "")
                raise QuiverError(f"{last} ({how})" if last else how)
        self._note(found, "until", how)

    def _send(self, fault: Fault, found: dict[str, Any]) -> None:
        """Send the process of the server a signal; later continue or start it."""
        number = _SIGNALS[fault.kind]
        with closing(_Processes(self._pids())) as processes:
            if fault.kind != "stop":
                self._down = True
                if self._server is not None:
                    Path(self._server.plan.ready_file or "").write_text(WITHDRAWN, encoding="ascii")
                self._note(found, "at", processes.send(number, processes.gone))
            else:
                try:
                    self._note(found, "at", processes.send(number, processes.stopped))
                    self._over.wait(fault.seconds)
                finally:
                    processes.send(
                        signal.SIGCONT, lambda: processes.gone() or not processes.stopped()
                    )
                self._note(found, "until", found["proof"])
        if fault.kind != "stop" and fault.seconds is not None:
            self._come_back(found, fault.seconds)

    def _pids(self) -> list[int]:
        if self._server is None:
            return [_read_pid(self._pid or "")]
        self._server.check_alive()
        self._server.child.usage.sample()
        pids = [process.pid for process in self._server.child.usage.processes()]
        # A launcher stays: it has the broker's folder.
        return pids[1:] if self._launched else pids

    def _come_back(self, found: dict[str, Any], seconds: float) -> None:
        """Start the server again; another one's is awaited: somebody else starts it."""
        server, is_back = self._server, self._listens
        place = endpoint(*self._places[0])
        deadline = time.monotonic() + seconds + 2 * _PATIENCE
        if server is not None and not self._over.wait(seconds):
            if self._launched:
                Path(server.plan.ready_file or "").write_text("", encoding="ascii")
            else:
                server.child.kill_and_wait()
                server.start()
            is_back = server.is_ready
        while self._over.is_set() or not is_back():
            if self._over.wait(_SLOW_TICK):
                raise QuiverError(f"the run ended before {place} was back")
            if time.monotonic() > deadline:
                raise QuiverError(f"{place} did not come back")
            if server is not None:
                server.check_alive()
        self._down = False
        self._note(found, "until", found["proof"])

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(self._places[0], _PATIENCE):
            return True
        return False


class _Processes:
    """Processes that get signals; the descriptors make sure that they stay the same ones."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._fds: list[int] = []
        try:
            for pid in pids:
                # A broker's helper may have ended.
                with suppress(ProcessLookupError if pids[1:] else KeyError):
                    self._fds.append(os.pidfd_open(pid))
                    signal.pidfd_send_signal(self._fds[-1], 0)
        except (OSError, OverflowError) as error:
            self.close()
            permitted = not isinstance(error, PermissionError)
            who = f"there is no {self._names}" if permitted else f"{self._names} is another user's"
            raise QuiverError(who) from None
        if self.gone():
            self.close()
            raise self._ended

    @property
    def _ended(self) -> QuiverError:
        return QuiverError(f"{self._names} has ended")

    @property
    def _names(self) -> str:
        others = f" and {counted(len(self._pids) - 1, 'other')}" if self._pids[1:] else ""
        return f"process {self._pids[0]}{others}"

    def close(self) -> None:
        """Close the descriptors."""
        while self._fds:
            os.close(self._fds.pop())

    def send(self, number: signal.Signals, proof: Callable[[], bool]) -> str:
        """Send a signal, wait for its proof, and return that in words.

        Raises:
            QuiverError: the proof does not come.
        """
        begin = time.monotonic()
        for fd in self._fds:
            # A process may end with the one before.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, number)
        while not proof():
            if time.monotonic() > begin + _PATIENCE:
                raise QuiverError(f"{number.name} had no effect on {self._names}")
            time.sleep(_TICK)
        state = "stopped" if number == signal.SIGSTOP else "gone"
        milliseconds = 1000 * (time.monotonic() - begin)
        verb = "were" if self._pids[1:] else "was"
        return f"{self._names} {verb} {state} {milliseconds:.1f} ms after {number.name}"

    def gone(self) -> bool:
        """Say whether all have ended."""
        poller = select.poll()
        for fd in self._fds:
            poller.register(fd, select.POLLIN)
        return len(poller.poll(0)) == len(self._fds)

    def stopped(self) -> bool:
        """Say whether all threads of all of them are stopped, or have ended.

        Raises:
            QuiverError: nothing is left to stop.
        """
        stopped = all(_state(stat) in "TtZX" for pid in self._pids for stat in _stats(pid))
        if self.gone():
            raise self._ended
        return stopped


def asked_server(args: argparse.Namespace) -> ServerPlan:
    """Return the plan of the server that ``--server`` asks for.

    Raises:
        UsageError: there is no such server, or it does not have an option.
        QuiverError: it cannot run here.
    """
    try:
        words = [args.url, "--impl", *shlex.split(args.server)]
    except ValueError as error:
        raise UsageError(f"--server: '{args.server}': {str(error).lower()}") from None
    words += ["--user", args.username] if args.username else []
    words += ["--password-file", args.password_file] if args.password_file else []
    given = make_parser().parse_args(words)
    implementation = find_server(given.impl)
    own = implementation.name == DEFAULT_IMPLEMENTATION
    # Our own server keeps its messages for its next start.
    given.store = given.store or (_NEW_STORE if own else None)
    plan = server_plan(given, implementation, parse_url(args.url, args.address))
    if own:
        check_arguments(plan)
    return plan


def _stats(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").glob("*/stat")


def _state(stat: Path) -> str:
    try:
        # The name before may have any character.
        return stat.read_text(errors="replace").rpartition(") ")[2][0]
    except OSError:
        return "X"


def _read_pid(text: str) -> int:
    """Return a process number, or the one in a file.

    Raises:
        QuiverError: there is none.
    """
    if text.isdecimal():
        return int(text)
    try:
        return int(Path(text).read_text(encoding="ascii").split()[0])
    except (ValueError, IndexError):
        raise QuiverError(f"{text} has no process number") from None
    except OSError as error:
        raise QuiverError(f"{text}: {error.strerror}") from None


def _latency(listener: socket.socket, relayed: int) -> dict[str, float]:
    """Return the microseconds that the relay adds to a small packet on its way to ``listener``."""
    times: list[list[int]] = []
    listener.settimeout(_PATIENCE)
    for port in (listener.getsockname()[1], relayed):
        place = ("127.0.0.1", port)
        try:
            with socket.create_connection(place, _PATIENCE) as near, listener.accept()[0] as far:
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                far.settimeout(_PATIENCE)
                times.append(sorted(_ping(near, far) for _ in range(_PINGS)))
        except TimeoutError:
            raise QuiverError("the relay of --fault does not answer") from None
    p50, p99 = (max(times[1][at] - times[0][at], 0) for at in (_PINGS // 2, _PINGS * 99 // 100))
    return {"p50_us": p50 / 1000, "p99_us": p99 / 1000}


def _ping(near: socket.socket, far: socket.socket) -> int:
    begin = time.monotonic_ns()
    near.send(b"ping")
    far.recv(16)
    return time.monotonic_ns() - begin
