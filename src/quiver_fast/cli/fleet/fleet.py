"""The command's view of all hosts during the run: which are there, their progress, losses."""

from __future__ import annotations

import hmac
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.fleet.channel import Channel
from quiver_fast.cli.fleet.job import HostJob
from quiver_fast.cli.fleet.remote import RemoteEnd
from quiver_fast.cli.pair.ends_drain import QueueDrain

_HELLO_SECONDS = 10.0


@dataclass
class Host:
    """A host of the fleet.

    Attributes:
        number: its number, from 0.
        name: its own name; None before it has connected.
        ends: its ends.
        outlines: by end, how it ended and where its records are; None before all have ended.
        lost: why it is lost; None if it is not.
        started: the time at which it started its senders, by its own clock, epoch nanoseconds.
    """

    number: int
    ends: list[RemoteEnd]
    name: str | None = None
    outlines: dict[str, dict[str, Any]] | None = None
    lost: str | None = None
    started: int | None = None
    channel: Channel | None = field(default=None, repr=False)

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"host {self.number}" + (f" ({self.name})" if self.name else "")

    def send(self, **document: Any) -> None:
        """Send it a document, if it is connected."""
        if self.channel is not None:
            self.channel.send(**document)


class Fleet:
    """Listens for the hosts, ends queues as their senders end, and stops all when one fails."""

    def __init__(
        self,
        signals: SignalWatch,
        listener: socket.socket,
        on_sides: Callable[[int, dict[str, Any]], None] = lambda _host, _sides: None,
    ) -> None:
        """Prepare to listen.

        Args:
            signals: the watch on signals, entered.
            listener: a listening socket.
            on_sides: takes the number of a host and the snapshots of its sides.
        """
        self._signals = signals
        self._listener = listener
        self._listener.setblocking(False)
        self._on_sides = on_sides
        self._token = ""
        self._waiting: list[tuple[Channel, float]] = []
        self._forwarded = 0
        self._drains: list[QueueDrain] = []
        self._queues: dict[int, list[RemoteEnd]] = {}
        self._patience = 0.0
        self._looked = False
        self.hosts: list[Host] = []
        self.stopped: str | None = None
        """Why the senders were stopped early; None if they were not."""
        self.ending: float | None = None
        """When all ends were told to end, by the monotonic clock; None before."""

    def expect(self, jobs: Sequence[HostJob], drain_timeout: float) -> None:
        """Begin to wait for the hosts of ``jobs``."""
        self._token = jobs[0].token
        for job in jobs:
            host = Host(job.number, [])
            host.ends = [RemoteEnd(plan, job.number, host.send) for plan in job.plans]
            self.hosts.append(host)
        for end in self.ends:
            self._queues.setdefault((end.plan.ends or {})["queue"], []).append(end)
        self._patience = jobs[0].plans[0].options.patience
        for ends in self._queues.values():
            sides = [
                [end for end in ends if end.plan.role == role] for role in ("sender", "receiver")
            ]
            # QueueDrain calls of a run only methods that a RemoteEnd has too.
            senders, receivers = (cast("list[ArrowRun]", side) for side in sides)
            self._drains.append(QueueDrain(senders, receivers, drain_timeout))

    @property
    def ends(self) -> list[RemoteEnd]:
        """All ends of all hosts."""
        return [end for host in self.hosts for end in host.ends]

    @property
    def all_ended(self) -> bool:
        """Whether every host has reported how its ends ended, or is lost."""
        return all(host.outlines is not None or host.lost is not None for host in self.hosts)

    @property
    def connected(self) -> int:
        """How many hosts have connected."""
        return sum(host.name is not None for host in self.hosts)

    def poll(self) -> None:
        """Do all that is due; call it several times a second."""
        self._accept()
        for host in self.hosts:
            self._read(host)
        self._forward()
        for end in self.ends:
            if end.failed is not None and self.stopped is None:
                host = self.hosts[end.host]
                self._stop_sending(f"stopped because {end.title} on {host.title} failed")
        if all(end.begun for end in self.ends) or self.stopped is not None:
            self._drain()

    def mark_lost(self, number: int, why: str) -> None:
        """Note that a host is lost, and end all others in order."""
        host = self.hosts[number]
        if host.outlines is not None or host.lost is not None:
            return
        host.lost = why
        for end in host.ends:
            end.mark_gone()
        self.stop_all(f"stopped because {host.title} was lost")

    def stop_all(self, reason: str, signum: int = signal.SIGTERM) -> None:
        """End all ends in order."""
        self.stopped = self.stopped or reason
        self.ending = self.ending or time.monotonic()
        for host in self.hosts:
            host.send(kind="stop", reason=reason, signal=int(signum))

    def close(self) -> None:
        """Close all connections: that ends hosts that still run."""
        for host in self.hosts:
            if host.channel is not None:
                host.channel.close()
        for channel, _ in self._waiting:
            channel.close()
        self._listener.close()

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._waiting.append((Channel(connection), time.monotonic() + _HELLO_SECONDS))
        except BlockingIOError:
            pass
        still = []
        for channel, deadline in self._waiting:
            documents = channel.received()
            if documents:
                self._admit(channel, documents)
            elif channel.closed or time.monotonic() > deadline:
                channel.close()
            else:
                still.append((channel, deadline))
        self._waiting = still

    def _admit(self, channel: Channel, documents: list[dict[str, Any]]) -> None:
        """Take a new host that sends the token; refuse anybody else, and a host that was here."""
        hello, *rest = documents
        number = hello.get("number")
        known = hmac.compare_digest(str(hello.get("token", "")), self._token)
        if not known or not isinstance(number, int) or not 0 <= number < len(self.hosts):
            channel.close()
            return
        host = self.hosts[number]
        if host.name is not None:
            # Spark repeats a failed stage, but the load must not begin again.
            channel.close()
            return
        host.name, host.channel = str(hello.get("name")), channel
        for document in rest:
            self._handle(host, document)

    def _read(self, host: Host) -> None:
        if host.channel is None or host.lost is not None:
            return
        for document in host.channel.received():
            self._handle(host, document)
        if host.channel.closed:
            self.mark_lost(host.number, "its connection ended")

    def _handle(self, host: Host, document: dict[str, Any]) -> None:
        kind = document.get("kind")
        ends = {end.title: end for end in host.ends}
        if kind == "status":
            for title, status in document["ends"].items():
                ends[title].update(status)
            if document["sides"]:
                self._on_sides(host.number, document["sides"])
        elif kind == "started":
            host.started = document["at"]
        elif kind == "ended":
            host.outlines = document["outlines"]
            for end in host.ends:
                end.mark_gone()
            host.send(kind="thanks")
        elif kind == "failed":
            self.mark_lost(host.number, document["reason"])

    def _forward(self) -> None:
        """Forward a signal; a second one ends all arrows at once."""
        if self._signals.count == self._forwarded:
            return
        self._forwarded = self._signals.count
        self.stop_all(self._signals.reason or "", self._signals.signum or signal.SIGTERM)
        if self._forwarded > 1:
            for host in self.hosts:
                host.send(kind="kill")

    def _stop_sending(self, reason: str) -> None:
        """Stop the senders, and the receivers that no drain will end."""
        self.stopped = reason
        for end in self.ends:
            if end.running and (end.plan.role == "sender" or end.control is None):
                end.stop(reason)

    def _drain(self) -> None:
        for ends in self._queues.values():
            self._judge_silence(ends)
        sending = [end for end in self.ends if end.running and end.plan.role == "sender"]
        if not sending and not self._looked:
            self._looked = True
            for host in self.hosts:
                host.send(kind="look")
        for drain in self._drains:
            drain.advance()

    def _judge_silence(self, ends: Sequence[RemoteEnd]) -> None:
        """Stop the ends of a queue that has senders and moves no messages any more."""
        running = [end for end in ends if end.running]
        if not self._patience or not any(end.plan.role == "sender" for end in running):
            return
        if min(end.silence for end in running) > self._patience:
            seconds = f"{self._patience:g} second{'s' * (self._patience != 1)}"
            for end in running:
                end.stop(f"timed out: no transfers for {seconds}", at_fault=True)
