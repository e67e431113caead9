"""Error conditions of the peer's, in words (AMQP 1.0 parts 2.8.14 to 2.8.18)."""

import re

from quiver_fast.proton.libproton cimport (
    pn_condition_get_description, pn_condition_get_name, pn_condition_info, pn_condition_is_set,
    pn_condition_t, pn_data_format, pn_data_size,
)

# More of a condition's facts is not shown.
cdef enum:
    FACTS_MAX = 4096

# A key as the engine writes it, such as `:"network-host"=`.
KEY = re.compile(r'(^|, ):"?([^"=]+)"?=')


cdef str condition_text(pn_condition_t *condition):
    """Return ``name: description (facts)``, such as where a redirect leads; empty if not set."""
    cdef const char *description
    if not pn_condition_is_set(condition):
        return ""
    description = pn_condition_get_description(condition)
    text = pn_condition_get_name(condition).decode("utf-8", "replace")
    if description != NULL and description[0] != 0:
        text += ": " + description.decode("utf-8", "replace")
    return text + facts_text(condition)


cdef str facts_text(pn_condition_t *condition):
    """Return the entries of a condition's map `info` in brackets."""
    cdef char[FACTS_MAX] buffer
    cdef size_t size = FACTS_MAX
    if pn_data_size(pn_condition_info(condition)) == 0:
        return ""
    if pn_data_format(pn_condition_info(condition), buffer, &size) != 0:
        return " (with more facts than are shown)"
    text = buffer[:size].decode("utf-8", "replace").removeprefix("{").removesuffix("}")
    facts = KEY.sub(r"\1\2 ", text)
    return f" ({facts})" if facts else ""
