/* The reason of a connection's failure, in words. */

#include "tls_parts.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

int tls_on_verify(int fine, X509_STORE_CTX *store) {
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
    /* An alert of the peer: the reason is its number (RFC 8446, 6.2). */
    snprintf(text, size, "the peer ended TLS: %s",
      SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
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
