"""Doubly linked lists whose neighbours are members of the items themselves.

An item is in a list by two of its members, so it can be in several lists at once, joins
without an allocation, and leaves in O(1). The first item is the list.

Callers name the members: ``list_remove(&queue.waiting, inlet, &inlet.prev_waiting,
&inlet.next_waiting)``. Everything is inline and the members' offsets are constants, so
the compiler makes of it what one would write by hand.
"""

cdef extern from *:
    """
    /* Any item's pointer to a neighbour. Their types differ, so it may alias all of them. */
    typedef void *__attribute__((__may_alias__)) quiver_neighbour;

    /* The member of another item that `member` is of this one. */
    static inline quiver_neighbour *quiver_member_of(void *other, void *item, void *member)
    {
        return (quiver_neighbour *)((char *)other + ((char *)member - (char *)item));
    }
    """
    ctypedef void *quiver_neighbour
    quiver_neighbour *quiver_member_of(void *other, void *item, void *member) noexcept nogil


cdef inline void list_push(void *first, void *item, void *prev, void *next) noexcept nogil:
    """Put an item that is in no such list before the first one.

    Args:
        first: where the list's first item is; that is NULL if the list is empty.
        prev, next: the item's members for its neighbours in this list.
    """
    cdef quiver_neighbour *head = <quiver_neighbour *>first
    (<quiver_neighbour *>prev)[0] = NULL
    (<quiver_neighbour *>next)[0] = head[0]
    if head[0] != NULL:
        quiver_member_of(head[0], item, prev)[0] = item
    head[0] = item


cdef inline void list_remove(void *first, void *item, void *prev, void *next) noexcept nogil:
    """Take an item out of the list that it is in; it has no neighbours afterwards."""
    cdef quiver_neighbour before = (<quiver_neighbour *>prev)[0]
    cdef quiver_neighbour after = (<quiver_neighbour *>next)[0]
    if after != NULL:
        quiver_member_of(after, item, prev)[0] = before
    if before != NULL:
        quiver_member_of(before, item, next)[0] = after
    else:
        (<quiver_neighbour *>first)[0] = after
    (<quiver_neighbour *>prev)[0] = NULL
    (<quiver_neighbour *>next)[0] = NULL


cdef inline bint list_has(void *first, void *item, void *prev) noexcept nogil:
    """Say whether an item is in a list of which it can be a member at all."""
    return (<quiver_neighbour *>prev)[0] != NULL or (<quiver_neighbour *>first)[0] == item
