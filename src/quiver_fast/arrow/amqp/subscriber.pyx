"""A receiver with a durable subscription, which a topic keeps for it while it is away."""

from quiver_fast.arrow.amqp.receiver cimport Receiver
from quiver_fast.arrow.run.course cimport Limits
from quiver_fast.proton.libproton cimport (
    PN_DELIVERIES, PN_EXPIRE_NEVER, pn_link_close, pn_link_source, pn_terminus_set_durability,
    pn_terminus_set_expiry_policy, pn_terminus_t,
)


cdef class Subscriber(Receiver):
    """Receive by the subscription of this container and this link's name (part 3.5.3).

    Args:
        keep: the subscription stays when the run ends; else the link is closed, which ends it.
        options: see `Receiver`.
    """

    cdef bint keep

    def __init__(self, connection: "Connection", writer: "RecordWriter", limits: Limits, *,
                 keep: bool, **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        self.keep = keep

    def prepare(self) -> None:
        cdef pn_terminus_t *source
        Receiver.prepare(self)
        source = pn_link_source(self.link)
        pn_terminus_set_durability(source, PN_DELIVERIES)
        pn_terminus_set_expiry_policy(source, PN_EXPIRE_NEVER)

    def run(self) -> None:
        """See `Receiver.run`."""
        Receiver.run(self)
        # The end of the session only detaches the link.
        if not self.keep:
            pn_link_close(self.link)
