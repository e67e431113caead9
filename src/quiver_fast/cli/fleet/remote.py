"""What the command and a host tell each other: the connection, the job of a host, its ends."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.arrow.run import Ending
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.pair.ends_plan import EndsPlans
from quiver_fast.errors import UsageError

_READ_SIZE = 1 << 16
_SEND_SECONDS = 5.0
# A longer line is not ours: a host sends a few hundred bytes for each of its ends.
_MOST_BYTES = 64 << 20


class Channel:
    """One end of a connection. Reading does not wait; a peer that is gone closes it."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connected socket."""
        self._socket = connection
        self._socket.settimeout(_SEND_SECONDS)
        # With a thousand hosts some descriptors are too large for select().
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._text = b""
        self.closed = False
        """Whether the peer is gone."""

    def send(self, **document: Any) -> None:
        """Send a document; a peer that does not read for seconds counts as gone."""
        if self.closed:
            return
        try:
            self._socket.sendall(json.dumps(document).encode() + b"\n")
        except OSError:
            self.closed = True

    def received(self) -> list[dict[str, Any]]:
        """Return the documents that have come, without waiting."""
        while not self.closed and self._poll.poll(0):
            try:
                data = self._socket.recv(_READ_SIZE)
            except OSError:
                data = b""
            self._text += data
            self.closed = not data or len(self._text) > _MOST_BYTES
        *lines, self._text = self._text.split(b"\n")
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            self.closed = True
            return []
        return [document for document in found if isinstance(document, dict)]

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self._socket.close()


@dataclass(frozen=True)
class HostJob:
    """The work of one host.

    Attributes:
        token: a secret that a host sends first, to show that it is one; its beginning is part of
            the name of the run's folder on every host.
        driver: the host and the port where the command listens.
        number: the host's number, from 0.
        plans: its arrows, receivers first.
        time_unit: the time unit of their records.
        peer_to_peer: whether its receivers listen.
        work_dir: the folder for records; None for the folder of temporary files.
    """

    token: str
    driver: tuple[str, int]
    number: int
    plans: Sequence[ArrowPlan]
    time_unit: str
    peer_to_peer: bool = False
    work_dir: str | None = None


def host_of(operation: str, number: int, hosts: int, *, peer_to_peer: bool) -> int:
    """Return the host of an end.

    Sender N and receiver N are on one host, so that they have one clock. Peer-to-peer they are on
    neighbours, to measure the network between hosts.
    """
    shift = 1 if peer_to_peer and operation == "send" else 0
    return (number + shift) % hosts


def check_hosts(plans: EndsPlans, hosts: int) -> None:
    """Check that each host has at least one end.

    Raises:
        UsageError: a host has none.
    """
    if max(plans.senders, plans.receivers) < hosts:
        raise UsageError(
            f"{hosts} hosts are more than --senders {plans.senders} and --receivers "
            f"{plans.receivers}: give --hosts, or an end for each host"
        )


def jobs_of(
    plans: EndsPlans, hosts: int, token: str, driver: tuple[str, int], work_dir: str | None
) -> list[HostJob]:
    """Return the work of each host.

    Args:
        plans: the plans of all ends.
        hosts: the number of hosts, checked by :func:`check_hosts`.
        token: see :class:`HostJob`, also for the next two.
        driver: where the command listens.
        work_dir: the folder for records.
    """
    of_host: list[list[ArrowPlan]] = [[] for _ in range(hosts)]
    for operation, count in (("receive", plans.receivers), ("send", plans.senders)):
        for number in range(count):
            host = host_of(operation, number, hosts, peer_to_peer=plans.peer_to_peer)
            of_host[host].append(replace(plans.end(operation, number), verbose=False))
    unit, direct = plans.time_unit, plans.peer_to_peer
    return [
        HostJob(token, driver, number, of_host[number], unit, direct, work_dir)
        for number in range(hosts)
    ]


class RemoteEnd:
    """An end on a host, with the methods of an arrow's run that `QueueDrain` calls."""

    def __init__(self, plan: ArrowPlan, host: int, send: Callable[..., None]) -> None:
        """Begin without any word from the host.

        Args:
            plan: the end's plan.
            host: the number of its host.
            send: sends a document to the host.
        """
        self.plan = plan
        self.host = host
        self._send = send
        self._running: bool | None = None
        self.count = self.rejected = 0
        self.silence = 0.0
        self.failed: str | None = None
        """Why it failed by itself; None if it did not."""
        self.control: RemoteEnd | None = self if plan.controlled else None

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.plan.title

    @property
    def begun(self) -> bool:
        """Whether it was started."""
        return self._running is not None

    @property
    def running(self) -> bool:
        """Whether it runs, or will be started."""
        return self._running is not False

    @property
    def transferred(self) -> int:
        """The number of messages so far."""
        return self.count

    @property
    def last_snapshot(self) -> Snapshot:
        """A snapshot that has its count."""
        return Snapshot(count=self.count)

    def snapshot(self) -> Snapshot:
        """Return :attr:`last_snapshot`: the host reports without being asked."""
        return self.last_snapshot

    def ending(self) -> Ending:
        """Return how it ended, as far as its host tells."""
        return Ending(self.failed is None, self.failed, at_fault=self.failed is not None)

    def update(self, status: dict[str, Any]) -> None:
        """Take the host's report of it."""
        self._running = bool(status["running"])
        self.count, self.silence = int(status["count"]), float(status["silence"])
        self.rejected = int(status["rejected"])
        self.failed = status["failed"]

    def mark_gone(self) -> None:
        """Note that its host was lost, or never started it."""
        self._running = False

    def tolerate_silence(self) -> None:
        """Do nothing: its host never judges silence."""

    def sent(self, count: int) -> None:
        """Tell a receiver that its queue has ``count`` messages of the run."""
        self._send(kind="sent", ends=[self.title], count=count)

    def stop(self, reason: str = "", _signum: int = 0, *, at_fault: bool = False) -> None:
        """Tell it to end; without a reason a receiver ends in order.

        Its host has arrows that ignore Ctrl-C, and chooses the signal.
        """
        how: dict[str, Any] = {"kind": "drained"}
        if reason:
            how = {"kind": "stop", "reason": reason, "at_fault": at_fault}
        self._send(ends=[self.title], **how)

    def kill(self) -> None:
        """End it at once."""
        self._send(kind="kill", ends=[self.title])
