"""The messages of a sending end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from quiver_fast.body_sizes import largest_body
from quiver_fast.records.formats import IDS_OF_AN_END

if TYPE_CHECKING:
    from collections.abc import Callable

    from quiver_fast.arrow.amqp.template import MessageTemplate
    from quiver_fast.arrow.contract import ArrowConfig


def make_template(
    config: ArrowConfig, end: int | None = None, reply_to: str = ""
) -> MessageTemplate:
    """Return the message that an end sends.

    Args:
        config: the configuration of the arrow.
        end: the number of the end, among many; None where there is one.
        reply_to: the address for replies; empty for none.
    """
    from quiver_fast.arrow.amqp.message_fields import MessageFields
    from quiver_fast.arrow.amqp.template import ClassTemplate, MessageTemplate, MixedTemplate
    from quiver_fast.arrow.run.sizes import Sizes

    kind: Callable[..., MessageTemplate]
    kind, sizes, mix = MessageTemplate, None, config.properties
    # The last two are no options.
    fields: dict[str, Any] = {name: getattr(config, name) for name in MessageFields._fields[:-2]}
    fields["reply_to"] = reply_to
    fields["properties"] = {} if mix is None else mix.fixed
    streams: list[str] | None = None
    if mix is not None and config.stream_filter:
        streams = mix.values_of(mix.name_of(config.stream_filter))
        fields["stream_value"] = streams[0]
    first_id = config.first_id + (end or 0) * IDS_OF_AN_END
    if config.body_file is None and not isinstance(config.body_size, int):
        # The number of the end is the seed.
        kind, sizes = MixedTemplate, Sizes(config.body_size, first_id // IDS_OF_AN_END)
    if mix is not None and mix.differs:
        kind = partial(ClassTemplate, mix=mix, stream_values=streams)
    return kind(
        largest_body(config.body_size),
        with_id=config.sets_ids,
        id_prefix=config.id_prefix,
        first_id=first_id,
        streaming=config.streaming,
        fields=MessageFields(**fields),
        content=config.body_file,
        sizes=sizes,
    )
