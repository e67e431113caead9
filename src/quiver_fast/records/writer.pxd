# RecordWriter: record lines into one buffer, flushed when full and on request.

cimport cython
from libc.stdint cimport int64_t, uint64_t


# The digits of the last written time. Neighbouring records mostly have equal times,
# or times that differ only in the last eight digits.
cdef struct TimeText:
    int64_t value
    int64_t high                    # value without its last eight digits
    size_t size                     # characters in text
    char text[24]                   # copied whole: three moves; 20 characters at most


@cython.final
cdef class RecordWriter:
    cdef char *_buffer
    cdef size_t _capacity           # the allocation is larger by one TimeText.text
    cdef size_t _used
    cdef size_t _start              # bytes before it are written already (interrupted flush)
    cdef int _fd                    # the caller's; never closed here
    cdef int _error                 # errno of the first failed write, for ever; 0 before
    cdef uint64_t _bytes_written
    cdef uint64_t _records
    cdef int64_t _end               # the number of the last line @<number>; -1 before one
    cdef size_t _end_line           # the place of that line in the buffer
    cdef size_t _behind_end_line    # its end; 0 if none was written since the last flush
    cdef TimeText _sent
    cdef TimeText _received

    cdef int sent(self, int64_t time) except -1 nogil
    cdef int received(self, int64_t sent, int64_t received) except -1 nogil
    cdef int sent_with_id(self, const char *id, size_t id_size, int64_t time) except -1 nogil
    cdef int received_with_id(
        self, const char *id, size_t id_size, int64_t sent, int64_t received) except -1 nogil
    cdef int settled(
        self, const char *id, size_t id_size, int64_t time, bint sampled) except -1 nogil
    cdef int streamed(
        self, char kind, int64_t sent, int64_t first, int64_t time, int64_t size) except -1 nogil
    cdef int begin_end(self, int64_t number) except -1 nogil
    cdef int flush(self) except -1 nogil

    cdef int _reserve(self, size_t size) except -1 nogil
    cdef int _put_id(self, const char *id, size_t size, bint hide_prefix) except -1 nogil
    cdef int _end_with_id(self, int64_t time) except -1 nogil
    cdef int _wait_writable(self) except -1 nogil
    cdef int _fail(self, int error) except -1 nogil
