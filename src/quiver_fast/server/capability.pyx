"""Capabilities as connections and termini carry them: one symbol, or an array of them."""

from libc.string cimport memcmp, strlen

from quiver_fast.proton.libproton cimport (
    PN_ARRAY, PN_SYMBOL, pn_bytes_t, pn_data_enter, pn_data_get_symbol, pn_data_next,
    pn_data_rewind, pn_data_t, pn_data_type,
)


cdef bint has_capability(pn_data_t *data, const char *wanted) noexcept nogil:
    """Say whether ``wanted`` is among the capabilities in ``data``."""
    pn_data_rewind(data)
    if not pn_data_next(data):
        return False
    if pn_data_type(data) != PN_ARRAY:
        return is_symbol(data, wanted)
    pn_data_enter(data)
    while pn_data_next(data):
        if is_symbol(data, wanted):
            return True
    return False


cdef bint is_symbol(pn_data_t *data, const char *wanted) noexcept nogil:
    cdef pn_bytes_t symbol
    if pn_data_type(data) != PN_SYMBOL:
        return False
    symbol = pn_data_get_symbol(data)
    return symbol.size == strlen(wanted) and memcmp(symbol.start, wanted, symbol.size) == 0
