"""A peer that gives credit back more often than others."""

from __future__ import annotations

from proton import Sender

from support.scripted_peer import Event, ScriptedPeer


class Pages(ScriptedPeer):
    """ActiveMQ Classic: gives the rest of the credit back after each page of its queue."""

    page = 5

    def on_sendable(self, event: Event) -> None:
        """Send nothing but when a drain asks for it."""

    def on_link_flow(self, event: Event) -> None:
        sender = event.link
        if not (sender.is_sender and sender.drain_mode and sender.credit):
            return
        all_that_is_there = self.to_send
        self.to_send = min(self.sent + self.page, all_that_is_there)
        super().on_sendable(PageEvent(sender))
        self.to_send = all_that_is_there
        sender.drained()


class PageEvent:
    """As much of an event as a peer looks at when it sends."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
