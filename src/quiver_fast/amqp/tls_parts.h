/* Declarations that the files of TLS share; tls_socket.h is for everybody else. */

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
/* No more records are made while so many bytes are unsent: a turn's output in one call. */
#define UNSENT_LIMIT (5 * RECORD_MAX)
/* Room for them, one more record, and TLS's own messages. */
#define UNSENT_MAX (UNSENT_LIMIT + 2 * RECORD_MAX)
/* The size of one read from the socket: as many records, each with its header and tag. An
 * incomplete record would be moved, and need one more call. */
#define READ_AHEAD (5 * (RECORD_MAX + 32))
#define NAME_MAX_SIZE 256
#define FAILURE_SIZE 512

struct tls_context_t {
  SSL_CTX *ssl;
  bool server;
  /* Users: its connections, and its maker. */
  int users;
  enum tls_peer peer;
  /* Connections have a certificate to show. */
  bool identified;
  int usual_level;
  /* Gathers small parts into one record. */
  char *record;
  /* A free buffer for unsent bytes. */
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
  /* Size of a record that the socket did not take whole; only with kTLS. */
  size_t retried;
  bool established;
  bool ended, truncated, failed;
  bool seen, foreign;
  bool closing;
  /* The last read filled the caller's buffer: there may be more. */
  bool more;
  int socket_error;
  /* The peer asked for a certificate; the alert by which it ended TLS, or -1. */
  bool asked;
  int alert;
  char *subject;
  char host[NAME_MAX_SIZE];
  /* The result of a certificate's verification, and the certificate's SHA-256. */
  long verdict;
  char digest[2 * 32 + 1];
  char failure[FAILURE_SIZE];
};

/* The socket below OpenSSL; NULL for lack of memory. */
BIO_METHOD *tls_socket_method(void);

/* Say whether the kernel encrypts our output. */
bool tls_kernel_sends(BIO *bio);

/* Return the number of unsent bytes of records. */
static inline size_t tls_unsent(const tls_t *tls) {
  return tls->unsent_end - tls->unsent_start;
}

/* Send them: 1 when nothing is left, 0 when the socket is full, -1 when it failed. */
int tls_send_unsent(tls_t *tls);

/* Keep their buffer for the next connection that needs one. */
void tls_give_back_buffer(tls_t *tls);

/* Called by OpenSSL with each verdict about a certificate; remembers the first failure. */
int tls_on_verify(int fine, X509_STORE_CTX *store);

/* Return the meaning of a failed call of OpenSSL; errno must be the call's. */
int tls_judge(tls_t *tls, int result);

/* Note the socket's error as the reason, if there is none yet. */
void tls_say_lost(tls_t *tls);

#endif
