"""The embedded broker and router: one module, whose parts are in the folders beside it."""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EAGAIN, ECONNABORTED, EINTR, EIO, EMFILE, ENFILE, ENOMEM, errno
from libc.stdint cimport (
    INT64_MAX, SIZE_MAX, UINT64_MAX, int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t,
    uint64_t, uint8_t,
)
from libc.stdio cimport snprintf
from libc.stdlib cimport bsearch, calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memmove, memset, strcmp, strcpy, strlen, strncmp
from posix.fcntl cimport posix_fallocate
from posix.unistd cimport close, pread, pwrite

import os
import select
import socket
import struct
import sys
import tempfile
import threading
import uuid
from dataclasses import dataclass
from functools import partial

from quiver_fast import __version__
from quiver_fast.amqp.data_plane cimport *
from quiver_fast.amqp.tls cimport (
    TLS_AGAIN, TLS_FAILED, iovec, tls_alert, tls_close, tls_events, tls_failure, tls_flush,
    tls_free, tls_has_input, tls_lacks_certificate, tls_read, tls_refused, tls_t, tls_waiting,
    tls_write,
)
from quiver_fast.arguments import endpoint
from quiver_fast.errors import OutputError, QuiverError, UsageError, one_line
from quiver_fast.loop.balance cimport (
    CONNECTION, DELIVERY, ENTRY, LINK, MESSAGE, STREAM, freed, made, made as count_made,
)
from quiver_fast.loop.heap cimport Heap, heap_first, heap_free, heap_put, heap_take
from quiver_fast.loop.memory cimport OVER_LIMIT, Holder, account, hold, holder_add, holder_end
from quiver_fast.loop.opener cimport Opener
from quiver_fast.loop.reactor cimport Hook, Reactor, Watch, watch_add, watch_change, watch_remove
from quiver_fast.loop.spares cimport spares_free, spares_give, spares_take
from quiver_fast.loop.syncer cimport SyncJob, Syncer, await_event, event_descriptor, raise_event
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport *
from quiver_fast.proton.libsys cimport *
from quiver_fast.queuefile.appender cimport DURABLE_NEVER, Appender
from quiver_fast.queuefile.cyclefile cimport cycle_cut, get32, put32, system_page
from quiver_fast.queuefile.directory import SUBSCRIPTION, QueueDirectory
from quiver_fast.queuefile.folders import folder_of
from quiver_fast.queuefile.live cimport (
    MARK_BEGIN, MARK_COMMIT, MARK_NONE, MARK_ROLLBACK, LiveEntries, Mark, hold_file,
    let_file_go, write_decision, write_mark, write_prepared, write_removals, write_state,
)
from quiver_fast.queuefile.live import was_committed
from quiver_fast.queuefile.lock import QueueInUseError
from quiver_fast.queuefile.reserve cimport Reserve, accept_connection, reserve_begin, reserve_end
from quiver_fast.queuefile.reserve import NoDescriptorsError
from quiver_fast.queuefile.retention cimport Retention
from quiver_fast.queuefile.tailer cimport TAILER_FAILED, TAILER_FOUND, Tailer
from quiver_fast.resolving import resolve, wire_name
from quiver_fast.security.security cimport (
    SaslExchange, Security, conclude_sasl, peer_is_loopback, peer_network, resume_sasl,
    sasl_due,
)
from quiver_fast.selectors.property_steps import (
    APPLICATION_PROPERTIES_FILTER, PROPERTIES_FILTER, kind_of, steps_of,
)
from quiver_fast.selectors.selector import (
    HEADERS, LONG_MAX, PROPERTIES, Step, parse, pieces_of, weight_of,
)
from quiver_fast.server.addresses import subscription_files
from quiver_fast.server.addresses.refusal import Refusal
from quiver_fast.server.addresses.subscription_files import Description
from quiver_fast.server.config import Target
from quiver_fast.sockets import Race
from quiver_fast.words import counted

# Structures first, because they point to one another.
include "messages/structures.pxi"
include "selectors/structures.pxi"
include "model/structures.pxi"
include "addresses/structures.pxi"

# Then functions, from the lowest folder to the highest: a part calls only parts above it here, and
# those of its own folder.
include "messages/annotations.pxi"
include "messages/message.pxi"
include "messages/chain.pxi"
include "messages/route.pxi"
include "messages/contents.pxi"
include "messages/sections.pxi"

include "selectors/evaluate.pxi"
include "selectors/filter.pxi"

include "model/lists.pxi"
include "model/container.pxi"
include "model/timer.pxi"
include "model/transaction.pxi"

include "connections/capability.pxi"
include "connections/names.pxi"
include "connections/peer.pxi"
include "connections/links.pxi"
include "connections/credit.pxi"

include "nodes/barring.pxi"
include "nodes/lane.pxi"
include "nodes/browser.pxi"
include "nodes/selective.pxi"
include "nodes/queue.pxi"

include "streams/pool.pxi"
include "streams/stream.pxi"
include "streams/trunk.pxi"
include "streams/streamlink.pxi"

include "durable/restorer.pxi"
include "durable/unsynced.pxi"
include "durable/shut.pxi"
include "durable/store.pxi"

include "addresses/broker.pxi"
include "addresses/sourcefilter.pxi"
include "addresses/deferred.pxi"
include "addresses/lifetime.pxi"
include "addresses/container_ids.pxi"
include "addresses/subscription.pxi"
include "addresses/address.pxi"
include "addresses/waiting.pxi"

include "transfer/outcome.pxi"
include "transfer/peer_timer.pxi"
include "transfer/spill.pxi"
include "transfer/memory_holder.pxi"
include "transfer/outlet_parts.pxi"
include "transfer/outlet.pxi"
include "transfer/dispatch.pxi"
include "transfer/forwarding.pxi"
include "transfer/passage.pxi"
include "transfer/inlet_parts.pxi"
include "transfer/inlet.pxi"
include "transfer/unused_queues.pxi"

include "transactions/twophase.pxi"
include "transactions/coordinator.pxi"

include "protocol/attach.pxi"
include "protocol/refusals.pxi"
include "protocol/events.pxi"
include "protocol/admission.pxi"
include "protocol/connector.pxi"
include "protocol/tls_reports.pxi"
include "protocol/listener.pxi"

include "turn.pxi"
include "readings.pxi"
