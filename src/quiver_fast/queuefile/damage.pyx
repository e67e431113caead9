"""Finding the entries after damage, for readers that change nothing.

The words of a file have the place and the sequence of its last entry (A.4). Documents whose
headers lead there exactly are the queue's, and their number gives the sequence of the first.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from quiver_fast.queuefile.cyclefile cimport (
    LENGTH_MASK, NOT_READY, CycleFile, is_data, load, load_long, next_document, sane_header,
)

# The most headers that are read for one damage. More are only found in bytes of no document.
cdef int64_t STEPS_MAX = 1 << 28
# So many documents in a row are no chance.
cdef int64_t PLAUSIBLE = 3


# A row of documents: its end, and the number of its entries.
cdef struct Walk:
    size_t end
    int64_t documents
    int64_t entries


cdef bint last_entry(const CycleFile *file, Place *last) noexcept nogil:
    """Read the words of the last entry; False if they do not agree.

    They are stored after the entry is published, so that entry existed.
    """
    cdef uint64_t at = <uint64_t>load_long(file.base + file.write_position)
    cdef uint64_t word = <uint64_t>load_long(file.base + file.sequence_word)
    last.at = <size_t>at
    last.sequence = <int64_t>(word & ((<uint64_t>1 << file.shift) - 1))
    return at % 4 == 0 and at >= file.first_document and (
        (at << file.shift) == word - <uint64_t>last.sequence)


cdef bint find_rest(
        const CycleFile *file, Place damage, Place last, Place *rest) noexcept nogil:
    """Find the first entry after a damaged document; False if there is none.

    Args:
        damage: the place of the document, and its sequence.
        last: the result of `last_entry`.
    """
    cdef int64_t steps = STEPS_MAX
    cdef size_t at = damage.at + 4
    cdef Place guess = Place(0, damage.sequence + 1)
    cdef int64_t guessed = 0
    cdef Walk walk
    if not sane_header(file, last.at):
        return False
    if behind_reservation(file, damage, last, rest):
        return True
    rest[0] = last
    while at < last.at and steps > 0:
        walk = walk_from(file, at, last.at, &steps)
        # The damaged document took one sequence, so an entry that begins within it has the same.
        if walk.end == last.at and 0 < walk.entries < last.sequence - damage.sequence:
            rest[0] = Place(at, last.sequence - walk.entries)
            break
        if guess.at == 0 and walk.end < last.at and walk.documents >= PLAUSIBLE:
            # More damage follows, unless these are no documents.
            guess.at = at
            guessed = walk.entries
            at = walk.end
        at += 4
    if guess.at and guess.sequence + guessed < rest.sequence:
        rest[0] = guess
    return rest.at > damage.at


cdef bint behind_reservation(
        const CycleFile *file, Place damage, Place last, Place *rest) noexcept nogil:
    """Skip a document that was never finished, and so took no sequence (A.10 rule 4)."""
    cdef uint32_t header = load(file.base + damage.at)
    cdef int64_t steps = STEPS_MAX
    cdef Walk walk
    if not header & NOT_READY or header & LENGTH_MASK == 0:
        return False
    rest[0] = Place(next_document(damage.at, header), damage.sequence)
    if rest.at >= last.at:
        return rest.at == last.at and damage.sequence == last.sequence
    walk = walk_from(file, rest.at, last.at, &steps)
    return walk.end == last.at and walk.entries == last.sequence - damage.sequence


cdef Walk walk_from(
        const CycleFile *file, size_t at, size_t end, int64_t *steps) noexcept nogil:
    """Walk from one document to another, as far as headers lead there."""
    cdef Walk walk = Walk(at, 0, 0)
    cdef uint32_t header
    while walk.end < end:
        steps[0] -= 1
        header = load(file.base + walk.end)
        if header == 0 or header & NOT_READY or (
                walk.end + 4 + (header & LENGTH_MASK) > end):
            break
        walk.documents += 1
        walk.entries += is_data(header)
        walk.end = next_document(walk.end, header)
    return walk
