"""The coordinator, and the two phases of a durable commit."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_ACCEPTED, AMQP_CODE_DECLARE, AMQP_CODE_DISCHARGE, AMQP_CODE_NONE, AMQP_CODE_RELEASED,
    AMQP_FINE, AMQP_SECTION_VALUE, BOOLEAN, NULL_, TRUE_, amqp_code, amqp_delivery_drop,
    amqp_delivery_read, amqp_delivery_say, amqp_delivery_say_declared, amqp_delivery_say_modified,
    amqp_delivery_say_rejected, amqp_delivery_settle, amqp_delivery_t, amqp_fields_t,
    amqp_plane_credit, amqp_read_content, amqp_read_descriptor, amqp_read_list, amqp_read_section,
    amqp_reader, amqp_reader_t, amqp_value_t,
)
from quiver_fast.proton.libproton cimport (
    PN_MODIFIED, PN_RELEASED, pn_link_remote_source, pn_terminus_outcomes,
)
from quiver_fast.queuefile.live cimport (
    MARK_BEGIN, MARK_COMMIT, MARK_NONE, MARK_ROLLBACK, hold_file, let_file_go, write_decision,
    write_mark, write_prepared, write_removals,
)
from quiver_fast.server.addresses.addresses cimport publish, spread
from quiver_fast.server.connections.connections cimport (
    credit_of, delivery_say, is_attached, link_refuse, may_reject,
)
from quiver_fast.server.durable.durable cimport (
    Store, accept_later, flush_removals, forget_pending, is_stored, mark_dirty, note_message,
    report, store_append, write_owed,
)
from quiver_fast.server.model.lists cimport list_push, list_remove
from quiver_fast.server.model.marks cimport inlet_wake, peer_dirty
from quiver_fast.server.model.roles cimport INLET
from quiver_fast.server.model.structures cimport (
    Container, Coordinator, Inlet, Link, Peer, Queue, Session, Transaction, Work,
)
from quiver_fast.server.model.transaction cimport (
    TRANSACTIONAL_STATE, delivery_hold, read_state, take_id, transaction_find, transaction_free,
    transaction_new,
)
from quiver_fast.server.transfer.transfer cimport apply_outcome, queue_left, return_entry, work_said

include "twophase.pxi"
include "coordinator.pxi"
