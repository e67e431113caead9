"""Our arrow as the right subject of cases of clients, and with one fault."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from quiver_fast.conform.case import Case
from quiver_fast.conform.client import ClientSubject
from quiver_fast.conform.mutation import Mutation
from support.arrows import COMMANDS
from support.mutant import MutatingRelay, Mutator, _copy, _start

MUTANT = str(Path(__file__).with_name("mutant_arrow.py"))
# These are made by the arrow itself; the others in its frames.
OWN = ("output", "word", "exits", "again")


class ClientRelay(MutatingRelay):
    """Makes the fault on the way from the one that connects."""

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            peer = socket.create_connection(("127.0.0.1", self._port))
            self._open += client, peer
            for one in (client, peer):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _start(lambda client=client, peer=peer: _copy(peer, client))
            _start(lambda client=client, peer=peer: self._pass_on(client, peer))

    def _pass_on(self, client: socket.socket, peer: socket.socket) -> None:
        """Look at the frames; a reset ends them as a plain end does."""
        try:
            self._look(client, peer)
        except ConnectionResetError:
            peer.shutdown(socket.SHUT_WR)


class Mutant:
    """What makes the fault.

    Args:
        fault: the fault.
        marker: the file of a mutant arrow.
    """

    def __init__(self, fault: Mutation, marker: Path) -> None:
        self.mutator, self._marker = Mutator(fault), marker

    @property
    def happened(self) -> bool:
        """Whether the fault was made."""
        return self.mutator.happened > 0 or self._marker.exists()


def arrow_subject(patience: float, name: str = "pyfast") -> ClientSubject:
    """Return an arrow as it is."""
    return ClientSubject("arrow", name, COMMANDS[name], patience=patience)


@contextlib.contextmanager
def mutated(
    subject: ClientSubject, case: Case, directory: Path
) -> Iterator[tuple[ClientSubject, Mutant]]:
    """Yield our arrow with the fault of a case."""
    fault, marker = case.breaks, directory / f"{case.who}-{case.id.replace('/', '-')}"
    mutant = Mutant(fault, marker)
    if fault.kind in OWN:
        said = json.dumps([fault.kind, fault.name, dict(fault.fields)])
        yield subject.through(command=[sys.executable, MUTANT, said, str(marker)]), mutant
        return
    with contextlib.ExitStack() as relays:

        def place(port: int) -> int:
            relay = ClientRelay(port, fault)
            relay.mutator = mutant.mutator
            return relays.enter_context(relay).port

        yield subject.through(place), mutant
