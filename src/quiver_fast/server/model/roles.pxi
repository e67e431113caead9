# What a link is here.

cdef enum LinkKind:
    INLET
    OUTLET
    COORDINATOR
    DEFERRED                # its attach or its detach is not answered yet (deferred.pxi)

# The owner and the purpose of a link.
cdef enum LinkRole:
    CLIENT                  # the peer attached it
    STREAMS_FROM_SERVER     # another server did, for streams: their routes name the addresses
    STREAMS_TO_PEER         # we did, for streams to the peer: there is no outcome by it
    TRUNK_CONSUMER          # we did, to another server's address, for our queue's consumers
