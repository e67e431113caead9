"""A selector in the filter set of a receiver's source (AMQP 1.0 part 3.5.8, as JMS maps it)."""

from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from quiver_fast.proton.libproton cimport (
    PN_MAP, PN_SYMBOL, PN_ULONG, pn_bytes, pn_bytes_t, pn_data_clear, pn_data_enter, pn_data_exit,
    pn_data_get_symbol, pn_data_get_ulong, pn_data_is_described, pn_data_next,
    pn_data_put_described, pn_data_put_map, pn_data_put_string, pn_data_put_symbol,
    pn_data_rewind, pn_data_t, pn_data_type, pn_terminus_filter, pn_terminus_t,
)

cdef bytes KEY = b"selector"
cdef const char *DESCRIPTOR = b"apache.org:selector-filter:string"
cdef size_t DESCRIPTOR_SIZE = 33
cdef uint64_t DESCRIPTOR_CODE = 0x0000468C00000004


cdef int ask_for_selector(pn_terminus_t *source, bytes selector) except -1:
    """Have our source ask for messages that ``selector``, UTF-8, is true of."""
    cdef pn_data_t *data = pn_terminus_filter(source)
    pn_data_clear(data)
    pn_data_put_map(data)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(len(KEY), KEY))
    pn_data_put_described(data)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(DESCRIPTOR_SIZE, DESCRIPTOR))
    pn_data_put_string(data, pn_bytes(len(selector), selector))
    pn_data_exit(data)
    pn_data_exit(data)
    return 0


cdef bint has_selector(pn_terminus_t *source) noexcept nogil:
    """Say whether a peer's source names a selector: it names the filters that are in place."""
    cdef pn_data_t *data = pn_terminus_filter(source)
    cdef bint found = False
    pn_data_rewind(data)
    if not pn_data_next(data) or pn_data_type(data) != PN_MAP:
        return False
    pn_data_enter(data)
    while pn_data_next(data) and pn_data_next(data):
        if pn_data_is_described(data):
            pn_data_enter(data)
            found |= pn_data_next(data) and is_descriptor(data)
            pn_data_exit(data)
    pn_data_exit(data)
    return found


cdef bint is_descriptor(pn_data_t *data) noexcept nogil:
    cdef pn_bytes_t name
    if pn_data_type(data) == PN_ULONG:
        return pn_data_get_ulong(data) == DESCRIPTOR_CODE
    if pn_data_type(data) != PN_SYMBOL:
        return False
    name = pn_data_get_symbol(data)
    return name.size == DESCRIPTOR_SIZE and memcmp(name.start, DESCRIPTOR, name.size) == 0
