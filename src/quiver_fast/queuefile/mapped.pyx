"""A small file in memory, read and written as bytes, that takes no descriptor."""

from libc.errno cimport ENOMEM, errno
from libc.string cimport memcpy
from posix.fcntl cimport O_CLOEXEC, O_RDWR, open
from posix.mman cimport MAP_FAILED, MAP_SHARED, MS_SYNC, PROT_READ, PROT_WRITE, mmap, msync, munmap
from posix.stat cimport fstat, struct_stat
from posix.unistd cimport close

from cpython.buffer cimport PyBuffer_FillInfo

import os

from quiver_fast.queuefile.cyclefile cimport get32, load_long, store, store_long
from quiver_fast.queuefile.guard cimport Guard, guard_end, guard_new


cdef class Mapped:
    """A file, through the buffer protocol.

    Args:
        path: the file, which must not be empty.

    Raises:
        OSError: it cannot be opened or mapped.
    """

    cdef char *base
    cdef size_t size
    cdef Guard *guard
    # Number of memoryviews of it.
    cdef int views

    def __init__(self, path: "Path") -> None:
        cdef struct_stat status
        cdef bytes name = os.fsencode(path)
        cdef void *base = MAP_FAILED
        cdef int fd = open(name, O_RDWR | O_CLOEXEC)
        cdef int code
        if fd >= 0 and fstat(fd, &status) == 0:
            base = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        code = errno
        if fd >= 0:
            close(fd)
        if base == MAP_FAILED:
            raise OSError(code, os.strerror(code))
        self.base = <char *>base
        self.size = status.st_size
        self.guard = guard_new(base, self.size)
        if self.guard == NULL:
            self.end()
            raise OSError(ENOMEM, os.strerror(ENOMEM))

    def __dealloc__(self) -> None:
        self.end()

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if self.base == NULL:
            raise BufferError("the file is closed")
        PyBuffer_FillInfo(buffer, self, self.base, self.size, 0, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self.views -= 1

    cdef char *place(self, size_t at, size_t size, size_t unit) except NULL:
        if self.base == NULL or at % unit or at > self.size or size > self.size - at:
            raise BufferError("no place in the file")
        return self.base + at

    def load(self, at: int) -> int:
        """Return the word at an offset that 8 divides; other processes store it meanwhile."""
        return load_long(self.place(at, 8, 8))

    def store(self, at: int, value: int) -> None:
        """Store a word at once, and after all earlier ones: Java may read it at any time."""
        store_long(self.place(at, 8, 8), value)

    def publish(self, at: int, document: bytes) -> None:
        """Store a document, its header last (A.2): until then the space is free to others."""
        cdef const char *start = document
        cdef char *out = self.place(at, len(document), 4)
        memcpy(out + 4, start + 4, len(document) - 4)
        store(out, get32(start))

    def flush(self) -> None:
        """Sync the file; other threads go on meanwhile, but none may close it.

        Raises:
            OSError: it could not be written.
        """
        cdef int code
        with nogil:
            code = errno if msync(self.base, self.size, MS_SYNC) != 0 else 0
        if code != 0:
            raise OSError(code, os.strerror(code))

    def close(self) -> None:
        """Unmap the file.

        Raises:
            BufferError: somebody has a view of it.
        """
        if self.views:
            raise BufferError("the file is in use")
        self.end()

    cdef void end(self) noexcept:
        if self.guard != NULL:
            guard_end(self.guard)
            self.guard = NULL
        if self.base != NULL:
            munmap(self.base, self.size)
            self.base = NULL
