/* The reason of a connection's failure, in words. */

#include "tls_parts.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

/* The alerts (RFC 8446, 6 and B.2; older ones in RFC 5246, 7.2, and RFC 4346, 7.2), with words for
 * those whose name does not say enough. OpenSSL has no names for some. */
static const struct {
  int number;
  const char *words;
} ALERTS[] = {
  {0, "close notify"},
  {10, "unexpected message"},
  {20, "bad record mac"},
  {21, "decryption failed"},
  {22, "record overflow"},
  {30, "decompression failure"},
  {40, "handshake failure"},
  {41, "no certificate"},
  {42, "bad certificate"},
  {43, "unsupported certificate"},
  {44, "certificate revoked"},
  {45, "certificate expired"},
  {46, "certificate unknown"},
  {47, "illegal parameter"},
  {48, "unknown CA"},
  {49, "access denied: it does not admit our certificate"},
  {50, "decode error"},
  {51, "decrypt error"},
  {60, "export restriction"},
  {70, "protocol version: it takes none that we offer"},
  {71, "insufficient security: it wants stronger ciphers or keys"},
  {80, "internal error of the peer"},
  {86, "inappropriate fallback: it has a newer version of TLS"},
  {90, "user canceled"},
  {100, "no renegotiation"},
  {109, "missing extension"},
  {110, "unsupported extension"},
  {111, "certificate unobtainable"},
  {112, "unrecognized name: it does not serve the host that we name"},
  {113, "bad certificate status response"},
  {114, "bad certificate hash value"},
  {115, "unknown PSK identity"},
  {116, "certificate required"},
  {120, "no application protocol"},
  {121, "ECH required"},
};

static void say_alert(tls_t *tls) {
  for (size_t i = 0; i < sizeof(ALERTS) / sizeof(*ALERTS); ++i) {
    if (ALERTS[i].number != tls->alert) continue;
    snprintf(tls->failure, sizeof(tls->failure), "the peer ended TLS: %s", ALERTS[i].words);
    return;
  }
  snprintf(tls->failure, sizeof(tls->failure), "the peer ended TLS: alert %d", tls->alert);
}

bool tls_lacks_certificate(const tls_t *tls) {
  switch (tls->alert) {
  case 41:
  case 116:
    return true;
  /* Peers of TLS 1.2 send any of these. Others cut the connection. */
  case 40:
  case 42:
  case 43:
  case 46:
  case 49:
  case -1:
    return tls->asked && !tls->context->identified && (tls->alert >= 0 || !tls_refused(tls));
  default:
    return false;
  }
}

/* An authority without a revocation list has revoked nothing. Its list may be of authorities only,
 * or of others only (RFC 5280, 5.2.5): then it has none for this certificate. */
static bool is_unlisted(X509_STORE_CTX *store) {
  const int error = X509_STORE_CTX_get_error(store);
  if (error != X509_V_ERR_UNABLE_TO_GET_CRL && error != X509_V_ERR_DIFFERENT_CRL_SCOPE) {
    return false;
  }
  X509_STORE_CTX_set_error(store, X509_V_OK);
  return true;
}

int tls_on_verify(int fine, X509_STORE_CTX *store) {
  if (!fine && is_unlisted(store)) return 1;
  SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  tls_t *tls = SSL_get_app_data(ssl);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (fine || tls->verdict != X509_V_OK) return fine;
  tls->verdict = X509_STORE_CTX_get_error(store);
  X509 *certificate = X509_STORE_CTX_get0_cert(store);
  if (certificate && X509_digest(certificate, EVP_sha256(), digest, &size)) {
    for (unsigned i = 0; i < size; ++i) snprintf(tls->digest + 2 * i, 3, "%02x", digest[i]);
  }
  return fine;
}

static void say_unverified(tls_t *tls) {
  char *text = tls->failure;
  const size_t size = sizeof(tls->failure);
  if (tls->verdict == X509_V_ERR_HOSTNAME_MISMATCH) {
    snprintf(text, size,
      "certificate verify failed: its certificate does not name '%s' as a DNS name or common name",
      tls->host);
  } else if (tls->verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    snprintf(text, size,
      "certificate verify failed: its certificate does not name '%s' as an IP address", tls->host);
  } else {
    snprintf(
      text, size, "certificate verify failed: %s", X509_verify_cert_error_string(tls->verdict));
  }
  const size_t used = strlen(text);
  if (tls->digest[0]) {
    snprintf(text + used, size - used, " (certificate with SHA-256 %s)", tls->digest);
  }
}

static void say_failure(tls_t *tls, unsigned long error) {
  const int reason = ERR_GET_REASON(error);
  char *text = tls->failure;
  const size_t size = sizeof(tls->failure);
  if (tls->foreign) {
    snprintf(text, size, "the peer speaks no TLS");
  } else if (tls->socket_error) {
    snprintf(text, size, "connection lost: %s", strerror(tls->socket_error));
  } else if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    say_unverified(tls);
  } else if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET) {
    tls->alert = reason - SSL_AD_REASON_OFFSET;
    say_alert(tls);
  } else if (ERR_reason_error_string(error)) {
    snprintf(text, size, "%s", ERR_reason_error_string(error));
  } else {
    snprintf(text, size, "OpenSSL failed without a reason");
  }
}

void tls_say_lost(tls_t *tls) {
  if (!tls->failure[0]) say_failure(tls, 0);
}

static bool is_early_end(unsigned long error) {
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
  return ERR_GET_LIB(error) == ERR_LIB_SSL &&
    ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#else
  return error == 0 && errno == 0;
#endif
}

static int fail(tls_t *tls, unsigned long error) {
  if (!tls->failed) {
    tls->failed = true;
    say_failure(tls, error);
    /* The alert with the reason. */
    if (!tls->socket_error) tls_send_unsent(tls);
  }
  ERR_clear_error();
  return TLS_FAILED;
}

int tls_judge(tls_t *tls, int result) {
  const int system_error = errno;
  const unsigned long error = ERR_peek_error();
  switch (SSL_get_error(tls->ssl, result)) {
  case SSL_ERROR_WANT_READ:
  case SSL_ERROR_WANT_WRITE:
    return TLS_AGAIN;
  case SSL_ERROR_ZERO_RETURN:
    tls->ended = true;
    return TLS_END;
  case SSL_ERROR_SYSCALL:
    if (!is_early_end(error)) {
      if (!tls->socket_error && !tls->foreign) {
        tls->socket_error = system_error ? system_error : ECONNRESET;
      }
      return fail(tls, error);
    }
    break;
  default:
    if (!is_early_end(error)) return fail(tls, error);
  }
  ERR_clear_error();
  tls->ended = tls->truncated = true;
  snprintf(tls->failure, sizeof(tls->failure), "%s",
    tls->established ? "the peer cut the connection without the close of TLS"
                     : "the peer cut the connection in the handshake");
  return TLS_END;
}
