from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from quiver_fast.queuefile.guard cimport Guard

# Headers of documents, A.2.
cdef enum:
    META_DATA = 0x40000000
    LENGTH_MASK = 0x3FFFFFFF
cdef const uint32_t NOT_READY
cdef const uint32_t END_OF_FILE

# The unit of memory, of holes, and of faults on a full disk: 4 to 64 KiB.
cdef size_t system_page

# One cycle file in memory. Offsets are from the file's beginning.
cdef struct CycleFile:
    int fd
    bint writable
    char *base
    # Bytes of the file that are mapped.
    size_t size
    # Guards the mapping.
    Guard *guard
    # The words of the first document; 0 if it has none.
    size_t write_position
    size_t sequence_word
    size_t index2index_word
    size_t last_index_word
    # The offset of the second document.
    size_t first_document
    int64_t count
    int64_t spacing
    int shift
    # 1: every document is aligned; 0 in files of Chronicle Queue before 5.19.11.
    int64_t data_format

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint32_t quiver_load(const void *at) {
        return __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
    }
    static inline void quiver_store(void *at, uint32_t value) {
        __atomic_store_n((uint32_t *)at, value, __ATOMIC_RELEASE);
    }
    static inline void quiver_store_long(void *at, int64_t value) {
        __atomic_store_n((int64_t *)at, value, __ATOMIC_RELEASE);
    }
    static inline int64_t quiver_load_long(const void *at) {
        return __atomic_load_n((const int64_t *)at, __ATOMIC_ACQUIRE);
    }
    /* Numbers inside of documents have no alignment. */
    static inline uint16_t quiver_get16(const void *at) {
        uint16_t value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    static inline uint32_t quiver_get32(const void *at) {
        uint32_t value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    static inline void quiver_put32(void *at, uint32_t value) {
        memcpy(at, &value, sizeof value);
    }
    """
    uint16_t get16 "quiver_get16" (const void *at) noexcept nogil
    uint32_t get32 "quiver_get32" (const void *at) noexcept nogil
    void put32 "quiver_put32" (void *at, uint32_t value) noexcept nogil
    uint32_t load "quiver_load" (const void *at) noexcept nogil
    void store "quiver_store" (void *at, uint32_t value) noexcept nogil
    void store_long "quiver_store_long" (void *at, int64_t value) noexcept nogil
    int64_t load_long "quiver_load_long" (const void *at) noexcept nogil


cdef inline size_t next_document(size_t at, uint32_t header) noexcept nogil:
    """Return the offset of the document after the one at ``at`` (A.2)."""
    return (at + 4 + (header & LENGTH_MASK) + 3) & ~<size_t>3


cdef inline size_t round_up(size_t size, size_t unit) noexcept nogil:
    return (size + unit - 1) // unit * unit


cdef inline bint is_data(uint32_t header) noexcept nogil:
    return 0 < header <= LENGTH_MASK


cdef int cycle_open(CycleFile *file, const char *path, bint writable) noexcept nogil
cdef void cycle_close(CycleFile *file) noexcept nogil
cdef bint cycle_cut(const CycleFile *file) noexcept nogil
cdef int cycle_remap(CycleFile *file) noexcept nogil
cdef bint cycle_understand(CycleFile *file) noexcept nogil
cdef size_t page_of(const CycleFile *file, int64_t number) noexcept nogil
cdef size_t slots_of(const CycleFile *file, size_t at) noexcept nogil
cdef size_t cycle_slot(const CycleFile *file, int64_t sequence, int64_t *found) noexcept nogil
cdef bint sane_header(const CycleFile *file, size_t at) noexcept nogil
