/* TLS in a build without OpenSSL: there are no contexts, and so no connections. */

#include "tls_socket.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

bool tls_present(void) {
  return false;
}

tls_context_t *tls_context_new(bool server) {
  return NULL;
}

void tls_context_free(tls_context_t *context) {}

bool tls_context_identify(tls_context_t *context, const char *certificate, const char *key) {
  return false;
}

bool tls_context_trust(tls_context_t *context, const char *store, enum tls_peer peer, bool old) {
  return false;
}

const char *tls_context_failure(const tls_context_t *context) {
  return "";
}

tls_t *tls_new(tls_context_t *context, int fd, const char *host) {
  return NULL;
}

void tls_free(tls_t *tls) {}

int tls_handshake(tls_t *tls) {
  return TLS_FAILED;
}

ssize_t tls_read(tls_t *tls, void *buffer, size_t size) {
  return TLS_FAILED;
}

ssize_t tls_write(tls_t *tls, const struct iovec *parts, int count) {
  return TLS_FAILED;
}

int tls_flush(tls_t *tls) {
  return TLS_FAILED;
}

int tls_close(tls_t *tls) {
  return TLS_FAILED;
}

bool tls_has_input(const tls_t *tls) {
  return false;
}

short tls_events(const tls_t *tls) {
  return 0;
}

size_t tls_waiting(const tls_t *tls) {
  return 0;
}

bool tls_established(const tls_t *tls) {
  return false;
}

bool tls_truncated(const tls_t *tls) {
  return false;
}

int tls_socket_error(const tls_t *tls) {
  return 0;
}

bool tls_refused(const tls_t *tls) {
  return false;
}

int tls_alert(const tls_t *tls) {
  return -1;
}

bool tls_lacks_certificate(const tls_t *tls) {
  return false;
}

const char *tls_failure(const tls_t *tls) {
  return "";
}

void tls_get_facts(const tls_t *tls, tls_facts_t *facts) {
  *facts = (tls_facts_t) {.protocol = "", .cipher = ""};
}

const char *tls_peer_subject(tls_t *tls) {
  return NULL;
}
