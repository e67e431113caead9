"""A short workload with everything that a store does, and what must be left of it."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path

from proton import Delivery
from support.durable_client import TRANSACTIONAL, DurableClient, LostError, encoded
from support.remote import request

from quiver_fast.queuefile.tailer import Tailer

SECONDS = 60.0
SENT = 4
# In the transaction, to each of the two queues.
COMMITTED = (100, 101)
SUBMITTED = (b"submit: first", b"submit: second")


@dataclass
class Account:
    """The server's outcomes for the workload of a number."""

    name: str
    accepted: set[int] = field(default_factory=set)
    # Received and accepted outside the transaction, and in it.
    removed: int | None = None
    removed_in_transaction: int | None = None
    # None: nobody knows.
    committed: bool | None = False
    submitted: int = 0
    # Nothing failed at all.
    whole: bool = False

    @property
    def queues(self) -> tuple[str, str]:
        return f"{self.name}-a", f"{self.name}-b"

    def judge(self, first: list[int], second: list[int]) -> None:
        """Compare with what the two queues hold after a restart.

        Raises:
            AssertionError: something that was accepted is lost, or half of a transaction is there.
        """
        assert len(set(first)) == len(first), f"{self.name}: twice: {first}"
        assert first == sorted(first), f"{self.name}: out of order: {first}"
        left = self.accepted - {self.removed}
        places = zip(COMMITTED, (first, second), strict=True)
        inside = {number: number in place for number, place in places}
        assert len(set(inside.values())) == 1, f"{self.name}: half a transaction: {inside}"
        is_there = inside[COMMITTED[0]]
        if self.committed is not None:
            assert is_there == self.committed, f"{self.name}: {is_there}, not {self.committed}"
        if is_there:
            assert self.removed_in_transaction not in first, f"{self.name}: removed but there"
            left -= {self.removed_in_transaction}
        assert left <= set(first), f"{self.name}: lost: {sorted(left - set(first))}"
        assert set(first) <= {*range(SENT), COMMITTED[0]}
        assert set(second) <= {COMMITTED[1]}

    def judge_entries(self, store: Path) -> None:
        """Compare with what the remote queue's files hold.

        Raises:
            AssertionError: an entry that was answered is lost.
        """
        folder = store / f"{self.name}-c"
        found = entries_of(folder) if any(folder.glob("*.cq4")) else []
        wanted = [each.split(b" ", 1)[1] for each in SUBMITTED]
        assert found[: self.submitted] == wanted[: self.submitted], f"{self.name}: {found}"


def entries_of(folder: Path) -> list[bytes]:
    tailer, found = Tailer(folder), []
    while (entry := tailer.read()) is not None:
        found.append(entry[1])
    return found


def run_workload(port: int, csp_port: int, name: str) -> Account:
    """Send, receive, commit and submit; note what the server answers, whatever it does."""
    account = Account(name)
    for part in (send_and_receive, submit):
        try:
            part(csp_port if part is submit else port, account)
        except (LostError, OSError, EOFError):
            continue
    account.whole = (
        account.accepted == set(range(SENT))
        and account.removed is not None
        and account.committed is True
        and account.submitted == len(SUBMITTED)
    )
    return account


def send_and_receive(port: int, account: Account) -> None:
    first = account.queues[0]
    with DurableClient(port) as client:
        sender = client.sender(first)
        sent = [client.send(sender, encoded(number)) for number in range(SENT)]
        try:
            for number, delivery in enumerate(sent):
                if client.outcome(delivery) == Delivery.ACCEPTED:
                    account.accepted.add(number)
        finally:
            # Outcomes may have come before the loss.
            accepted = (n for n, d in enumerate(sent) if d.remote_state == Delivery.ACCEPTED)
            account.accepted |= set(accepted)
        if account.accepted != set(range(SENT)):
            return
        receiver = client.receiver(first, credit=2)
        account.removed, delivery = client.take_number(receiver)
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        client.sync()
        commit(client, client.take_number(receiver), account)


def commit(client: DurableClient, taken: tuple[int, Delivery], account: Account) -> None:
    """Do the transaction: a message to each queue, and the end of one that was received."""
    coordinator = client.coordinator()
    transaction = client.declare(coordinator)
    senders = [client.sender(queue) for queue in account.queues]
    sent = [
        client.send_in(transaction, sender, encoded(number))
        for sender, number in zip(senders, COMMITTED, strict=True)
    ]
    account.removed_in_transaction, delivery = taken
    client.accept_in(transaction, delivery)
    # What the server did not take is not in the transaction: then none of it shall be.
    fail = any(client.outcome(each) != TRANSACTIONAL for each in sent)
    account.committed = False if fail else None
    account.committed = client.discharge(coordinator, transaction, fail=fail)


def submit(port: int, account: Account) -> None:
    """Submit entries to a remote queue, one after the other."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as sock:
        for tid, event in enumerate(SUBMITTED):
            sock.sendall(request(event, csp=f"//h/{account.name}-c#appender", tid=tid))
            if b"index: " not in b"".join(read_document(sock) for _ in range(2)):
                return
            account.submitted += 1


def read_document(sock: socket.socket) -> bytes:
    (header,) = struct.unpack("<I", read(sock, 4))
    return read(sock, header & 0x3FFFFFFF)


def read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
