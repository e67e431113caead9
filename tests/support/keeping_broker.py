"""A broker of one queue that keeps messages back, or answers a commit late."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from proton import Endpoint, Message, Terminus

from support.scripted_peer import DISCHARGE, Coordinator, Event, settle


class KeepingBroker(Coordinator):
    """Gives the messages of senders to receivers, in order, and answers their drains.

    Args:
        keeps: The numbers (from 1) of messages that it accepts, and gives to nobody.
        commits_late: It commits after it has answered a drain of the queue.
        drains: It answers drains.
    """

    def __init__(
        self, *, keeps: Container[int] = (), commits_late: bool = False, drains: bool = True
    ) -> None:
        super().__init__()
        self.keeps, self.commits_late, self.drains = keeps, commits_late, drains
        self.queue: list[Message] = []
        self.drained = 0
        self.outcomes: list[Any] = []
        self._taken: dict[bytes, list[Message]] = {}
        self._receivers: list[Any] = []
        self._waiting: list[tuple[Any, bytes]] = []

    def on_link_opened(self, event: Event) -> None:
        super().on_link_opened(event)
        if event.link.is_sender:
            self._receivers.append(event.link)

    def on_message(self, event: Event) -> None:
        if event.link.remote_target.type == Terminus.COORDINATOR:
            super().on_message(event)
            return
        number = len(self.messages) + 1
        if event.delivery.remote_state:
            super().on_message(event)
            transaction = bytes(event.delivery.remote.data[0])
            place = self._taken.setdefault(transaction, [])
        else:
            self.messages.append(event.message)
            settle(event.delivery, "accepted")
            place = self.queue
        if number not in self.keeps:
            place.append(event.message)
        self._give()

    def on_delivery(self, event: Event) -> None:
        delivery = event.delivery
        if delivery.link.is_sender and delivery.updated and not delivery.remote.data:
            self.outcomes.append(delivery.remote_state)
            delivery.settle()
        else:
            super().on_delivery(event)

    def control(self, delivery: Any, body: Any) -> None:
        fields = list(body.value)
        commits = body.descriptor in ("amqp:discharge:list", DISCHARGE)
        if not commits or bytes(fields[0]) not in self._taken:
            super().control(delivery, body)
            return
        self._waiting.append((delivery, bytes(fields[0])))
        if self.drained or not self.commits_late:
            self._commit()

    def _commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        for delivery, transaction in waiting:
            self.queue += self._taken.pop(transaction)
            # A sender may not have waited for it.
            if delivery.link.state & Endpoint.REMOTE_ACTIVE:
                settle(delivery, "accepted")
        self._give()

    def on_sendable(self, event: Event) -> None:
        self._give()

    def on_link_flow(self, event: Event) -> None:
        link = event.link
        if not link.is_sender:
            return
        self._give()
        if self.drains and link.drain_mode and link.credit:
            link.drained()
            self.drained += 1
            self._commit()

    def _give(self) -> None:
        """Send what receivers have credit for."""
        for link in self._receivers:
            while self.queue and link.credit > 0 and self.link_is_up(link):
                self.sent += 1
                link.delivery(str(self.sent))
                link.stream(self.queue.pop(0).encode())
                link.advance()
