# Base64 (RFC 4648, section 4) on borrowed bytes.

cdef size_t encoded_size(size_t size) noexcept nogil
cdef void encode(const char *bytes, size_t size, char *out) noexcept nogil
# The decoded size of `text`, or -1 if it is no base64.
cdef ssize_t decoded_size(const char *text, size_t size) noexcept nogil
cdef void decode(const char *text, size_t size, char *out) noexcept nogil
