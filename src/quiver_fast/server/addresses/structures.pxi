# Why an address does not exist: an AMQP condition and a description.
cdef struct Absence:
    const char *condition
    char why[256]

# The end of a link's wait: the error, or NULL; and whether its peer has ended or closed it.
cdef struct Delay:
    const char *why
    # That was for want of descriptors.
    bint scarce
    bint ended
    bint closed

# Links whose long message is complete, and waits for a turn in which it may be made whole: the
# last that came is the first. `admitted` is the one whose turn it is; `copied` counts the bytes
# of messages that were made whole since the last turn's end.
cdef struct Endings:
    Inlet *newest
    Inlet *oldest
    Inlet *admitted
    size_t copied
