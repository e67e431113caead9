"""Growing columns of numbers, filled without the GIL, handed to NumPy without a copy."""

import numpy

from cpython.buffer cimport PyBUF_FORMAT
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from quiver_fast.records.id_hash cimport next_byte


cdef class Column:
    """A growing array of int64 or bool that exports the buffer protocol.

    Fill it, :meth:`shrink` it, then export it; it must not grow while a buffer is out.
    """

    def __cinit__(self, bint flags=False) -> None:
        self._values = NULL
        self._item_size = 1 if flags else sizeof(int64_t)
        self._format = b"?" if flags else b"q"
        self._capacity = 0
        self.size = 0

    def __dealloc__(self):
        free(self._values)

    cdef int reserve(self, size_t more) except -1 nogil:
        """Make room for ``more`` items, at least doubling (untouched pages cost nothing)."""
        if self._capacity - self.size >= more:
            return 0
        return self._resize(max(self.size + more, 2 * self._capacity))

    cdef int shrink(self) except -1 nogil:
        """Free the unused room."""
        return self._resize(self.size)

    cdef int _resize(self, size_t capacity) except -1 nogil:
        # One item at least: realloc to nothing may free and return NULL.
        capacity = max(capacity, <size_t>1)
        cdef void *values = realloc(self._values, capacity * self._item_size)
        if values == NULL:
            with gil:
                raise MemoryError("no memory left for the columns of records")
        self._values = values
        self._capacity = capacity
        return 0

    cdef int64_t *numbers(self) noexcept nogil:
        return <int64_t *>self._values

    cdef unsigned char *flags(self) noexcept nogil:
        return <unsigned char *>self._values

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self._shape[0] = <Py_ssize_t>self.size
        self._strides[0] = <Py_ssize_t>self._item_size
        buffer.buf = self._values
        buffer.obj = self
        buffer.len = <Py_ssize_t>(self.size * self._item_size)
        buffer.readonly = False
        buffer.itemsize = <Py_ssize_t>self._item_size
        buffer.format = <char *>self._format if flags & PyBUF_FORMAT else NULL
        buffer.ndim = 1
        buffer.shape = self._shape
        buffer.strides = self._strides
        buffer.suboffsets = NULL
        buffer.internal = NULL


cdef class EndRows:
    """The end of each row of a column, for a file with several ends.

    A file of one end, which names none, needs no memory for it.
    """

    def __cinit__(self):
        self._rows = Column()
        self._numbers = Column()
        self._before = -1

    cdef int reserve(self, size_t more) except -1 nogil:
        self._rows.reserve(more)
        self._numbers.reserve(more)
        return 0

    cdef void begin(self, size_t row, int64_t number) noexcept nogil:
        """Note that the rows from the coming one on are of an end."""
        self.lines += 1
        if number == self.following():
            return
        if not self.begins_at(row):
            self._rows.size += 1
            self._numbers.size += 1
        self._rows.numbers()[self._rows.size - 1] = <int64_t>row
        self._numbers.numbers()[self._rows.size - 1] = number

    cdef bint begins_at(self, size_t row) noexcept nogil:
        """Say whether the last change of the end was at this row."""
        return self._rows.size > 0 and self._rows.numbers()[self._rows.size - 1] == <int64_t>row

    cdef int64_t following(self) noexcept nogil:
        """Return the end of the next row; -1 if unknown."""
        if self._rows.size == 0:
            return self._before
        return self._numbers.numbers()[self._rows.size - 1]

    cdef void clear(self) noexcept nogil:
        """Forget all rows; the next ones have the end of the last."""
        self._before = self.following()
        self._rows.size = self._numbers.size = 0

    def forget(self) -> None:
        """Forget the ends too, to begin with other text."""
        self.clear()
        self._before = -1

    def taken(self, count: int) -> NDArray[np.int64] | None:
        """Return the end of each of the first ``count`` rows, int64, and forget these rows.

        The other rows become the first. -1 is an unknown end; None if the file named no end.
        """
        if self._rows.size == 0:
            return None if self._before < 0 else numpy.full(count, self._before)
        rows, numbers = numpy.array(self._rows), numpy.array(self._numbers)
        size = int(numpy.searchsorted(rows, count))
        bounds = [0, *rows[:size].tolist(), count]
        found = numpy.repeat([self._before, *numbers[:size].tolist()], numpy.diff(bounds))
        self._before = self._before if size == 0 else numbers[size - 1]
        self._rows.size = self._numbers.size = len(rows) - size
        numpy.asarray(self._rows)[:] = rows[size:] - count
        numpy.asarray(self._numbers)[:] = numbers[size:]
        return found


cdef class HashedRows:
    """The rows of a column of ids that are hashes, and their upper halves (ids.py).

    A file whose ids are all numbers needs no memory for them.
    """

    def __cinit__(self):
        self._rows = Column()
        self._highs = Column()
        self._texts = Column(True)
        self._ends = Column()

    cdef int reserve(self, size_t more) except -1 nogil:
        self._rows.reserve(more)
        self._highs.reserve(more)
        return 0

    cdef void add(self, size_t row, int64_t high) noexcept nogil:
        """Add a row."""
        self._rows.numbers()[self._rows.size] = <int64_t>row
        self._highs.numbers()[self._highs.size] = high
        self._rows.size += 1
        self._highs.size += 1

    cdef int add_text(
            self, const unsigned char *text, const unsigned char *end) except -1 nogil:
        """Keep the decoded id of the last row."""
        self._texts.reserve(end - text)
        self._ends.reserve(1)
        while text < end:
            self._texts.flags()[self._texts.size] = <unsigned char>next_byte(&text, end)
            self._texts.size += 1
        self._ends.numbers()[self._ends.size] = <int64_t>self._texts.size
        self._ends.size += 1
        return 0

    cdef size_t text_size(self) noexcept nogil:
        """Return the bytes of the kept ids."""
        return self._texts.size

    cdef bint at(self, size_t place, size_t row) noexcept nogil:
        """Say whether a place, from 0, among these rows has this row."""
        return place < self._rows.size and self._rows.numbers()[place] == <int64_t>row

    cdef bint ends_with(self, size_t row) noexcept nogil:
        """Say whether the last of these rows is this one."""
        return self._rows.size > 0 and self.at(self._rows.size - 1, row)

    cdef void clear(self) noexcept nogil:
        self._rows.size = 0
        self._highs.size = 0
        self._texts.size = 0
        self._ends.size = 0

    def taken(self, count: int) -> tuple[NDArray[np.int64] | None, list[bytes]]:
        """Return the upper halves of the first ``count`` rows, and their kept ids.

        These rows are forgotten, and the others become the first. None if none is a hash; the
        ids are bytes, in order.
        """
        if self._rows.size == 0:
            return None, []
        rows, highs = numpy.array(self._rows), numpy.array(self._highs)
        texts = self._kept()
        size = int(numpy.searchsorted(rows, count))
        self.clear()
        for row, high in zip(rows[size:].tolist(), highs[size:].tolist(), strict=True):
            self.add(row - count, high)
        for text in texts[size:]:
            self._keep(text)
        if size == 0:
            return None, []
        found = numpy.zeros(count, numpy.int64)
        found[rows[:size]] = highs[:size]
        return found, texts[:size]

    cdef list _kept(self):
        text = (<const char *>self._texts.flags())[:self._texts.size]
        ends = numpy.array(self._ends).tolist()
        return [text[start:end] for start, end in zip([0, *ends], ends)]

    cdef int _keep(self, bytes text) except -1:
        cdef size_t size = len(text)
        self._texts.reserve(size)
        memcpy(self._texts.flags() + self._texts.size, <const char *>text, size)
        self._texts.size += size
        self._ends.reserve(1)
        self._ends.numbers()[self._ends.size] = <int64_t>self._texts.size
        self._ends.size += 1
        return 0
