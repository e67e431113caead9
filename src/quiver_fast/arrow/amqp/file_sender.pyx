"""The sending end whose bodies are a file's bytes."""

from libc.stdint cimport uint8_t

from quiver_fast.arrow.amqp.outgoing cimport Outgoing
from quiver_fast.arrow.amqp.sender cimport Sender


cdef class FileSender(Sender):
    """Send bodies that do not repeat one block; see Sender, and `content` of the template."""

    cdef int put_payload(self, uint8_t *out, size_t size) except -1 nogil:
        cdef char *block = self.template.body
        self.template.body = self.template.content_text + (
            self.template.body_size - self.body_left)
        Outgoing.put_payload(self, out, size)
        self.template.body = block
        return 0
