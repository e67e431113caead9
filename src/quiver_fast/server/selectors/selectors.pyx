"""Selectors: their steps in C, and the evaluation of the steps."""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport bsearch, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy

import os
import sys

from quiver_fast.amqp.data_plane cimport (
    AMQP_FINE, AMQP_SECTION_APPLICATION_PROPERTIES, AMQP_SECTION_PROPERTIES, STRING8, STRING32,
    SYMBOL8, SYMBOL32, amqp_fields_t, amqp_read_content, amqp_read_list, amqp_read_map,
    amqp_read_section, amqp_reader, amqp_reader_t, amqp_section, amqp_value_t,
)
from quiver_fast.selectors.selector import HEADERS, PROPERTIES, pieces_of, weight_of
from quiver_fast.server.messages.messages cimport (
    ChainReader, Chunk, Message, chain_close, chain_copy, chain_open, chunk_bytes, message_filled,
    message_new, message_read_header, message_release,
)
from quiver_fast.server.selectors.steps cimport (
    ADD, AMONG, AND, BETWEEN, DIVIDE, EQUAL, IS_NULL, LESS, LESS_EQUAL, LIKE, LITERAL, MORE,
    MORE_EQUAL, MULTIPLY, NAME, NEGATE, NOT, OR, OTHER, PROPERTY_COUNT, REAL, SUBTRACT, TEXT, TRUTH,
    UNEQUAL, UNKNOWN, WHOLE, Code, Filter, Name, Pattern, Piece, Step, Value,
)

cdef extern from "string.h" nogil:
    void *memmem(const void *text, size_t size, const void *piece, size_t piece_size)

include "evaluate.pxi"
include "filter.pxi"
