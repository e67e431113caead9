"""The two ends of requests and replies: requesters, with a place for their replies; responders."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

from quiver_fast.arrow.amqp.replies import Replies
from quiver_fast.arrow.amqp.requester import Requester
from quiver_fast.arrow.amqp.responder import Responder
from quiver_fast.body_sizes import largest_body
from quiver_fast.management.addresses import QUEUES, has_paths
from quiver_fast.records.formats import UNITS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from quiver_fast.arrow.amqp.connection import Connection
    from quiver_fast.arrow.amqp.template import MessageTemplate
    from quiver_fast.arrow.contract import ArrowConfig

# Seconds that a broker may take to make a queue.
_TIMEOUT = 10.0
_MICROSECONDS = 10**6


def request_maker(config: ArrowConfig) -> Callable[..., Callable[..., Requester]]:
    """Return a function that returns the class of a requester, given its connection.

    All requesters of the process count their replies together.

    Args:
        config: the configuration of the arrow.
    """
    replies = Replies(config.reply_timeout * UNITS_PER_SECOND[config.time_unit] // _MICROSECONDS)

    def make(
        connection: Connection, make_template: Callable[..., MessageTemplate]
    ) -> Callable[..., Requester]:
        return partial(
            Requester,
            replies=replies,
            replies_from=_queue_for_replies(connection),
            id_prefix=config.id_prefix,
            window=config.credit_window,
            make_template=lambda address: make_template(reply_to=address),
        )

    return make


def responder(config: ArrowConfig) -> Callable[..., Responder]:
    """Return the class of a responder, whose replies are as large as the largest request."""
    return partial(Responder, reply_size=largest_body(config.body_size))


def _queue_for_replies(connection: Connection) -> str:
    """Return the address of a queue of the connection's own; empty where nodes are dynamic.

    RabbitMQ 4.0 has no dynamic nodes: an exclusive queue goes with its connection.

    Raises:
        QuiverError: the broker refused to make it.
    """
    peer = connection.identity()
    if not has_paths(str(peer["product"]), str(peer["version"])):
        return ""
    from quiver_fast.management.rabbitmq import RabbitQueues

    address = f"{QUEUES}quiver-replies-{secrets.token_hex(8)}"
    RabbitQueues(connection, _TIMEOUT).make_exclusive(address)
    return address
