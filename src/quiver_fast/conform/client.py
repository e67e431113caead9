"""A client or an arrow as cases see it: runs of its program against peers that we are."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quiver_fast.conform.case import Unobservable, check
from quiver_fast.conform.counterpart import Counterpart
from quiver_fast.conform.program import HOST, PATH, REVISIONS, End, Program, words
from quiver_fast.conform.server import ASK_SECONDS, Facts, introduced, preparing
from quiver_fast.conform.views import Views
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import Fields, Frame, Unexpected
from quiver_fast.conform.wire.trace import Trace

# A program may take long to start.
_START_SECONDS = 15.0
_END_SECONDS = 10.0
# Until a second connection that a program made is there.
_STRAY_SECONDS = 0.1
_SENDS = {"v3": r"\d+,0", "v2": r"[^,]+,\d{13}", "v1": r"[^,]+,\d{13}"}


@dataclass(frozen=True)
class Course:
    """A whole run with a right peer.

    Attributes:
        frames: all that the program sent, in order.
        connections: how many it made.
    """

    operation: str
    frames: tuple[Frame, ...]
    end: End
    connections: int
    trace: Trace

    def all(self, name: str) -> list[Frame]:
        """Return the frames of a name; to have none is unobservable."""
        if found := [each for each in self.frames if each.name == name]:
            return found
        raise Unobservable(f"it sent no {name}")

    def one(self, name: str) -> Frame:
        """Return the first frame of a name."""
        return self.all(name)[0]


class Client:
    """The program as one case sees it; `ClientSubject` makes it, and the runner closes it."""

    def __init__(self, subject: ClientSubject) -> None:
        self.facts: Facts = subject.facts
        self.trace = Trace()
        self._subject = subject
        self._programs: list[Program] = []
        self._sockets: list[socket.socket] = []
        self._peers, self._over = 0, False
        subject.views.add(self)

    @property
    def operations(self) -> Sequence[str]:
        """What the program does: send, receive."""
        return self._subject.operations

    @property
    def told(self) -> bool:
        """Whether we tell the program what to do: it is an arrow."""
        return self._subject.who == "arrow"

    def meet(
        self, operation: str, until: str = "attach", *, revision: str = "",
        says: Mapping[str, Mapping[str, Any]] | None = None, keys: Mapping[str, Any] | None = None,
        **peer: Any,
    ) -> Counterpart:  # fmt: skip
        """Start the program against a new listener; serve until it is answered so far.

        Args:
            operation: what it does.
            until: a frame of the program; empty for its connection alone.
            revision: of the contract.
            says: see `Counterpart`; so are those of ``peer``.
            keys: of the contract.
            peer: attributes of the counterpart.
        """
        revision = revision or self._revision()
        listener = self._start(operation, revision, keys or {})
        # Of v3, ids are an option that is off.
        peer = {"named": revision != "v3", **peer}
        return self._met(listener, self.trace, until, says or {}, peer)

    def course(self, operation: str, revision: str = "", **keys: Any) -> Course:
        """Return a whole run with a right peer: the same words give the same course."""
        revision = revision or self._revision()
        key = (operation, revision, *sorted(keys.items()))
        with self._subject.courses.lock(key):
            if key not in self._subject.courses:
                self._subject.courses[key] = self._course(operation, revision, keys)
        found = self._subject.courses[key]
        self.trace.extend(found.trace)
        return found

    def dial(self, operation: str, **keys: Any) -> FrameClient:
        """Return our connection to an arrow that listens."""
        with socket.create_server((HOST, 0)) as free:
            port = free.getsockname()[1]
        self._run(operation, "", port, {"connection_mode": "server", **keys})
        deadline = time.monotonic() + 2 * self._subject.patience
        while self._programs[-1].running and time.monotonic() < deadline:
            with contextlib.suppress(ConnectionRefusedError):
                found = socket.create_connection((HOST, port), self._subject.patience)
                self._sockets.append(found)
                return FrameClient.on(found, self.trace, self._count())
            time.sleep(0.02)
        if self._programs[-1].running:
            raise Unexpected("it listens", "it does not")
        raise Unobservable(f"it does not listen: {self._why()}")

    def reaches(
        self, listener: socket.socket, port: int | str, operation: str = "send", **keys: Any
    ) -> bool:
        """Run the program; say whether it connects to this listener."""
        listener.settimeout(_STRAY_SECONDS)
        self._run(operation, "", port, keys)
        return self._accepted(listener) is not None

    def refused(self, operation: str) -> End:
        """Run the program where nobody listens; return its end."""
        self._sockets.append(socket.socket())
        self._sockets[-1].bind((HOST, 0))
        self._run(operation, "", self._sockets[-1].getsockname()[1], {})
        self._programs[-1].wait(_END_SECONDS / 2)
        return self.gives_up(self._sockets[-1])

    def gives_up(self, listener: socket.socket | None = None) -> End:
        """Return the end of the last program; one that connects again is unobservable."""
        listener = listener or self._listener
        program, deadline = self._programs[-1], time.monotonic() + _END_SECONDS
        listener.settimeout(_STRAY_SECONDS)
        while program.running and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                listener.listen()
                self._sockets.append(listener.accept()[0])
                raise Unobservable("it connects again and again")
        end = program.end(0)
        check(not end.late, "it ends", f"it runs on after {_END_SECONDS:g} s")
        return end

    def finish(self, peer: Counterpart) -> End:
        """Serve a program to its end.

        Raises:
            Unexpected: it falls silent before.
        """
        try:
            peer.serve()
        except TimeoutError:
            raise Unexpected("its end", "silence") from None
        return self.end()

    def end(self, limit: float = _END_SECONDS) -> End:
        """Return the end of the last program, which comes within so many seconds.

        Raises:
            Unexpected: it runs on.
        """
        end = self._programs[-1].end(limit)
        check(not end.late, "it ends", end.late)
        return end

    def close(self) -> None:
        """End all programs and connections."""
        self._subject.views.remove(self)
        for one in self._sockets:
            one.close()
        for program in self._programs:
            program.close()

    def abort(self) -> None:
        """End all connections and programs, which fails what waits for them; start no others."""
        self._over = True
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for program in self._programs:
            program.kill()

    def _revision(self) -> str:
        for name in REVISIONS if self.told else ():
            if name not in self.facts.absent:
                return name
        return ""

    def _start(self, operation: str, revision: str, keys: Mapping[str, Any]) -> socket.socket:
        if operation not in self.operations:
            raise Unobservable(f"it does not {operation}")
        listener = socket.create_server((HOST, 0))
        listener.settimeout(_STRAY_SECONDS)
        self._sockets.append(listener)
        self._listener = listener
        port = self._subject.place(listener.getsockname()[1])
        self._run(operation, revision, port, keys)
        return listener

    def _run(self, operation: str, revision: str, port: int | str, keys: Mapping[str, Any]) -> None:
        revision = revision or self._revision()
        if revision in self.facts.absent:
            raise Unobservable(self.facts.absent[revision])
        command, environ = self._subject.filled(revision, operation, port, keys)
        with preparing("start it"):
            self._programs.append(Program(command, environ))
        if self._over:
            raise Unobservable("cannot start it: the time is over")

    def _met(
        self, listener: socket.socket, trace: Trace, until: str,
        says: Mapping[str, Mapping[str, Any]], peer: Mapping[str, Any],
    ) -> Counterpart:  # fmt: skip
        if (accepted := self._accepted(listener)) is None:
            raise Unobservable(f"it does not connect: {self._why()}")
        patience = self._subject.patience
        found = Counterpart(accepted, trace, self._count(), patience, says, **peer)
        found.quiet = self._subject.quiet
        if until:
            with preparing(f"serve it to its {until}"):
                found.answer_header()
                if found.serve(until) is None:
                    raise EOFError
        return found

    def _accepted(self, listener: socket.socket) -> socket.socket | None:
        """Return the program's connection, if it makes one before it ends."""
        program, deadline = self._programs[-1], time.monotonic() + _START_SECONDS
        waits = True
        while waits:
            # Once more behind the end: it may have connected before.
            waits = program.running and time.monotonic() < deadline
            with contextlib.suppress(TimeoutError):
                self._sockets.append(listener.accept()[0])
                return self._sockets[-1]
        return None

    def _count(self) -> int:
        self._peers += 1
        return self._peers - 1

    def _why(self) -> str:
        """Return why a program did not connect or listen."""
        program = self._programs[-1]
        if program.running:
            return "it waits"
        end = program.end(1)
        said = end.stderr.strip().splitlines()
        return f"exit code {end.code}" + (f", {said[-1]}" if said else "")

    def _course(self, operation: str, revision: str, keys: Mapping[str, Any]) -> Course:
        trace = Trace()
        listener = self._start(operation, revision, keys)
        peer = self._met(listener, trace, "open", {}, {"named": revision != "v3"})
        with preparing("serve it to its end"):
            peer.serve()
        end = self._programs[-1].end(_END_SECONDS)
        connections = 1
        with contextlib.suppress(OSError):
            while connections < 10:
                self._sockets.append(listener.accept()[0])
                connections += 1
        return Course(operation, tuple(peer.frames), end, connections, trace)


class _Courses(dict[Any, Course]):
    """Courses by their words, each with a lock."""

    def __init__(self) -> None:
        super().__init__()
        self._locks: defaultdict[Any, threading.Lock] = defaultdict(threading.Lock)
        self._own = threading.Lock()

    def lock(self, key: Any) -> threading.Lock:
        """Return the lock of a course."""
        with self._own:
            return self._locks[key]


class ClientSubject:
    """A client or an arrow that cases judge.

    Attributes:
        who: ``client`` or ``arrow``.
        views: those of cases that run.
        place: from the port of our listener to the one that the program is told.

    Args:
        who: whose cases are run besides those of clients.
        name: the arrow's name, or the command.
        command: the words that start it.
        environ: its environment; ours by default.
        patience: seconds for an answer.
        seconds: the limit of the questions before the first case.
    """

    def __init__(
        self, who: str, name: str, command: Sequence[str],
        environ: Mapping[str, str] | None = None, patience: float = 5.0,
        seconds: float = ASK_SECONDS,
    ) -> None:  # fmt: skip
        self.who, self.name, self.command, self.patience = who, name, command, patience
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        self.quiet = 0.3
        self.operations: Sequence[str] = ("send", "receive")
        self.facts = Facts(product=name)
        self.place: Callable[[int], int] = int
        self.failed, self.stayed, self.parallel = 0, list[str](), True
        self.courses, self.views = _Courses(), Views()
        with self.views.within(seconds):
            if who == "arrow":
                self.facts = Facts(product=name, absent=self._unclaimed())
            else:
                self._ask()

    @property
    def title(self) -> str:
        """The program in one line."""
        spoken = [name for name in reversed(REVISIONS) if name not in self.facts.absent]
        claims = f", contract {', '.join(spoken) or 'of no revision'}"
        return f"{self.facts.product}{claims if self.who == 'arrow' else ''}"

    def view(self) -> Client:
        """Return a new view for a case."""
        return Client(self)

    def anew(self) -> ClientSubject:
        """Return the same program, with courses that are run again."""
        return self.through(self.place)

    def through(
        self, place: Callable[[int], int] = int, command: Sequence[str] = ()
    ) -> ClientSubject:
        """Return the same program behind relays, or in another one."""
        other = copy.copy(self)
        other.place, other.courses = place, _Courses()
        other.command = command or self.command
        return other

    def filled(
        self, revision: str, operation: str, port: int | str, keys: Mapping[str, Any]
    ) -> tuple[list[str], Mapping[str, str]]:
        """Return the command and the environment for a run."""
        if self.who == "arrow":
            own = words(revision, operation, port, **keys)
            return [*self.command, *own], self.environ
        url = f"amqp://{HOST}:{port}/{PATH}"
        values = {"{host}": HOST, "{port}": str(port), "{url}": url, "{address}": PATH}
        command = [
            re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], each)
            for each in self.command
        ]
        return command, {**self.environ, "QUIVER_CONFORM_URL": url}

    def close(self) -> None:
        """Nothing is left to end."""

    def _ask(self) -> None:
        """Ask what the client does, and for its name."""
        with contextlib.closing(self.view()) as view:
            peer = view.meet("send")
        said: Fields = peer.theirs["open"]
        self.operations = ("receive" if peer.link.get("role") else "send",)
        self.facts = Facts(**introduced(said, self.name))

    def _unclaimed(self) -> dict[str, str]:
        """Return the revisions that the arrow does not speak, with the reason."""
        absent = {}
        for revision in REVISIONS:
            with contextlib.closing(self.view()) as view:
                try:
                    lines = view.course("send", revision, count=1).end.lines
                except (Unobservable, Unexpected) as reason:
                    absent[revision] = f"it does not speak {revision}: {reason}"
                    continue
            if not (lines and re.fullmatch(_SENDS[revision], lines[0])):
                said = repr(lines[0]) if lines else "nothing"
                absent[revision] = f"it does not speak {revision}: it prints {said}"
        return absent
