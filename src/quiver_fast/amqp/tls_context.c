/* Contexts: our certificate, the trusted authorities, and the rule for the peer's certificate. */

#include "tls_parts.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Ciphers of TLS 1.2 with a certificate and forward secrecy, and without SHA-1. */
static const char *const OF_TODAY = "HIGH:!aNULL:!eNULL:!kRSA:!PSK:!SRP:!SHA1";
/* All ciphers of OpenSSL that authenticate a server, or all that encrypt. */
static const char *const WITH_CERTIFICATES = "ALL:!aNULL:!eNULL:@STRENGTH";
static const char *const WITH_ANY = "ALL:aNULL:!eNULL:@STRENGTH";
/* Keys of 112 bits, and no SHA-1: OpenSSL's default since 3.2. */
#define LEVEL_OF_TODAY 2

bool tls_present(void) {
  return true;
}

/* Nobody can be asked for the password of a key. */
static int no_password(char *buffer, int size, int writing, void *data) {
  (void) buffer, (void) size, (void) writing, (void) data;
  return 0;
}

static const char *latest_reason(void) {
  const unsigned long first = ERR_peek_error();
  unsigned long error = ERR_peek_last_error();
  /* "PEM lib": the reason is before it. */
  if (ERR_GET_REASON(error) == ERR_R_PEM_LIB) error = first;
  const char *reason = ERR_reason_error_string(error);
  return reason                         ? reason
    : ERR_GET_LIB(error) == ERR_LIB_SYS ? strerror(ERR_GET_REASON(error))
                                        : "no reason given";
}

static bool refuse(tls_context_t *context) {
  snprintf(context->failure, sizeof(context->failure), "%s", latest_reason());
  ERR_clear_error();
  return false;
}

/* Called by OpenSSL before a client shows a certificate, or none, to a peer that asks for one. */
static int on_request(SSL *ssl, void *unused) {
  (void) unused;
  tls_t *tls = SSL_get_app_data(ssl);
  tls->asked = !tls->context->server;
  return 1;
}

tls_context_t *tls_context_new(bool server) {
  tls_context_t *context = calloc(1, sizeof(*context));
  if (!context) return NULL;
  context->users = 1;
  context->server = server;
  context->record = malloc(RECORD_MAX);
  context->ssl = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
  if (!context->ssl || !context->record) {
    tls_context_free(context);
    return NULL;
  }
  SSL_CTX *ssl = context->ssl;
  SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION);
#if KTLS
  SSL_CTX_set_options(ssl, SSL_OP_ENABLE_KTLS);
#endif
  SSL_CTX_set_mode(ssl,
    SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY |
      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(ssl, 1);
  SSL_CTX_set_default_read_buffer_len(ssl, READ_AHEAD);
  SSL_CTX_set_default_passwd_cb(ssl, no_password);
  SSL_CTX_set_cert_cb(ssl, on_request, NULL);
  SSL_CTX_set_dh_auto(ssl, 1);
  /* A server that verifies clients resumes a session only within a named context. */
  static const unsigned char name[] = "quiver";
  SSL_CTX_set_session_id_context(ssl, name, sizeof(name) - 1);
  /* Revocation lists may be among the trusted authorities; see tls_on_verify. */
  X509_STORE_set_flags(SSL_CTX_get_cert_store(ssl),
    X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  context->usual_level = SSL_CTX_get_security_level(ssl);
  return context;
}

void tls_context_free(tls_context_t *context) {
  if (!context || --context->users > 0) return;
  SSL_CTX_free(context->ssl);
  free(context->record);
  free(context->spare);
  free(context);
}

const char *tls_context_failure(const tls_context_t *context) {
  return context->failure;
}

bool tls_context_identify(tls_context_t *context, const char *certificate, const char *key) {
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context->ssl, certificate) != 1) return refuse(context);
  if (SSL_CTX_use_PrivateKey_file(context->ssl, key, SSL_FILETYPE_PEM) != 1) {
    return refuse(context);
  }
  context->identified = SSL_CTX_check_private_key(context->ssl) == 1;
  if (context->identified) return true;
  /* OpenSSL drops a certificate that does not fit the key, and reports it missing here. */
  ERR_clear_error();
  snprintf(context->failure, sizeof(context->failure), "the key is not the certificate's");
  return false;
}

/* A file of revocation lists only loads without an error. */
static bool has_certificates(const X509_STORE *store) {
  const STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(store);
  for (int i = 0; i < sk_X509_OBJECT_num(all); ++i) {
    if (X509_OBJECT_get_type(sk_X509_OBJECT_value(all, i)) == X509_LU_X509) return true;
  }
  return false;
}

static bool load_store(tls_context_t *context, const char *store) {
  struct stat status;
  if (!store) return SSL_CTX_set_default_verify_paths(context->ssl) == 1;
  const bool folder = stat(store, &status) == 0 && S_ISDIR(status.st_mode);
  if (SSL_CTX_load_verify_locations(context->ssl, folder ? NULL : store, folder ? store : NULL) !=
    1) {
    return false;
  }
  if (!folder && !has_certificates(SSL_CTX_get_cert_store(context->ssl))) return false;
  if (!context->server) return true;
  /* A client may choose its certificate by the names of these authorities. */
  STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
  const bool read = names &&
    (folder ? SSL_add_dir_cert_subjects_to_stack(names, store)
            : SSL_add_file_cert_subjects_to_stack(names, store));
  SSL_CTX_set_client_CA_list(context->ssl, names);
  return read;
}

/* TLS before 1.2 is refused (RFC 8996), except where a user allows it, or a client verifies
 * nothing: then short keys are allowed too, and the client allows anonymous ciphers. */
static bool set_age(tls_context_t *context, bool old) {
  SSL_CTX *ssl = context->ssl;
  const bool any = context->peer == TLS_PEER_ANY && !context->server;
  const char *ciphers = any ? WITH_ANY : old ? WITH_CERTIFICATES : OF_TODAY;
  const int usual = context->usual_level;
  SSL_CTX_set_security_level(ssl, any || old ? 0 : usual > LEVEL_OF_TODAY ? usual : LEVEL_OF_TODAY);
  return SSL_CTX_set_min_proto_version(ssl, any || old ? 0 : TLS1_2_VERSION) == 1 &&
    SSL_CTX_set_cipher_list(ssl, ciphers) == 1;
}

bool tls_context_trust(tls_context_t *context, const char *store, enum tls_peer peer, bool old) {
  ERR_clear_error();
  if ((store || peer != TLS_PEER_ANY) && !load_store(context, store)) return refuse(context);
  int mode = peer == TLS_PEER_ANY ? SSL_VERIFY_NONE : SSL_VERIFY_PEER;
  if (peer == TLS_PEER_REQUIRED) mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  SSL_CTX_set_verify(context->ssl, mode, tls_on_verify);
  context->peer = peer;
  return set_age(context, old) || refuse(context);
}
