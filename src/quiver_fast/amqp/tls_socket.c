#include "tls_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Compare the peer's certificate with the host's name, and send that name to the peer. */
static bool expect_host(tls_t *tls, const char *host) {
  unsigned char address[sizeof(struct in6_addr)];
  X509_VERIFY_PARAM *param = SSL_get0_param(tls->ssl);
  snprintf(tls->host, sizeof(tls->host), "%s", host);
  /* An address may have a zone, which no certificate has (RFC 4007, 11). */
  char *zone = strchr(tls->host, '%');
  if (zone && strchr(tls->host, ':')) *zone = 0;
  if (inet_pton(AF_INET, tls->host, address) == 1) {
    return X509_VERIFY_PARAM_set1_ip(param, address, 4) == 1;
  }
  if (inet_pton(AF_INET6, tls->host, address) == 1) {
    return X509_VERIFY_PARAM_set1_ip(param, address, 16) == 1;
  }
  /* A trailing dot is in no certificate and in no server name (RFC 6066, 3). */
  const size_t size = strlen(tls->host);
  if (size > 1 && tls->host[size - 1] == '.') tls->host[size - 1] = 0;
  return SSL_set_tlsext_host_name(tls->ssl, tls->host) == 1 &&
    X509_VERIFY_PARAM_set1_host(param, tls->host, 0) == 1;
}

tls_t *tls_new(tls_context_t *context, int fd, const char *host) {
  tls_t *tls = calloc(1, sizeof(*tls));
  if (!tls) return NULL;
  ERR_clear_error();
  tls->context = context;
  ++context->users;
  tls->fd = fd;
  tls->verdict = X509_V_OK;
  tls->alert = -1;
  tls->ssl = SSL_new(context->ssl);
  tls->bio = tls->ssl ? BIO_new(tls_socket_method()) : NULL;
  if (!tls->bio) {
    tls_free(tls);
    return NULL;
  }
  BIO_set_fd(tls->bio, fd, BIO_NOCLOSE);
  BIO_set_app_data(tls->bio, (char *) tls);
  SSL_set_bio(tls->ssl, tls->bio, tls->bio);
  SSL_set_app_data(tls->ssl, (char *) tls);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
#if KTLS
  /* Fails if the kernel has no kTLS; then OpenSSL encrypts. */
  (void) setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls"));
#endif
  if (context->server) {
    SSL_set_accept_state(tls->ssl);
  } else {
    SSL_set_connect_state(tls->ssl);
  }
  if (host && *host && !expect_host(tls, host)) {
    tls_free(tls);
    return NULL;
  }
  return tls;
}

void tls_free(tls_t *tls) {
  if (!tls) return;
  if (tls->unsent) tls_give_back_buffer(tls);
  SSL_free(tls->ssl);
  free(tls->subject);
  tls_context_free(tls->context);
  free(tls);
}

static int state(const tls_t *tls) {
  return tls->failed ? TLS_FAILED : tls->ended && !tls->established ? TLS_END : 1;
}

int tls_handshake(tls_t *tls) {
  if (tls->established || state(tls) != 1) return state(tls);
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(tls->ssl);
  if (result != 1) {
    const int verdict = tls_judge(tls, result);
    if (verdict == TLS_AGAIN) tls_send_unsent(tls);
    return verdict;
  }
  tls->established = true;
  /* More bytes may have come with the end of the handshake; the socket does not report them. */
  tls->more = SSL_has_pending(tls->ssl);
  return tls_flush(tls) == TLS_FAILED ? TLS_FAILED : 1;
}

ssize_t tls_read(tls_t *tls, void *buffer, size_t size) {
  const int ready = tls_handshake(tls);
  if (ready != 1) return ready;
  if (tls->ended) return TLS_END;
  size_t total = 0;
  int verdict = TLS_AGAIN;
  while (total < size) {
    size_t got = 0;
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read_ex(tls->ssl, (char *) buffer + total, size - total, &got);
    if (result != 1) {
      verdict = tls_judge(tls, result);
      break;
    }
    total += got;
    if (!SSL_has_pending(tls->ssl)) break;
  }
  /* An incomplete record does not count: the socket will report the rest. */
  tls->more = total == size && SSL_has_pending(tls->ssl);
  /* An answer to a key update, or an alert. */
  if (tls_unsent(tls) > 0) tls_send_unsent(tls);
  /* The next call reports the failure or the end. */
  return total > 0 ? (ssize_t) total : verdict;
}

/* The place of the next byte to write. */
typedef struct {
  const struct iovec *part;
  const struct iovec *end;
  size_t offset;
} cursor_t;

static void skip_empty(cursor_t *cursor) {
  while (cursor->part < cursor->end && cursor->offset == cursor->part->iov_len) {
    ++cursor->part;
    cursor->offset = 0;
  }
}

static void advance(cursor_t *cursor, size_t size) {
  while (size > 0) {
    const size_t rest = cursor->part->iov_len - cursor->offset;
    const size_t step = size < rest ? size : rest;
    cursor->offset += step;
    size -= step;
    skip_empty(cursor);
  }
}

/* Return the next record's content: in place if it is in one part, else gathered. */
static const char *next_record(const tls_t *tls, cursor_t cursor, size_t *size) {
  const size_t most = tls->retried ? tls->retried : RECORD_MAX;
  const char *start = (const char *) cursor.part->iov_base + cursor.offset;
  const size_t rest = cursor.part->iov_len - cursor.offset;
  if (rest >= most || cursor.part + 1 == cursor.end) {
    *size = rest < most ? rest : most;
    return start;
  }
  *size = 0;
  while (cursor.part < cursor.end && *size < most) {
    const size_t left = cursor.part->iov_len - cursor.offset;
    const size_t taken = left < most - *size ? left : most - *size;
    memcpy(
      tls->context->record + *size, (const char *) cursor.part->iov_base + cursor.offset, taken);
    *size += taken;
    advance(&cursor, taken);
  }
  return tls->context->record;
}

/* Make records until enough are unsent, or OpenSSL takes no more; returns its verdict. */
static int make_records(tls_t *tls, cursor_t *cursor, ssize_t *total) {
  while (cursor->part < cursor->end && tls_unsent(tls) < UNSENT_LIMIT) {
    size_t size, written = 0;
    const char *record = next_record(tls, *cursor, &size);
    ERR_clear_error();
    errno = 0;
    const int result = SSL_write_ex(tls->ssl, record, size, &written);
    if (result != 1) {
      const int verdict = tls_judge(tls, result);
      if (tls_kernel_sends(tls->bio)) tls->retried = size;
      return verdict;
    }
    tls->retried = 0;
    *total += (ssize_t) written;
    advance(cursor, written);
  }
  return 1;
}

ssize_t tls_write(tls_t *tls, const struct iovec *parts, int count) {
  const int ready = tls_handshake(tls);
  if (ready != 1) return ready == TLS_AGAIN ? 0 : TLS_FAILED;
  cursor_t cursor = {parts, parts + count, 0};
  ssize_t total = 0;
  int verdict = 1;
  int flushed = 1;
  if (tls->socket_error) return TLS_FAILED;
  skip_empty(&cursor);
  /* Only a full socket ends this early. tls_events then asks for POLLOUT: without an event a caller
   * with bytes left would wait for ever. */
  do {
    verdict = make_records(tls, &cursor, &total);
    flushed = tls_flush(tls);
  } while (cursor.part < cursor.end && verdict == 1 && flushed == 1);
  return verdict == TLS_FAILED || flushed == TLS_FAILED ? TLS_FAILED : total;
}

int tls_flush(tls_t *tls) {
  if (tls->failed) return TLS_FAILED;
  const int sent = tls_send_unsent(tls);
  if (sent >= 0) return sent ? 1 : TLS_AGAIN;
  /* First read the bytes that the peer sent before it went. */
  tls_say_lost(tls);
  return TLS_FAILED;
}

int tls_close(tls_t *tls) {
  if (!tls->closing && tls->established && !tls->failed) {
    tls->closing = true;
    ERR_clear_error();
    /* Sends close_notify, and does not wait for the peer's. */
    (void) SSL_shutdown(tls->ssl);
    ERR_clear_error();
  }
  return tls_flush(tls);
}

bool tls_has_input(const tls_t *tls) {
  return tls->more && !tls->failed && !tls->ended;
}

short tls_events(const tls_t *tls) {
  const bool kernel = tls_kernel_sends(tls->bio) && SSL_want_write(tls->ssl);
  const bool writes = tls_unsent(tls) > 0 || kernel;
  return (short) (POLLIN | (writes ? POLLOUT : 0));
}

size_t tls_waiting(const tls_t *tls) {
  return tls_unsent(tls);
}

bool tls_established(const tls_t *tls) {
  return tls->established;
}

bool tls_truncated(const tls_t *tls) {
  return tls->truncated;
}

int tls_socket_error(const tls_t *tls) {
  return tls->socket_error;
}

bool tls_refused(const tls_t *tls) {
  return tls->failed && !tls->socket_error;
}

int tls_alert(const tls_t *tls) {
  return tls->alert;
}

const char *tls_failure(const tls_t *tls) {
  return tls->failure;
}

void tls_get_facts(const tls_t *tls, tls_facts_t *facts) {
  const SSL_CIPHER *cipher = SSL_get_current_cipher(tls->ssl);
  facts->protocol = SSL_get_version(tls->ssl);
  facts->cipher = cipher ? SSL_CIPHER_get_name(cipher) : "";
  facts->strength = cipher ? SSL_CIPHER_get_bits(cipher, NULL) : 0;
  facts->resumed = SSL_session_reused(tls->ssl) == 1;
  facts->kernel_sends = tls_kernel_sends(tls->bio);
#if KTLS
  facts->kernel_receives = BIO_get_ktls_recv(tls->bio);
#else
  facts->kernel_receives = false;
#endif
}

const char *tls_peer_subject(tls_t *tls) {
  if (tls->subject) return tls->subject;
  X509 *certificate = SSL_get_peer_certificate(tls->ssl);
  BIO *text = certificate ? BIO_new(BIO_s_mem()) : NULL;
  if (text) {
    char *start = NULL;
    X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    const long size = BIO_get_mem_data(text, &start);
    tls->subject = strndup(start ? start : "", (size_t) size);
    BIO_free(text);
  }
  X509_free(certificate);
  return tls->subject;
}
