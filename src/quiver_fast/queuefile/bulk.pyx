"""Many entries of one size, appended in one call."""

from libc.stdint cimport int64_t

from quiver_fast.queuefile.appender cimport Appender


def append_records(Appender appender, const unsigned char[::1] records, size_t size) -> int:
    """Append records of ``size`` bytes each, unchanged, one entry per record (A.6).

    Returns:
        The index of the last one; -1 if there is no record.

    Raises:
        OutputError: one could not be written; the earlier ones are written.
        ValueError: the bytes are no whole number of records.
    """
    cdef size_t count = records.shape[0] // size if size else 0
    cdef size_t i
    cdef int64_t index = -1
    if size == 0 or count * size != <size_t>records.shape[0]:
        raise ValueError(f"{records.shape[0]} bytes are no records of {size}")
    if count == 0:
        return -1
    with nogil:
        for i in range(count):
            index = appender.append(<const char *>&records[i * size], size)
            if index < 0:
                break
    return appender.checked(index)
