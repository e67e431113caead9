# Values of the engine's as bytes; nothing but an inline function, so no module has this name.

from quiver_fast.proton.libproton cimport (
    pn_data_encode, pn_data_encoded_size, pn_data_t, ssize_t,
)


cdef inline bytes encoded(pn_data_t *data):
    """Return the encoded values of ``data``; ValueError if it has one that cannot be."""
    buffer = bytearray(max(pn_data_encoded_size(data), <ssize_t>0))
    if pn_data_encode(data, <char *>buffer, len(buffer)) < 0:
        raise ValueError("these values cannot be encoded")
    return bytes(buffer)
