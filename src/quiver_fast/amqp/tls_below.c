/* The socket below OpenSSL: OpenSSL's own BIO, but writing gathers records and raises no SIGPIPE.
 * If the kernel encrypts, only Python's ignoring of SIGPIPE helps. */

#include "tls_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void tls_give_back_buffer(tls_t *tls) {
  if (tls->context->spare) {
    free(tls->unsent);
  } else {
    tls->context->spare = tls->unsent;
  }
  tls->unsent = NULL;
  tls->unsent_start = tls->unsent_end = 0;
}

static bool take_buffer(tls_t *tls) {
  if (tls->unsent) return true;
  tls->unsent = tls->context->spare ? tls->context->spare : malloc(UNSENT_MAX);
  tls->context->spare = NULL;
  return tls->unsent != NULL;
}

/* Returns 1 when nothing is left, 0 when the socket is full, -1 when it failed. */
int tls_send_unsent(tls_t *tls) {
  while (tls_unsent(tls) > 0) {
    const ssize_t n =
      send(tls->fd, tls->unsent + tls->unsent_start, tls_unsent(tls), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (n < 0) {
      tls->socket_error = errno;
      return -1;
    }
    tls->unsent_start += (size_t) n;
  }
  if (tls->unsent) tls_give_back_buffer(tls);
  return 1;
}

bool tls_kernel_sends(BIO *bio) {
#if KTLS
  return BIO_get_ktls_send(bio);
#else
  (void) bio;
  return false;
#endif
}

static int write_record(BIO *bio, const char *data, int size) {
  tls_t *tls = BIO_get_app_data(bio);
  if (tls_kernel_sends(bio)) return BIO_meth_get_write(BIO_s_socket())(bio, data, size);
  BIO_clear_retry_flags(bio);
  /* Send nothing to a peer without TLS. */
  if (tls->foreign) return size;
  if (tls->socket_error || !take_buffer(tls)) return -1;
  if (tls->unsent_start > 0) {
    memmove(tls->unsent, tls->unsent + tls->unsent_start, tls_unsent(tls));
    tls->unsent_end = tls_unsent(tls);
    tls->unsent_start = 0;
  }
  const size_t room = UNSENT_MAX - tls->unsent_end;
  if (room == 0) {
    BIO_set_retry_write(bio);
    return -1;
  }
  const size_t taken = (size_t) size < room ? (size_t) size : room;
  memcpy(tls->unsent + tls->unsent_end, data, taken);
  tls->unsent_end += taken;
  return (int) taken;
}

static int read_records(BIO *bio, char *buffer, int size) {
  tls_t *tls = BIO_get_app_data(bio);
  const int n = BIO_meth_get_read(BIO_s_socket())(bio, buffer, size);
  if (n > 0 && !tls->seen) {
    tls->seen = true;
    /* RFC 8446, 5.1: a client begins with a handshake record (22), a server may with an alert. */
    const unsigned char type = (unsigned char) buffer[0];
    tls->foreign = tls->context->server ? type != 22 : type < 20 || type > 23;
  }
  if (tls->foreign) {
    BIO_clear_retry_flags(bio);
    errno = EPROTO;
    return -1;
  }
  return n;
}

static long control(BIO *bio, int command, long number, void *pointer) {
  if (command != BIO_CTRL_FLUSH) {
    return BIO_meth_get_ctrl(BIO_s_socket())(bio, command, number, pointer);
  }
  BIO_clear_retry_flags(bio);
  const int sent = tls_send_unsent(BIO_get_app_data(bio));
  /* OpenSSL lets the kernel encrypt only when no older bytes wait. */
  if (sent == 0) BIO_set_retry_write(bio);
  return sent;
}

BIO_METHOD *tls_socket_method(void) {
  static BIO_METHOD *method = NULL;
  if (method) return method;
  const BIO_METHOD *socket = BIO_s_socket();
  method = BIO_meth_new(BIO_TYPE_SOCKET, "buffered socket");
  if (method) {
    BIO_meth_set_write(method, write_record);
    BIO_meth_set_read(method, read_records);
    BIO_meth_set_ctrl(method, control);
    BIO_meth_set_create(method, BIO_meth_get_create(socket));
    BIO_meth_set_destroy(method, BIO_meth_get_destroy(socket));
  }
  return method;
}
