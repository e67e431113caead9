/* What the files of TLS at the socket share; tls_socket.h is for everybody else. */

#ifndef QUIVER_TLS_PARTS_H
#define QUIVER_TLS_PARTS_H

#include "tls_socket.h"

#include <netinet/tcp.h>
#include <openssl/ssl.h>

#if defined(SSL_OP_ENABLE_KTLS) && !defined(OPENSSL_NO_KTLS) && defined(TCP_ULP)
#define KTLS 1
#else
#define KTLS 0
#endif

/* The longest record's content (RFC 8446, 5.1). */
#define RECORD_MAX 16384
/* Unsent bytes from which on no more records are made. */
#define UNSENT_LIMIT (4 * RECORD_MAX)
/* Room for them, one more record, and what TLS itself has to say. */
#define UNSENT_MAX (UNSENT_LIMIT + 2 * RECORD_MAX)
/* How much one read takes from the socket. */
#define READ_AHEAD 65536
#define NAME_MAX_SIZE 256
#define FAILURE_SIZE 512

struct tls_context_t {
  SSL_CTX *ssl;
  bool server;
  /* Connections that use it, and who made it. */
  int users;
  enum tls_peer peer;
  int usual_level;
  /* Small parts are gathered here into one record. */
  char *record;
  /* A buffer for unsent bytes that no connection has. */
  char *spare;
  char failure[FAILURE_SIZE];
};

struct tls_t {
  tls_context_t *context;
  SSL *ssl;
  BIO *bio;
  int fd;
  char *unsent;
  size_t unsent_start, unsent_end;
  /* Size of a record that OpenSSL could not give to the socket whole; with kTLS only. */
  size_t retried;
  bool established;
  bool ended, truncated, failed;
  bool seen, foreign;
  bool closing;
  /* The last read stopped for want of the caller's room: there may be more. */
  bool more;
  int socket_error;
  char *subject;
  char host[NAME_MAX_SIZE];
  bool host_is_address;
  /* The result of a certificate's verification, and the certificate's SHA-256. */
  long verdict;
  char digest[2 * 32 + 1];
  char failure[FAILURE_SIZE];
};

/* The socket below OpenSSL; NULL for lack of memory. */
BIO_METHOD *tls_socket_method(void);

/* Say whether the kernel encrypts what is written. */
bool tls_kernel_sends(BIO *bio);

/* Return how many bytes of records wait for the socket. */
static inline size_t tls_unsent(const tls_t *tls) {
  return tls->unsent_end - tls->unsent_start;
}

/* Give them to the socket: 1 when nothing is left, 0 when it is full, -1 when it failed. */
int tls_send_unsent(tls_t *tls);

/* Give the buffer for them to the next connection that needs one. */
void tls_give_back_buffer(tls_t *tls);

/* Called by OpenSSL with each verdict about a certificate; remembers the first that fails. */
int tls_on_verify(int fine, X509_STORE_CTX *store);

/* Say what a call of OpenSSL that did not succeed means; errno must be the call's. */
int tls_judge(tls_t *tls, int result);

/* Say what the socket's error is, where nothing was said before. */
void tls_say_lost(tls_t *tls);

#endif
