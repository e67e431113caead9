"""The endpoint of an arrow at a remote queue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from quiver_fast.arrow.csp.channel import Channel
from quiver_fast.arrow.csp.receiver import Receiver
from quiver_fast.arrow.csp.sender import MixedSender, Sender
from quiver_fast.arrow.run.sizes import Sizes
from quiver_fast.body_sizes import largest_body
from quiver_fast.records.formats import IDS_OF_AN_END

if TYPE_CHECKING:
    from collections.abc import Callable

    from quiver_fast.arrow.contract import ArrowConfig
    from quiver_fast.arrow.run.course import Limits
    from quiver_fast.records.writer import RecordWriter


def make_remote_endpoint(
    config: ArrowConfig, writer: RecordWriter, limits: Limits, timeout: float
) -> Sender | Receiver:
    """Connect to a queue server, and return the sending or receiving end.

    Args:
        config: the configuration of the arrow.
        writer: where the records go.
        limits: when to stop.
        timeout: seconds that the server may take.

    Raises:
        QuiverError: the server cannot be reached.
    """
    channel = Channel(config.host, config.port, timeout, limits.control)
    if not config.sends:
        return Receiver(
            channel,
            writer,
            limits,
            queue=config.path,
            window=config.credit_window,
            id_prefix=config.id_prefix,
            with_ids=config.with_ids,
            from_end=config.tail_from == "end",
            time_unit=config.time_unit,
        )
    make: Callable[..., Sender] = Sender
    if not isinstance(config.body_size, int):
        sizes = Sizes(config.body_size, config.first_id // IDS_OF_AN_END)
        make = partial(MixedSender, sizes=sizes)
    return make(
        channel,
        writer,
        limits,
        queue=config.path,
        body=config.body_file or b"x" * largest_body(config.body_size),
        window=config.credit_window,
        id_prefix=config.id_prefix,
        with_ids=config.with_ids,
        settlement=config.settlement,
        time_unit=config.time_unit,
    )
