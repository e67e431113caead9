"""Queues and topics: entries in lanes, and their consumers."""

from libc.stdint cimport SIZE_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memmove

from quiver_fast.loop.balance cimport ENTRY, freed, made
from quiver_fast.loop.heap cimport heap_first, heap_free, heap_put, heap_take
from quiver_fast.server.messages.messages cimport (
    STREAM_HIGH, Chain, Chunk, Message, chain_of, message_release,
)
from quiver_fast.server.model.labels cimport SINCE_SHIFT, queue_unlabel
from quiver_fast.server.model.lists cimport list_push, list_remove
from quiver_fast.server.model.marks cimport inlet_wake, queue_dirty
from quiver_fast.server.model.structures cimport (
    Consumer, Container, Entry, Inlet, Lane, Queue, Timer,
)
from quiver_fast.server.model.timer cimport timer_advance, timer_clear
from quiver_fast.server.selectors.selectors cimport filter_matches, filter_release

include "barring.pxi"
include "lane.pxi"
include "browser.pxi"
include "selective.pxi"
include "queue.pxi"
