"""What is in the files of a queue: messages, their states, and how they come back."""

from libc.errno cimport EAGAIN
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset
from posix.unistd cimport close

import os
import sys

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_ACCEPTED, AMQP_CODE_MODIFIED, amqp_deliveries_settle,
)
from quiver_fast.errors import OutputError, QuiverError, one_line
from quiver_fast.loop.syncer cimport SyncJob, Syncer
from quiver_fast.proton.libsys cimport realtime_ns
from quiver_fast.queuefile.appender cimport DURABLE_NEVER, Appender
from quiver_fast.queuefile.live cimport (
    MARK_NONE, LiveEntries, let_file_go, write_mark, write_removals, write_state,
)
from quiver_fast.queuefile.reserve cimport Reserve
from quiver_fast.queuefile.retention cimport Retention
from quiver_fast.queuefile.tailer cimport Tailer
from quiver_fast.server.messages.messages cimport (
    HEADER_READ, RAW_HEAD, STREAM_SIZE, Chain, ChainReader, Chunk, HeaderResult, Message, Part,
    Span, chain_close, chain_commit, chain_grown, chain_hold, chain_new, chain_of, chain_open,
    chain_read, chain_write, chunk_bytes, is_raw, is_reference, is_want, message_drain,
    message_filled, message_new, message_read_stored, message_release, message_space, note_part,
    read_part,
)
from quiver_fast.server.model.marks cimport inlet_wake, peer_dirty, queue_dirty
from quiver_fast.server.model.roles cimport INLET
from quiver_fast.server.model.structures cimport (
    Container, Entry, Inlet, Link, Pending, Queue, Waiter,
)
from quiver_fast.server.nodes.nodes cimport COUNT_BITS, entry_drop, queue_acquire, queue_append

include "restorer.pxi"
include "unsynced.pxi"
include "shut.pxi"
include "store.pxi"
