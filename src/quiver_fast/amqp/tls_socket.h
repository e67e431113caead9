/* TLS over a non-blocking socket: OpenSSL below, clear bytes above.
 *
 * Connections share a context: certificate, trust, and the rule for the peer's certificate.
 * One thread at a time may use a context and its connections. Nothing here waits: a call goes as
 * far as the socket allows, and tls_events returns the events to wait for.
 *
 * Records go into a buffer of the connection first and from there to the socket, several at a
 * time. So the caller never passes a byte again that tls_write took. If the kernel encrypts
 * (kTLS), OpenSSL writes to the socket itself.
 */

#ifndef QUIVER_TLS_SOCKET_H
#define QUIVER_TLS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef struct tls_context_t tls_context_t;
typedef struct tls_t tls_t;

/* Results of calls that move bytes; larger ones are counts. */
enum {
  TLS_END = 0,     /* tls_read: the end of the input; see tls_truncated */
  TLS_AGAIN = -1,  /* the socket must be ready first */
  TLS_FAILED = -2, /* see tls_failure */
};

/* The rule for the peer's certificate. */
enum tls_peer {
  TLS_PEER_ANY,       /* any peer; a server asks for no certificate */
  TLS_PEER_REQUESTED, /* a server asks for one, and verifies it if it comes */
  TLS_PEER_REQUIRED,  /* a valid one is required; a server's must name the host */
};

/* The result of the handshake. */
typedef struct tls_facts_t {
  const char *protocol; /* such as "TLSv1.3" */
  const char *cipher;
  int strength; /* bits of the cipher's key */
  bool resumed;
  bool kernel_sends; /* the kernel encrypts: BIO_get_ktls_send */
  bool kernel_receives;
} tls_facts_t;

/* Say whether this build has OpenSSL. Without it there are no contexts. */
bool tls_present(void);

/* Make a context; NULL for lack of OpenSSL or memory. */
tls_context_t *tls_context_new(bool server);
void tls_context_free(tls_context_t *context);

/* Each returns false on failure, and tls_context_failure has the reason.
 * A trust store of NULL means the system's authorities. With ``old``, peers before TLS 1.2 are
 * accepted. */
bool tls_context_identify(tls_context_t *context, const char *certificate, const char *key);
bool tls_context_trust(tls_context_t *context, const char *store, enum tls_peer peer, bool old);
const char *tls_context_failure(const tls_context_t *context);

/* Begin TLS on a connected socket, which stays the caller's and becomes non-blocking.
 * A client names the host that it wants, or NULL. NULL for lack of memory. */
tls_t *tls_new(tls_context_t *context, int fd, const char *host);
void tls_free(tls_t *tls);

/* Go on with the handshake: 1 when it is done, TLS_AGAIN, TLS_END or TLS_FAILED.
 * tls_read and tls_write do this by themselves. */
int tls_handshake(tls_t *tls);

/* Read clear bytes: their count, TLS_AGAIN, TLS_END or TLS_FAILED. */
ssize_t tls_read(tls_t *tls, void *buffer, size_t size);

/* Take clear bytes to write: returns their number, 0 while the socket is full, or TLS_FAILED.
 * The other bytes must come first in the next call. */
ssize_t tls_write(tls_t *tls, const struct iovec *parts, int count);

/* Send unsent records: 1 when nothing is left, TLS_AGAIN or TLS_FAILED. */
int tls_flush(tls_t *tls);

/* Send close_notify; results as those of tls_flush. */
int tls_close(tls_t *tls);

/* Say whether tls_read may have bytes although the socket has none. */
bool tls_has_input(const tls_t *tls);

/* Return the events to poll for: POLLIN, and POLLOUT while bytes are unsent. */
short tls_events(const tls_t *tls);

/* Return how many bytes of records are unsent. */
size_t tls_waiting(const tls_t *tls);

/* Say whether the handshake is done. */
bool tls_established(const tls_t *tls);

/* Say whether the peer ended without close_notify: bytes may be missing. */
bool tls_truncated(const tls_t *tls);

/* Return errno of the socket if the socket failed; else 0. */
int tls_socket_error(const tls_t *tls);

/* Say whether TLS itself failed, by our judgement or by an alert of the peer: not the socket. */
bool tls_refused(const tls_t *tls);

/* Return the number of the alert by which the peer ended TLS (RFC 8446, 6), or -1. */
int tls_alert(const tls_t *tls);

/* Say whether the peer ended the connection, perhaps because it got no certificate. */
bool tls_lacks_certificate(const tls_t *tls);

/* Return the reason of the failure, in one line without a line end; empty without one. */
const char *tls_failure(const tls_t *tls);

void tls_get_facts(const tls_t *tls, tls_facts_t *facts);

/* Return the subject of the peer's certificate (RFC 2253), or NULL if it showed none. */
const char *tls_peer_subject(tls_t *tls);

#endif
