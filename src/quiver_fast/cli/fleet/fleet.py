"""The command's view of all hosts during the run: which are there, their progress, losses."""

from __future__ import annotations

import hmac
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.snapshots import Snapshot, join
from quiver_fast.cli.arrow.supervisor import SNAPSHOT_PERIOD, OrderlyEnd, SignalWatch
from quiver_fast.cli.fleet.remote import Channel, HostJob, RemoteEnd
from quiver_fast.cli.pair.ends_drain import QueueDrain
from quiver_fast.cli.pair.run import ROLES
from quiver_fast.wall_clock import WallClock

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
        self._end = OrderlyEnd()
        self._told = False
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
            sides = [[end for end in ends if end.plan.role == role] for role in ROLES]
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
        self._obey()
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

    def stop_all(self, reason: str) -> None:
        """End all ends in order."""
        self._end.begin(reason)

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

    def _obey(self) -> None:
        """Go on with the end that a signal or :meth:`stop_all` began."""
        self._end.advance([end for end in self.ends if end.running], self._signals)
        if self._end.reason is None:
            return
        self.stopped = self.stopped or self._end.reason
        self.ending = self.ending or time.monotonic()
        if not self._told and not all(end.begun for end in self.ends):
            # Hosts must not start more of them.
            self._told = True
            for host in self.hosts:
                host.send(kind="stop", reason=self._end.reason)

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
            for end in running:
                end.stop(running[0].plan.options.silence_text, at_fault=True)


class FleetRows:
    """Adds up the snapshots of all hosts to a row of the live table, every two seconds."""

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._hosts: dict[int, dict[str, Snapshot]] = {}
        self._fresh: dict[int, dict[str, Snapshot]] = {}
        self._next = 0.0

    def add(self, host: int, sides: dict[str, Any]) -> None:
        """Take a host's snapshots of its sides."""
        told = {role: Snapshot(**fields) for role, fields in sides.items()}
        self._fresh[host] = told
        self._hosts[host] = self._hosts.get(host, {}) | told

    def due(self) -> dict[str, Snapshot]:
        """Return the row that is due, by role; empty for none."""
        now, row = time.monotonic(), dict[str, Snapshot]()
        if not self._fresh or now < self._next:
            return row
        self._next = now + SNAPSHOT_PERIOD
        for role in ROLES:
            fresh = [told[role] for told in self._fresh.values() if role in told]
            others = [
                told[role]
                for host, told in self._hosts.items()
                if role in told and role not in self._fresh.get(host, {})
            ]
            if fresh:
                row[role] = replace(join(fresh, others), timestamp=self._clock.now_ms())
        self._fresh = {}
        return row
