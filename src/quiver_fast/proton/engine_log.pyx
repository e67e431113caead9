"""The engine's log: on standard error if the user wants it, else nowhere.

A user who sets the engine's own variables (`PN_LOG=frame`) wants to see its frames, but no
passwords: the log leaves out a client's SASL responses, in frames and in raw bytes.
"""

from libc.stdint cimport intptr_t
from libc.string cimport memcpy, strlen, strncmp, strstr

import os

from quiver_fast.proton.libproton cimport (
    pn_default_logger, pn_log_level_t, pn_log_sink_t, pn_log_subsystem_t, pn_logger_get_log_sink,
    pn_logger_get_log_sink_context, pn_logger_set_log_sink,
)

# The longest line of the log, and the texts that replace a password.
cdef enum:
    LINE_MAX = 1200
cdef const char *HIDDEN = b"(not shown)]"
cdef const char *HIDDEN_BYTES = b"(bytes that may have a password)"
# A dump of raw bytes begins with direction, offset and size. Each byte is two digits and a blank.
cdef size_t DUMP_PLACE = 2
cdef size_t DUMP_TYPE = 5

# The engine's own sink, and whether the current dump is of a SASL frame.
cdef pn_log_sink_t standard = NULL
cdef bint in_sasl_dump = False


cdef void drop_message(intptr_t context, pn_log_subsystem_t subsystem, pn_log_level_t level,
                       const char *message) noexcept nogil:
    pass


cdef void show_message(intptr_t context, pn_log_subsystem_t subsystem, pn_log_level_t level,
                       const char *message) noexcept nogil:
    """Pass a line on to the engine's own sink, without a password."""
    cdef char[LINE_MAX] line
    cdef const char *secret = strstr(message, b"response=")
    cdef size_t size
    if is_sasl_dump(message) or strstr(message, b"decrypted data") != NULL:
        standard(context, subsystem, level, HIDDEN_BYTES)
        return
    if secret == NULL or strstr(message, b"@sasl-") == NULL:
        standard(context, subsystem, level, message)
        return
    size = min(<size_t>(secret - message) + strlen(b"response="), LINE_MAX - strlen(HIDDEN) - 1)
    memcpy(line, message, size)
    memcpy(line + size, HIDDEN, strlen(HIDDEN) + 1)
    standard(context, subsystem, level, line)


cdef bint is_sasl_dump(const char *message) noexcept nogil:
    """Say whether a line dumps raw bytes of a SASL frame, whose type is 1 (part 5.3.1)."""
    global in_sasl_dump
    cdef const char *bytes = strstr(message, b": ")
    if bytes == NULL or strncmp(message, b"->", 2) != 0 and strncmp(message, b"<-", 2) != 0:
        return False
    if strncmp(message + DUMP_PLACE, b"0000/", 5) == 0:
        in_sasl_dump = strlen(bytes) > 2 + 3 * DUMP_TYPE + 2 and strncmp(
            bytes + 2 + 3 * DUMP_TYPE, b"01", 2) == 0
    return in_sasl_dump


def follow_engine_log() -> None:
    """Redirect the engine's log: drop it, or show it without passwords if the user wants it."""
    global standard
    wanted = ("PN_LOG", "PN_TRACE_FRM", "PN_TRACE_RAW")
    if not any(name in os.environ for name in wanted):
        pn_logger_set_log_sink(pn_default_logger(), drop_message, 0)
    elif standard == NULL:
        standard = pn_logger_get_log_sink(pn_default_logger())
        pn_logger_set_log_sink(
            pn_default_logger(), show_message, pn_logger_get_log_sink_context(pn_default_logger()))
