"""Durable messages in queue files: stored before they are accepted, removed when settled.

A store is one queue's file. A message is an entry of raw bytes, and its removal is a document in
the same file (queuefile.live). With durability `group`, the answer to a peer waits for a sync
that begins after the turn of the write. One sync serves all links. While it runs, the server
gathers work for the next one (group commit, A.11).
"""

# So many gathered removals are written before the turn ends.
cdef size_t REMOVALS = 8192
# Disk space that messages leave free in the file: on a full disk messages are refused, but
# removals can still be written. A file with few messages needs little.
cdef size_t NOTES_ROOM = 262144
cdef size_t NOTES_ROOM_MIN = 8192
# An ended file is synced after so many bytes of the next file, unless its messages are removed.
cdef size_t ENDED_AGE = 16777216
# Beyond so many ended files, of all queues, one is synced at once: each keeps a descriptor.
cdef size_t ENDED_MAX = 4
# So many failures of a message are all written. Later ones are written at powers of two only: a
# message that fails for ever must not fill the disk.
cdef uint32_t EXACT = 32


cdef class Store:
    """The durable messages of one queue.

    Args:
        appender: the writer of the queue's files.
        name: its name in the data directory.
    """

    cdef Queue *queue
    cdef Container *container
    # Its name in the data directory.
    cdef readonly bytes name
    cdef const char *name_start
    cdef size_t name_size
    cdef Appender appender
    cdef Retention retention
    # Removed entries whose removal is not in the file yet.
    cdef uint64_t *removed
    cdef size_t removed_count
    cdef size_t removed_capacity
    # It has removals to write; then it is in the container's list.
    cdef bint dirty
    cdef void *next_dirty
    # Entries were removed since the last search for files to delete.
    cdef bint untidy
    # It has something to sync, or files to close; then it is in that list.
    cdef bint unsynced
    cdef void *next_unsynced
    # It waits for a sync to open its files; then it is in that list.
    cdef bint waits
    cdef void *next_shut
    # The file that was ended last and is not on disk yet, and its last index; -1 for none.
    cdef int ended_fd
    cdef int64_t ended_cycle
    cdef int64_t ended_last
    # Descriptors of deleted files, to be closed.
    cdef list deleted
    cdef bint has_deleted
    # A transaction's work is being written here; then it is in its list. The first entry of it.
    cdef bint joined
    cdef void *next_joined
    cdef int64_t joined_from
    # The mark of a transaction's end that could not be written; nothing may come before it.
    cdef Mark owed
    # The last append failed, and that was reported.
    cdef bint failing

    def __cinit__(self, appender: Appender, name: bytes) -> None:
        self.appender = appender
        self.name = name
        self.name_start = name
        self.name_size = len(name)
        self.ended_fd = -1
        self.deleted = []
        self.removed_capacity = REMOVALS
        self.removed = <uint64_t *>malloc(REMOVALS * sizeof(uint64_t))
        if self.removed == NULL:
            raise MemoryError("no memory for a store")

    def __dealloc__(self) -> None:
        free(self.removed)
        if self.ended_fd >= 0:
            close(self.let_ended_go())

    cdef int fill(self, Queue *queue, object committed) except -1:
        """Put the messages of the file into a queue, except the removed ones.

        Args:
            committed: see LiveEntries.

        Raises OutputError if the files cannot be read or written.
        """
        cdef Entry *entry
        cdef Entry *earlier
        cdef uint64_t before = queue.next_sequence
        self.queue = queue
        self.container = queue.container
        try:
            with Reserve():
                self.restore(queue, committed)
        except BaseException:
            # Else the queue would have only some of its messages until the next start.
            entry = queue.main.tail
            while entry != NULL:
                earlier = entry.prev
                if entry.sequence & ((<uint64_t>1 << COUNT_BITS) - 1) >= before:
                    queue_acquire(queue, entry)
                    entry_drop(entry)
                entry = earlier
            raise
        return 0

    cdef int restore(self, Queue *queue, object committed) except -1:
        cdef const char *start
        cdef size_t size
        cdef int64_t index
        cdef bint meta
        cdef Message *message
        cdef Restorer restorer = Restorer(self.appender)
        cdef LiveEntries live = LiveEntries(self.appender.directory, committed)
        while live.next_meta(&start, &size, &index, &meta):
            message = restorer.take(
                live.tailer, start, size, index, meta, queue.container.now_ms)
            if message != NULL:
                restore_whole(queue, message, live.states)
        self.retention = Retention(
            self.appender, live.removed, live.oldest, queue.container.roll_size)
        restorer.hold(self.retention)
        if live.owed != MARK_NONE:
            # The mark must be the next document in the file of its transaction.
            self.owed = live.owed
            self.appender.held = True
            # On a full disk the mark stays owed, but the messages are delivered.
            write_owed(self)
        for first, last in restorer.torn():
            for index in range(first, last + 1):
                note_removal(self, index)
        flush_removals(self)
        return 0

    def tidy(self) -> None:
        """Free the disk space of removed messages.

        Raises:
            OSError, OutputError: a file cannot be deleted, or its removals cannot be kept.
        """
        if self.retention.due_to_roll():
            self.roll()
        self.retention.sweep(self.deleted)
        if self.ended_fd >= 0 and not self.retention.holds(self.ended_cycle):
            self.deleted.append(self.let_ended_go())
        self.has_deleted = len(self.deleted) > 0

    def tidy_at_start(self) -> None:
        """Free the disk space that the last run left, when all queues are restored.

        Raises:
            OSError, OutputError: a file cannot be deleted, or its removals cannot be kept.
        """
        if self.retention.is_spent():
            self.retention.roll()
        self.retention.sweep()

    def roll(self) -> None:
        """End the newest file. The syncer syncs it later, unless it is deleted before.

        Under a policy that syncs, little of the file is still unsynced.
        """
        if self.appender.policy != DURABLE_NEVER:
            self.retention.roll()
            return
        self.sync_ended()
        # The appender keeps a file that it opens for this, so the descriptor is the right one.
        if not self.appender.use(False):
            return
        fd, cycle, last = self.appender.file.fd, self.appender.cycle, self.appender.last
        self.appender.sync_elsewhere = True
        self.appender.lent = True
        if self.retention.roll():
            self.ended_fd, self.ended_cycle, self.ended_last = fd, cycle, last
            self.container.ended_files += 1
        self.appender.sync_elsewhere = False
        self.appender.lent = False

    def sync_ended(self) -> None:
        """Sync the last file that was ended.

        Raises:
            OSError: the file could not be written.
        """
        if self.ended_fd >= 0:
            os.fdatasync(self.ended_fd)
            os.close(self.let_ended_go())

    cdef int let_ended_go(self) noexcept nogil:
        """Return the descriptor of the ended file, which somebody else closes."""
        cdef int fd = self.ended_fd
        self.ended_fd = -1
        self.container.ended_files -= 1
        return fd

    cdef bint wants_sync(self) noexcept nogil:
        """Say whether the syncer has an ended file to sync or deleted files to close."""
        return self.has_deleted or self.has_old()

    cdef bint has_old(self) noexcept nogil:
        """Say whether it has an ended file that is to be synced now."""
        return self.ended_fd >= 0 and (
            self.appender.tail >= ENDED_AGE or self.container.ended_files > ENDED_MAX)

    def give_deleted(self, syncer: Syncer) -> None:
        """Let the syncer's thread close the deleted files."""
        cdef SyncJob job
        memset(&job, 0, sizeof(job))
        for fd in self.deleted:
            job.fd = fd
            if not syncer.add(job):
                os.close(fd)
        self.deleted.clear()
        self.has_deleted = False

    def take(self, count: int, writer: int) -> None:
        """Note that the first ``count`` removals are written, in the file ``writer`` or later."""
        self.untidy = True
        self.retention.note(self.removed, count, writer)

    def take_range(self, first: int, end: int) -> None:
        """Count the entries from ``first`` to before ``end`` as removed."""
        self.untidy = True
        self.retention.note_all(range(first, end))


cdef void mark_dirty(Container *container, void *store) noexcept nogil:
    """Let the end of the turn flush a store."""
    if not (<Store>store).dirty:
        (<Store>store).dirty = True
        (<Store>store).next_dirty = container.dirty_stores
        container.dirty_stores = store


cdef bint is_stored(const Queue *queue, const Message *message) noexcept nogil:
    """Say whether a message must be in its queue's file."""
    return queue.storable and message.header.durable


cdef bint store_append(Queue *queue, Message *message) noexcept nogil:
    """Write a message to the queue's file and set its index; return False on a failure.

    The queue must have its file.
    """
    cdef const Chunk *chunk = message.first
    cdef char *out
    if message.chain != NULL or message.format:
        # Only the entry of a chain can name a message-format.
        return store_part(queue, message, True)
    out = begin_message(<Store>queue.store, message.size)
    if out == NULL:
        report(<Store>queue.store)
        return False
    while chunk != NULL:
        memcpy(out, chunk_bytes(<Chunk *>chunk), chunk.size)
        out += chunk.size
        chunk = chunk.next
    message.index = (<Store>queue.store).appender.commit()
    if message.index < 0:
        report(<Store>queue.store)
        return False
    stored(queue, message)
    return True


cdef void stored(Queue *queue, const Message *message) noexcept nogil:
    """Record a stored message: its end of life, and the need of a sync."""
    if message.expires:
        # If the disk is full, a restart gives the message its whole time to live again.
        write_state((<Store>queue.store).appender, message.index, end_of_life(queue, message), 0)
    (<Store>queue.store).failing = False
    mark_dirty(queue.container, queue.store)


cdef int64_t end_of_life(const Queue *queue, const Message *message) noexcept nogil:
    """Return the end of a message's time to live, in ms since 1970; 0 for never."""
    if not message.expires:
        return 0
    return message.expires - queue.container.now_ms + realtime_ns() // 1000000


cdef void note_failure(const Entry *entry) noexcept nogil:
    """Record a failed delivery of a stored message. On a full disk, a restart forgets it."""
    cdef uint32_t failures = entry.failures
    if failures <= EXACT or failures & (failures - 1) == 0:
        write_state(
            (<Store>entry.queue.store).appender, entry.message.index,
            end_of_life(entry.queue, entry.message), failures)


cdef bint store_part(Queue *queue, Message *message, bint last) noexcept nogil:
    """Write a long message's bytes in memory to the queue's file; return False on a failure.

    The queue must have its file.

    Args:
        last: these bytes complete the message, which gets its index.
    """
    if not write_chain(<Store>queue.store, message, last):
        report(<Store>queue.store)
        return False
    if last:
        stored(queue, message)
        return True
    (<Store>queue.store).failing = False
    mark_dirty(queue.container, queue.store)
    return True


cdef bint write_chain(Store store, Message *message, bint last) noexcept nogil:
    if not (write_owed(store) and reserve_with_notes(store.appender, message.held)
            and chain_write(store.appender, store.retention, message, last)):
        return False
    if last:
        message.index = chain_commit(store.appender, message)
    return not last or message.index >= 0


cdef char *begin_message(Store store, size_t size) noexcept nogil:
    if not write_owed(store) or not reserve_with_notes(store.appender, size):
        return NULL
    return store.appender.begin_bytes(size)


cdef inline bint reserve_with_notes(Appender appender, size_t size) noexcept nogil:
    """Allocate disk space for so many bytes of messages, and for the removals after them."""
    return appender.reserve(
        appender.tail + size + max(min(appender.tail // 8, NOTES_ROOM), NOTES_ROOM_MIN))


cdef void note_removal(Store store, int64_t index) noexcept nogil:
    cdef uint64_t *grown
    if store.removed_count == store.removed_capacity and (
            store.joined or not flush_removals(store)):
        # During a transaction, or on a full disk, removals are written later.
        grown = <uint64_t *>realloc(
            store.removed, 2 * store.removed_capacity * sizeof(uint64_t))
        if grown == NULL:
            # Without the removal, the message is delivered again after a restart.
            return
        store.removed = grown
        store.removed_capacity *= 2
    store.removed[store.removed_count] = index
    store.removed_count += 1


cdef void note_message(Store store, const Message *message) noexcept nogil:
    """Count a message as removed: its entry, and the parts of its chain that are entries."""
    cdef const Chain *chain = chain_of(message)
    cdef const Span *span
    cdef uint32_t i
    cdef int64_t index
    # Remove first the entry that completes the chain: without it the parts are no message.
    if message.index >= 0:
        note_removal(store, message.index)
    for i in range(chain.count if chain != NULL else 0):
        span = &chain.spans[i]
        for index in range(span.index, span.index + span.parts if span.index >= 0 else -1):
            if index != message.index:
                note_removal(store, index)


cdef void store_remove(Queue *queue, const Message *message) noexcept nogil:
    """Remove a message from the file, at the latest at the end of the turn."""
    note_message(<Store>queue.store, message)
    mark_dirty(queue.container, queue.store)


cdef void store_forget(Queue *queue) noexcept nogil:
    """Let the files of an incomplete chain be deleted."""
    (<Store>queue.store).untidy = True
    mark_dirty(queue.container, queue.store)


cdef bint must_wait(const Queue *queue, const Message *message) noexcept nogil:
    """Say whether a message may be accepted only after a sync."""
    return queue.container.group and (
        message.index >= 0 or queue.stored_subscriptions > 0 and message.header.durable)


cdef bint write_owed(Store store) noexcept nogil:
    """Write the mark of a transaction's end if it is still owed."""
    if store.owed == MARK_NONE:
        return True
    if write_mark(store.appender, store.owed) != 0:
        return False
    store.owed = MARK_NONE
    let_file_go(store.appender)
    return True


cdef bint flush_removals(Store store) noexcept nogil:
    """Write the removals; keep them for another attempt if that fails."""
    cdef size_t count = store.removed_count
    cdef int64_t writer = store.appender.cycle
    if count == 0:
        return True
    if not write_owed(store) or write_removals(store.appender, store.removed, count) != 0:
        return False
    store.removed_count = 0
    with gil:
        store.take(count, writer)
    return True


cdef void stores_flush(Container *container) noexcept nogil:
    """Write the removals of all stores, and begin a sync if there is something to sync."""
    cdef void *store = container.dirty_stores
    cdef void *following
    container.dirty_stores = NULL
    while store != NULL:
        following = (<Store>store).next_dirty
        (<Store>store).dirty = False
        if (<Store>store).removed_count and not must_open_later((<Store>store).queue):
            if not flush_removals(<Store>store):
                report(<Store>store)
        if (<Store>store).untidy:
            tidy(<Store>store)
        (<Store>store).appender.cover_notes()
        if container.group or (<Store>store).wants_sync():
            want_sync(container, store)
        store = following
    sync_next(container)


cdef void tidy(Store store) noexcept nogil:
    """Free disk space after removals. Report a failure once, like a failed append."""
    store.untidy = False
    with gil:
        try:
            store.tidy()
        except (OSError, QuiverError) as error:
            if not store.failing:
                store.failing = True
                say(f"{store.appender.directory}: {error}")


cdef void want_sync(Container *container, void *store) noexcept nogil:
    """Put a store into the next sync."""
    if not (<Store>store).unsynced:
        (<Store>store).unsynced = True
        (<Store>store).next_unsynced = container.unsynced_stores
        container.unsynced_stores = store


cdef void store_leave(Container *container, void *store) noexcept nogil:
    """Remove the store of a deleted queue from the next sync. It has nothing to write."""
    cdef void **place = &container.unsynced_stores
    while place[0] != NULL and place[0] != store:
        place = &(<Store>place[0]).next_unsynced
    if place[0] == store:
        place[0] = (<Store>store).next_unsynced


cdef void sync_next(Container *container) noexcept nogil:
    """Begin a sync of everything that was written, unless a sync is running."""
    if container.unsynced_stores != NULL and not (<Syncer>container.syncer).busy:
        begin_sync(container, <Syncer>container.syncer)


cdef void begin_sync(Container *container, Syncer syncer) noexcept nogil:
    cdef void *store = container.unsynced_stores
    container.unsynced_stores = NULL
    syncer.count = 0
    container.syncing_count = container.pending_count
    while store != NULL:
        (<Store>store).unsynced = False
        add_to_sync(container, <Store>store, syncer)
        if (<Store>store).has_deleted:
            with gil:
                (<Store>store).give_deleted(syncer)
        store = (<Store>store).next_unsynced
    syncer.start()
    open_shut(container)


cdef void add_to_sync(Container *container, Store store, Syncer syncer) noexcept nogil:
    """With `group`, sync the appended entries; otherwise sync an ended file that is old enough."""
    cdef SyncJob job
    if container.group:
        if not syncer.add_file(store.appender):
            # The deliveries that wait are modified: their senders may try again.
            container.sync_failed = True
    elif store.has_old():
        memset(&job, 0, sizeof(job))
        job.sync = True
        job.appender = <void *>store.appender
        job.last = store.ended_last
        job.fd = store.ended_fd
        if syncer.add(job):
            store.let_ended_go()
    if store.appender.broken:
        container.sync_failed = True


cdef void synced(void *owner) noexcept nogil:
    """After a sync, answer the links that waited for it, and begin the next sync.

    Deliveries of this turn may wait already, so the next sync needs the stores of this turn too.
    """
    cdef Container *container = <Container *>owner
    cdef bint good = take_results(container, <Syncer>container.syncer)
    settle_pending(container, good)
    (<Syncer>container.syncer).between_batches()
    stores_flush(container)
    open_shut(container)


cdef bint take_results(Container *container, Syncer syncer) noexcept nogil:
    """Return whether every file of a sync succeeded."""
    cdef bint good = not container.sync_failed
    cdef size_t i
    container.sync_failed = False
    for i in range(syncer.owned):
        if syncer.jobs[i].appender != NULL:
            good = good and not (<Appender>syncer.jobs[i].appender).broken
    return good


cdef void stores_finish(Container *container) noexcept nogil:
    """Write all removals, and wait until no link waits for a sync any more."""
    if container.syncer == NULL:
        return
    stores_flush(container)
    while (<Syncer>container.syncer).busy:
        (<Syncer>container.syncer).wait()
        stores_flush(container)
