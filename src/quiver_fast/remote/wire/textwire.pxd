# Values of the text wire: checked in one pass over borrowed bytes, without allocation.

from libc.stdint cimport int64_t

from quiver_fast.remote.wire.scalars cimport Scan

# A piece of borrowed bytes.
cdef struct Slice:
    const char *start
    size_t size

# The result of scan_value(): one value. All pointers are into the scanned text.
cdef struct Value:
    const char *start       # its text, trimmed; with its tag
    const char *end
    # Number of blanks that the stored form adds after tags (the RFC's `!tag{`).
    size_t gaps
    # A plain top-level scalar that other readers would cut is stored in quotes.
    bint cut
    const char *scalar      # the start of that scalar
    # The base64 of a top-level `!!binary`, without tag and quotes; else start is NULL.
    Slice base64
    bint missing            # there is no value at all
    const char *error       # NULL, or the reason why it is no value

cdef bint scan_value(const char *text, size_t size, Value *value) noexcept nogil
cdef bint is_stored_form(const char *text, size_t size) noexcept nogil
cdef Slice text_of(const char *entry, size_t size) noexcept nogil
cdef size_t stored_size(const Value *value) noexcept nogil
cdef void store_value(const Value *value, char *out) noexcept nogil

cdef bint is_empty_argument(const Value *value) noexcept nogil
cdef bint open_map(const Value *value, Scan *scan) noexcept nogil
cdef int next_pair(Scan *scan, Slice *key, Slice *value) noexcept nogil

cdef Slice unquoted(Slice text) noexcept nogil
cdef bint equals(Slice text, const char *word) noexcept nogil
cdef bint parse_int64(Slice text, int64_t *number) noexcept nogil
