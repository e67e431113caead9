"""Our server in the configurations that cases of servers need: the right peer of `judge`."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from quiver_fast.conform.case import Case
from quiver_fast.conform.server import ServerSubject, Target
from support.bystander import Bystander
from support.certificates import Certificates
from support.mutant import MutatingRelay, Mutator
from support.right_answers import RIGHT
from support.server import running_server

USER, PASSWORD = "alice", "correct horse"
PLAIN = f"\0{USER}\0{PASSWORD}".encode()
# Only dynamic nodes: a random address is refused. The server's own time-out is longer than the
# patience, so that no close for silence passes for an answer.
OPEN = {"addresses": ",bystander", "max_message_size": 1 << 20}


class Controls:
    """Servers that start when a case needs them.

    Args:
        directory: for their files.
        certificates: for TLS.
        patience: seconds for an answer; shorter than the time-out of a server.
    """

    def __init__(self, directory: Path, certificates: Certificates, patience: float) -> None:
        self._directory, self._certificates, self._patience = directory, certificates, patience
        self._stack = contextlib.ExitStack()
        self._subjects: dict[str, ServerSubject] = {}
        self._bystanders: dict[str, Bystander] = {}

    def subject(self, case: Case) -> ServerSubject:
        """Return the server that a case needs."""
        kind = kind_of(case)
        if kind not in self._subjects:
            self._subjects[kind] = self._started(kind)
        return self._subjects[kind]

    def check(self, case: Case) -> None:
        """Check that another client of the server of this case has noticed nothing."""
        if (bystander := self._bystanders.get(kind_of(case))) is not None:
            bystander.check()

    @contextlib.contextmanager
    def mutated(self, case: Case) -> Iterator[tuple[ServerSubject, Mutator]]:
        """Yield the server that a case needs behind a relay that makes the fault of the case."""
        with (
            self.right(case) as subject,
            MutatingRelay(subject.target.port, case.breaks) as relay,
        ):
            yield subject.through(relay.port), relay.mutator

    @contextlib.contextmanager
    def right(self, case: Case) -> Iterator[ServerSubject]:
        """Yield the server that a case needs, made right where ours is not."""
        subject = self.subject(case)
        with contextlib.ExitStack() as relays:
            for change in RIGHT.get(case.id, ()):
                relay = relays.enter_context(MutatingRelay(subject.target.port, change))
                subject = subject.through(relay.port)
            yield subject

    def close(self) -> None:
        """End all."""
        self._stack.close()

    def _started(self, kind: str) -> ServerSubject:
        keys: dict[str, object] = {**OPEN}
        target = Target("localhost", 0, patience=self._patience)
        if kind == "users":
            keys |= {"user": USER, "password": PASSWORD}
            target = replace(target, user=USER, password=PASSWORD)
        if kind == "tls":
            keys |= {"scheme": "amqps", **self._certificates.server.keys()}
            trust = ssl.create_default_context(cafile=self._certificates.authority)
            target = replace(target, tls=trust)
        if kind == "idle":
            keys |= {"idle_timeout": 1}
        server = self._stack.enter_context(running_server(self._directory, **keys))
        # A bystander that is silent would be sent away.
        if kind not in ("tls", "idle"):
            bystander = Bystander(server.port, PLAIN if kind == "users" else None)
            self._bystanders[kind] = self._stack.enter_context(bystander.client) and bystander
        subject = ServerSubject(replace(target, port=server.port))
        return self._stack.enter_context(contextlib.closing(subject))


def kind_of(case: Case) -> str:
    """Return the configuration that a case needs."""
    if {"users", "scram"} & {*case.needs}:
        return "users"
    return next((kind for kind in ("tls", "idle") if kind in case.needs), "plain")
