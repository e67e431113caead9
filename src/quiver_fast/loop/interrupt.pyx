"""SIGINT and SIGTERM as a flag that the event loops poll without the GIL.

Python's own handlers run only in the interpreter; a loop without the GIL for
minutes needs a C handler.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.signal cimport SIG_IGN, SIGINT, SIGTERM
from posix.signal cimport sigaction, sigaction_t, sigemptyset
from posix.unistd cimport write

import os
import signal

from quiver_fast.errors import SignalError

cdef extern from * nogil:
    int load "__atomic_load_n" (const int *at, int order)
    void store "__atomic_store_n" (int *at, int value, int order)
    int add "__atomic_add_fetch" (int *at, int value, int order)
    const int ACQUIRE "__ATOMIC_ACQUIRE"
    const int RELEASE "__ATOMIC_RELEASE"

# The handler runs in any thread: the count comes last, so whoever sees it sees the number.
cdef int caught = 0
cdef int times = 0
cdef int read_end = -1
cdef int write_end = -1


cdef void on_signal(int number) noexcept nogil:
    store(&caught, number, RELEASE)
    add(&times, 1, RELEASE)
    # The result does not matter: a full pipe wakes the loop as well.
    if write(write_end, b"!", 1) < 0:
        return


cdef int pending_signal() noexcept nogil:
    return load(&caught, ACQUIRE)


cdef int pending_count() noexcept nogil:
    return load(&times, ACQUIRE)


cdef int wake_descriptor() noexcept nogil:
    return read_end


def install() -> None:
    """Catch SIGINT and SIGTERM from now on; call once, from the main thread.

    One that the process ignores stays ignored: a shell's ``&`` asks for that.

    Raises:
        OSError: the pipe or a handler could not be set up.
    """
    global read_end, write_end
    cdef sigaction_t action, before
    if read_end < 0:
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    action.sa_handler = on_signal
    action.sa_flags = 0
    sigemptyset(&action.sa_mask)
    for number in (SIGINT, SIGTERM):
        if sigaction(number, NULL, &before) != 0:
            raise OSError("cannot read a signal handler")
        if before.sa_handler == SIG_IGN:
            continue
        # The end of Python puts the default in place of a handler that Python has set, and another
        # Ctrl-C would kill the process then.
        others = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        signal.signal(number, signal.SIG_DFL)
        installed = sigaction(number, &action, NULL) == 0
        signal.pthread_sigmask(signal.SIG_SETMASK, others)
        if not installed:
            raise OSError("cannot install a signal handler")


def signal_number() -> int:
    """Return the number of the last signal caught, 0 if none."""
    return pending_signal()


def wake_fd() -> int:
    """Return a descriptor that becomes readable at a signal; -1 before install()."""
    return read_end


def raise_if_pending() -> None:
    """Raise SignalError if a signal was caught; run Python's handlers, which may raise as well.

    Raises:
        SignalError: with the signal's number and name.
    """
    PyErr_CheckSignals()
    if pending_signal():
        name = "SIGINT" if pending_signal() == SIGINT else "SIGTERM"
        raise SignalError(f"interrupted by {name}", pending_signal())
