/* A `send` that tests can have refuse: TLS at the socket is compiled with it in place of the
 * system's, so that a socket is full exactly when a test says so. */

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

/* How many of the next calls find the socket full. */
extern int refusals;
int refusals = 0;

ssize_t refusing_send(int fd, const void *data, size_t size, int flags);

ssize_t refusing_send(int fd, const void *data, size_t size, int flags) {
  if (refusals == 0) return sendto(fd, data, size, flags, NULL, 0);
  --refusals;
  errno = EAGAIN;
  return -1;
}
