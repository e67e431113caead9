"""One scenario on one server."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass, field

from quiver_fast.conform.wire.codec import CodecError
from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, composite, encode_frame
from tests.fuzz.states import scenario as scenarios
from tests.fuzz.states.choices import ACTIONS, Draw, Peer, Step
from tests.fuzz.states.client import Client
from tests.fuzz.states.model import Connection
from tests.fuzz.states.serving import ANSWER_SECONDS, TURNS, Finding, Honest, Serving
from tests.fuzz.states.state import Ledger, Wrong


@dataclass
class Play:
    """One scenario on one server."""

    serving: Serving
    seed: int
    name: str
    ignored: Container[str] = ()
    ledger: Ledger = field(default_factory=Ledger)
    clients: dict[int, Client] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def run(self, keep: set[int] | None = None) -> None:
        """Take all steps, or some.

        Raises:
            Wrong: The server did what it must not do.
        """
        wildness, steps = scenario(self.seed)
        for at, step in enumerate(steps):
            if (keep is None or at in keep) and step.name != "leave":
                self.take(step, wildness)
        self.finish()
        for at, step in enumerate(steps):
            client = self.clients.get(step.peer)
            if (keep is None or at in keep) and step.name == "leave" and client is not None:
                self.leave(client, Draw(step.numbers, wildness, client.known))
        self.afterwards()

    def take(self, step: Step, wildness: int) -> None:
        client = self.clients.get(step.peer)
        if client is None:
            if step.name == "start":
                known = Connection(self.ledger)
                self.start(step.peer, known, Draw(step.numbers, wildness, known))
            return
        if client.gone:
            return
        draw = Draw(step.numbers, wildness, client.known)
        if step.name == "cut":
            self.leave(client, draw)
        else:
            client.say(ACTIONS[step.name][1](client.peer, draw))
        if step.glued or not client.waiting:
            return
        client.flush(cut=step.cut)
        self.settle()

    def start(self, number: int, known: Connection, draw: Draw) -> None:
        dialed = self.serving.setup.connects and number == 0
        peer = Peer(known, number, self.name, dialed)
        client = self.clients[number] = Client(
            self.serving,
            peer,
            deaf=not dialed and draw.wildness > 0 and draw.one_in(12),
        )
        client.trace, client.ignored = self.lines, self.ignored
        if dialed:
            writes = self.answer(client, draw)
        else:
            writes = scenarios.start(peer, draw)
            if self.serving.setup.user or draw.one_in(10):
                writes = scenarios.greeting(self.serving.setup.user, draw) + writes
        # The server accepts it in a turn of its own.
        self.settle()
        for data in writes:
            client.say(data)
            client.flush()
            self.settle()

    def answer(self, client: Client, draw: Draw) -> list[bytes]:
        """Return the writes of a listener to which the server connects."""
        self.settle()
        inside = draw.wrong()
        writes = []
        if client.speaks_sasl:
            writes = [SASL_HEADER + scenarios.MECHANISMS]
            if not inside:
                writes.append(encode_frame("sasl_outcome", code=0))
        rest = scenarios.start(client.peer, Draw((4, *draw.numbers[4:]), 0, client.known))
        if inside:
            # AMQP within SASL.
            attach = encode_frame("attach", name="inside", handle=0, role=True,
                                  source=composite("source", address="q"))  # fmt: skip
            return [*writes, *[piece for piece in rest if piece != AMQP_HEADER], attach]
        return [*writes, *rest]

    def leave(self, client: Client, draw: Draw) -> None:
        how = draw.pick(["close", "fin", "reset", "half", "torn"])
        if how == "close" and not client.gone and client.known.opened:
            client.say(encode_frame("close"))
        elif how == "torn":
            client.known.honest = False
            client.waiting += encode_frame("close")[: 1 + draw.number() % 10]
        client.flush()
        if how in ("close", "torn"):
            self.settle()
        client.leave(how)

    def settle(self) -> None:
        """Let the server catch up, and read what everybody got."""
        self.serving.turn()
        for client in self.clients.values():
            client.read()
        self.ledger.settle()
        for client in self.clients.values():
            if not (client.waiting or client.input):
                client.known.settle()

    def finish(self) -> None:
        """Wait until everybody has the answers that are due."""
        for client in self.clients.values():
            client.flush()
        until = time.monotonic() + ANSWER_SECONDS
        turns = 0
        self.settle()
        while due := self.due():
            # Only files answer later, and logins after failed ones.
            setup = self.serving.setup
            patient = setup.stored or setup.user
            if time.monotonic() > until or (turns > TURNS and not patient):
                raise Wrong(f"no answer to {due}")
            turns += 1
            self.settle()

    def due(self) -> str | None:
        return next(filter(None, (c.known.unanswered() for c in self.clients.values()
                                  if not (c.gone or c.deaf))), None)  # fmt: skip

    def afterwards(self) -> None:
        """See that others are served, and that no message is lost."""
        for client in self.clients.values():
            client.socket.close()
        self.serving.turn()
        with Honest(self.serving).opened("judge") as judge:
            judge.attach_sender("bystander", handle=1)
            judge.wait_for_credit()
            judge.transfer(0, b"\0\x53\x75\xa0\x03<0>", handle=1)
            if judge.expect("disposition").fields["state"].name != "accepted":
                raise Wrong("a bystander's message is not accepted")
            if judge.drain("bystander") != [0]:
                raise Wrong("a bystander does not get its message")
        for address in sorted({*self.ledger.accepted.values()}):
            with Honest(self.serving).opened("judge") as judge:
                self.ledger.judge(address, judge.drain(address))


def scenario(seed: int) -> tuple[int, list[Step]]:
    return scenarios.steps(seed, 1 + seed % 3)


def play(
    serving: Serving,
    seed: int,
    name: str,
    keep: set[int] | None = None,
    ignored: Container[str] = (),
) -> tuple[Finding | None, str]:
    """Run a scenario; return what was found, and the frames."""
    game = Play(serving, seed, name, ignored)
    found = None
    try:
        game.run(keep)
    except Wrong as error:
        found = Finding(str(error), str(error))
    except CodecError as error:
        found = Finding("bytes that are no frame", str(error))
    except (OSError, EOFError, AssertionError) as error:
        # Ours, or the bystander's: the server died, or does not serve it.
        found = Finding(f"a bystander is not served: {type(error).__name__}", repr(error))
        time.sleep(1)
    finally:
        for client in game.clients.values():
            client.socket.close()
    died = serving.death()
    if died is None and found is not None and found.kind in ignored:
        found = None
    return died or found, "\n".join(game.lines)
