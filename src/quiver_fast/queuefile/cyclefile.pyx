"""One cycle file: mapping it into memory, reading its header, following its index.

Java may have written the file, or a crash may have damaged it. So words are found by
their names, and every offset is checked against the file before it is followed
(specification, part A).
"""

from libc cimport errno
from libc.errno cimport EINVAL, ENOMEM
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset, strlen
from posix.fcntl cimport O_CLOEXEC, O_RDONLY, O_RDWR, open
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE, mmap, munmap
from posix.stat cimport fstat, struct_stat
from posix.unistd cimport _SC_PAGESIZE, close, sysconf

from quiver_fast.queuefile.guard cimport guard_cut, guard_end, guard_move, guard_new

NOT_READY = 0x80000000
END_OF_FILE = 0xC0000000

system_page = <size_t>sysconf(_SC_PAGESIZE)

# Codes of binary wire, A.3.
cdef uint8_t PAD = 0x8F
cdef uint8_t PADS = 0x8E
cdef uint8_t LONG = 0xA7
cdef uint8_t LONGS = 0x8D


cdef extern from "<sys/mman.h>" nogil:
    void *mremap(void *address, size_t old_size, size_t new_size, int flags)
    const int MREMAP_MAYMOVE


cdef int cycle_open(CycleFile *file, const char *path, bint writable) noexcept nogil:
    """Map a file; return 0, or -1 with errno (EINVAL for one that is empty)."""
    cdef struct_stat status
    memset(file, 0, sizeof(CycleFile))
    file.writable = writable
    file.fd = open(path, (O_RDWR if writable else O_RDONLY) | O_CLOEXEC)
    if file.fd < 0:
        return -1
    if fstat(file.fd, &status) != 0:
        cycle_close(file)
        return -1
    if status.st_size == 0:
        cycle_close(file)
        errno.errno = EINVAL
        return -1
    file.size = status.st_size
    file.base = <char *>mmap(
        NULL, file.size, PROT_READ | (PROT_WRITE if writable else 0), MAP_SHARED, file.fd, 0)
    if file.base == <char *>MAP_FAILED:
        file.base = NULL
        cycle_close(file)
        return -1
    file.guard = guard_new(file.base, file.size)
    if file.guard == NULL:
        cycle_close(file)
        errno.errno = ENOMEM
        return -1
    return 0


cdef void cycle_close(CycleFile *file) noexcept nogil:
    if file.guard != NULL:
        guard_end(file.guard)
        file.guard = NULL
    if file.base != NULL:
        munmap(file.base, file.size)
    if file.fd >= 0:
        close(file.fd)
    file.base = NULL
    file.fd = -1


cdef int cycle_remap(CycleFile *file) noexcept nogil:
    """Map the file with its present size; return 0, or -1 with errno."""
    cdef struct_stat status
    cdef void *base
    if fstat(file.fd, &status) != 0:
        return -1
    if <size_t>status.st_size == file.size or status.st_size == 0:
        return 0
    # The mapping may move. Only a reader's next read comes here, and its bytes are copied
    # before, so that nothing points to the old place (A.8), which another thread may map now.
    guard_move(file.guard, NULL, 0)
    base = mremap(file.base, file.size, status.st_size, MREMAP_MAYMOVE)
    if base == MAP_FAILED:
        guard_move(file.guard, file.base, file.size)
        return -1
    file.base = <char *>base
    file.size = status.st_size
    guard_move(file.guard, base, file.size)
    return 0


cdef bint cycle_cut(const CycleFile *file) noexcept nogil:
    """Say whether another process truncated the file."""
    return file.guard != NULL and guard_cut(file.guard)


# The largest size of a number: its code and its bytes (A.3).
cdef size_t NUMBER = 5

# A part of the first document.
cdef struct Span:
    size_t begin
    size_t end


cdef size_t find_name(
        const CycleFile *file, size_t at, size_t end, const char *name) noexcept nogil:
    """Return the offset after a field's name in binary wire, 0 if it is not there."""
    cdef size_t size = strlen(name)
    cdef uint8_t code = <uint8_t>(0xC0 + size)
    while at + 1 + size <= end:
        if <uint8_t>file.base[at] == code and memcmp(file.base + at + 1, name, size) == 0:
            return at + 1 + size
        at += 1
    return 0


cdef size_t skip_pad(const CycleFile *file, size_t at, size_t end) noexcept nogil:
    while at < end:
        if <uint8_t>file.base[at] == PAD:
            at += 1
        elif <uint8_t>file.base[at] == PADS and at + 5 <= end:
            # 64 bits: a length near 2^32 must not wrap around to the start.
            at += 5 + <size_t>get32(file.base + at + 1)
        else:
            break
    return at


cdef size_t word_after(
        const CycleFile *file, size_t at, size_t end, uint8_t code, size_t skip,
        size_t words) noexcept nogil:
    """Return the offset of a field's aligned words, 0 if the field is not as expected."""
    if at == 0:
        return 0
    at = skip_pad(file, at, end)
    if at >= end or <uint8_t>file.base[at] != code:
        return 0
    at += 1 + skip
    return at if at % 8 == 0 and at + 8 * words <= end else 0


cdef int64_t int_after(const CycleFile *file, size_t at, size_t end) noexcept nogil:
    """Return a field's small number, -1 if it is none (A.3)."""
    cdef uint8_t code
    if at == 0 or at + 2 > end:
        return -1
    code = <uint8_t>file.base[at]
    if code == 0xA1:
        return <uint8_t>file.base[at + 1]
    if at + 5 > end:
        return -1
    if code == 0xA5:
        return <int16_t>get16(file.base + at + 1)
    if code == 0xA2:
        return get16(file.base + at + 1)
    if code == 0xA6:
        return <int32_t>get32(file.base + at + 1)
    return -1


cdef Span span_of(
        const CycleFile *file, size_t end, const char *name, size_t value_end) noexcept nogil:
    """Return the place of a field, from its name to the end of its value; empty if missing.

    Args:
        value_end: the end of a field with words; 0 for a field with a code and a number.
    """
    cdef Span span
    span.begin = span.end = find_name(file, 4, end, name)
    if span.begin:
        span.begin -= strlen(name) + 1
        span.end = value_end if value_end else span.end + NUMBER
    return span


cdef bint words_are_apart(const CycleFile *file, size_t end) noexcept nogil:
    """Say whether storing the words leaves every other field unchanged."""
    cdef size_t words[3]
    cdef Span fields[7]
    cdef int i, j
    words[0], words[1], words[2] = (
        file.write_position, file.index2index_word, file.last_index_word)
    fields[0] = span_of(file, end, b"writePosition", words[0] + 16)
    fields[1] = span_of(file, end, b"index2Index", words[1] + 8)
    fields[2] = span_of(file, end, b"lastIndex", words[2] + 8)
    fields[3] = span_of(file, end, b"indexing", 0)
    fields[4] = span_of(file, end, b"indexCount", 0)
    fields[5] = span_of(file, end, b"indexSpacing", 0)
    fields[6] = span_of(file, end, b"dataFormat", 0)
    for i in range(3):
        for j in range(7):
            if i != j and words[i] < fields[j].end and fields[j].begin < fields[i].end:
                return False
    return True


cdef bint is_power_of_two(int64_t value) noexcept nogil:
    return value > 0 and value & (value - 1) == 0


cdef bint cycle_understand(CycleFile *file) noexcept nogil:
    """Read the first document, `!SCQStore`; False if it is not one (A.4, A.10 rule 1)."""
    cdef uint32_t header
    cdef size_t end
    cdef int64_t bits
    if file.size < 8:
        return False
    header = load(file.base)
    end = 4 + (header & LENGTH_MASK)
    if header & NOT_READY or not header & META_DATA or end > file.size or end < 40:
        return False
    if memcmp(file.base + 4, b"\xb9\x06header\xb6\x08SCQStore", 18) != 0:
        return False
    file.write_position = word_after(
        file, find_name(file, 4, end, b"writePosition"), end, LONGS, 16, 2)
    file.sequence_word = file.write_position + 8
    file.index2index_word = word_after(
        file, find_name(file, 4, end, b"index2Index"), end, LONG, 0, 1)
    file.last_index_word = word_after(
        file, find_name(file, 4, end, b"lastIndex"), end, LONG, 0, 1)
    file.count = int_after(file, find_name(file, 4, end, b"indexCount"), end)
    file.spacing = int_after(file, find_name(file, 4, end, b"indexSpacing"), end)
    if not (file.write_position and file.index2index_word and file.last_index_word):
        return False
    if not words_are_apart(file, end):
        return False
    if not is_power_of_two(file.count) or not is_power_of_two(file.spacing):
        return False
    file.data_format = int_after(file, find_name(file, 4, end, b"dataFormat"), end)
    if file.data_format < 0 and end < file.last_index_word + 16:
        # Older versions had no such field; in others it is damaged.
        file.data_format = 0
    if file.data_format != 0 and file.data_format != 1:
        return False
    file.first_document = next_document(0, header)
    bits = 0
    while (<int64_t>1 << bits) < file.count * file.count * file.spacing:
        bits += 1
    file.shift = <int>max(bits, <int64_t>32)
    return True


cdef bint sane_header(const CycleFile *file, size_t at) noexcept nogil:
    """Say whether a ready data document could be at ``at``: aligned, and inside the file."""
    cdef uint32_t header
    if at % 4 or at < file.first_document or at >= file.size or at + 8 > file.size:
        return False
    header = load(file.base + at)
    return is_data(header) and at + 4 + header <= file.size


cdef size_t page_of(const CycleFile *file, int64_t number) noexcept nogil:
    """Return the offset of the first slot of an index page, 0 if there is none."""
    cdef size_t at = <size_t>load_long(file.base + file.index2index_word)
    at = slots_of(file, at)
    if at == 0 or number >= file.count:
        return 0
    return slots_of(file, <size_t>load_long(file.base + at + 8 * number))


cdef size_t slots_of(const CycleFile *file, size_t at) noexcept nogil:
    """Return the offset of the slots of the index document at ``at``; 0 if it is damaged."""
    cdef uint32_t header
    cdef size_t end
    cdef size_t array
    # An offset near 2^64 would wrap.
    if at % 4 or at < file.first_document or at >= file.size or at + 8 > file.size:
        return 0
    header = load(file.base + at)
    end = at + 4 + (header & LENGTH_MASK)
    if not header & META_DATA or header & NOT_READY or end > file.size:
        return 0
    # The event's name: code, length, letters.
    if <uint8_t>file.base[at + 4] != 0xB9:
        return 0
    array = skip_pad(file, at + 6 + <uint8_t>file.base[at + 5], end)
    # The array's code, capacity and used come before the slots, which end the document.
    if array + 17 + 8 * <size_t>file.count != end or (array + 1) % 8:
        return 0
    if <uint8_t>file.base[array] != LONGS or load_long(file.base + array + 1) != file.count:
        return 0
    return array + 17


cdef size_t cycle_slot(
        const CycleFile *file, int64_t sequence, int64_t *found) noexcept nogil:
    """Find the indexed entry at or before a sequence (A.8).

    Returns its offset and sequence; the first document and 0 if no index helps.
    """
    cdef int64_t number = sequence // (file.count * file.spacing)
    cdef int64_t slot = (sequence // file.spacing) % file.count
    cdef size_t slots
    cdef size_t at
    while number >= 0:
        slots = page_of(file, number)
        while slots and slot >= 0:
            at = <size_t>load_long(file.base + slots + 8 * slot)
            if at and sane_header(file, at):
                found[0] = (number * file.count + slot) * file.spacing
                return at
            slot -= 1
        number -= 1
        slot = file.count - 1
    found[0] = 0
    return file.first_document
