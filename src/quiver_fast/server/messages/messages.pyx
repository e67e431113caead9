"""Messages as they came: their chunks, headers, chains in a file, routes and annotations."""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EIO, EMFILE, ENFILE, ENOMEM
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

import os
import sys

from quiver_fast.errors import one_line
from quiver_fast.amqp.data_plane cimport (
    AMQP_DECODE_ERROR, AMQP_FINE, AMQP_MORE, AMQP_SECTION_APPLICATION_PROPERTIES, AMQP_SECTION_DATA,
    AMQP_SECTION_DELIVERY_ANNOTATIONS, AMQP_SECTION_FOOTER, AMQP_SECTION_HEADER,
    AMQP_SECTION_MESSAGE_ANNOTATIONS, AMQP_SECTION_NONE, AMQP_SECTION_PROPERTIES,
    AMQP_SECTION_SEQUENCE, AMQP_SECTION_VALUE, ARRAY8, BINARY32, BINARY8, BOOLEAN, DESCRIBED,
    FALSE_, LIST0, LIST32, LIST8, MAP32, MAP8, NULL_, SMALL_UINT, SMALL_ULONG, STRING32, STRING8,
    SYMBOL32, SYMBOL8, TIMESTAMP, TRUE_, UBYTE, UINT, UINT0, ULONG, ULONG0, amqp_bytes_t,
    amqp_fault, amqp_fields_t, amqp_hold_t, amqp_read_bare, amqp_read_content, amqp_read_list,
    amqp_read_map, amqp_read_section, amqp_read_value, amqp_reader, amqp_reader_t, amqp_section,
    amqp_value_t,
)
from quiver_fast.loop.balance cimport MESSAGE, STREAM, freed, made
from quiver_fast.loop.spares cimport spares_give, spares_take
from quiver_fast.proton.libsys cimport MADV_DONTNEED, madvise, realtime_ns
from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.cyclefile cimport cycle_cut, get32, put32
from quiver_fast.queuefile.reserve cimport Reserve, reserve_begin, reserve_end
from quiver_fast.queuefile.retention cimport Retention
from quiver_fast.queuefile.tailer cimport TAILER_FAILED, TAILER_FOUND, Step, Tailer

include "annotations.pxi"
include "message.pxi"
include "chain.pxi"
include "route.pxi"
include "contents.pxi"
include "sections.pxi"
