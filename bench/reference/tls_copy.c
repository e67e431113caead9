/* The physical limit of large bodies within TLS 1.3: a plain copy by OpenSSL alone.
 *
 *   tls_copy BYTES
 *
 * A child process writes BYTES in 64 KiB pieces, this process reads them into a 64 KiB
 * buffer. It prints the bytes per second from the first to the last read, and for writer
 * and reader who encrypts: the kernel where it can, else the process.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

enum {
  PIECE = 64 * 1024,
  DAY = 24 * 60 * 60
};

static char piece[PIECE];

static void check(int failed, const char *what) {
  if (!failed) return;
  fprintf(stderr, "tls_copy: %s failed\n", what);
  ERR_print_errors_fp(stderr);
  exit(1);
}

static SSL_CTX *context_of(const SSL_METHOD *method) {
  SSL_CTX *context = SSL_CTX_new(method);
  check(!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION), "TLS 1.3");
  SSL_CTX_set_options(context, SSL_OP_ENABLE_KTLS);
  return context;
}

/* A certificate of this run's own: nobody verifies it. */
static void certify(SSL_CTX *context) {
  EVP_PKEY *key = EVP_EC_gen("P-256");
  X509 *certificate = X509_new();
  check(!key || !certificate, "the key");
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), DAY);
  X509_set_pubkey(certificate, key);
  check(!X509_sign(certificate, key, EVP_sha256()), "the certificate");
  check(
    SSL_CTX_use_certificate(context, certificate) != 1 || SSL_CTX_use_PrivateKey(context, key) != 1,
    "the certificate");
  X509_free(certificate);
  EVP_PKEY_free(key);
}

static SSL *session_of(SSL_CTX *context, int fd) {
  const int one = 1;
  SSL *session = SSL_new(context);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  check(!session || !SSL_set_fd(session, fd), "the session");
  return session;
}

static const char *who(int kernel) {
  return kernel > 0 ? "kernel" : "process";
}

static void write_all(struct sockaddr_in address, int64_t bytes, int told) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(fd, (struct sockaddr *) &address, sizeof address), "connect");
  SSL *session = session_of(context_of(TLS_client_method()), fd);
  check(SSL_connect(session) != 1, "the handshake");
  const char *encrypts = who(BIO_get_ktls_send(SSL_get_wbio(session)) ? 1 : 0);
  check(write(told, encrypts, strlen(encrypts)) < 0, "write");
  while (bytes > 0) {
    const int wrote = SSL_write(session, piece, bytes < PIECE ? (int) bytes : PIECE);
    check(wrote <= 0, "SSL_write");
    bytes -= wrote;
  }
  SSL_shutdown(session);
}

static int listen_on(struct sockaddr_in *address) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  socklen_t length = sizeof *address;
  *address = (struct sockaddr_in) {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  check(bind(listener, (struct sockaddr *) address, length), "bind");
  check(listen(listener, 1), "listen");
  check(getsockname(listener, (struct sockaddr *) address, &length), "getsockname");
  return listener;
}

int main(int argc, char **argv) {
  const int64_t bytes = argc == 2 ? atoll(argv[1]) : 0;
  if (bytes <= PIECE) {
    fprintf(stderr, "usage: tls_copy BYTES (more than %d)\n", PIECE);
    return 2;
  }
  struct sockaddr_in address;
  const int listener = listen_on(&address);
  int told[2];
  check(pipe(told), "pipe");
  const pid_t writer = fork();
  check(writer < 0, "fork");
  if (writer == 0) {
    write_all(address, bytes, told[1]);
    return 0;
  }
  SSL_CTX *context = context_of(TLS_server_method());
  certify(context);
  /* A writer that ends with tickets unread would reset the connection. */
  SSL_CTX_set_num_tickets(context, 0);
  SSL *session = session_of(context, accept(listener, NULL, NULL));
  check(SSL_accept(session) != 1, "the handshake");
  const int first = SSL_read(session, piece, sizeof piece);
  check(first <= 0, "SSL_read");
  const double begin = seconds();
  int64_t received = 0;
  for (int got; (got = SSL_read(session, piece, sizeof piece)) > 0;) received += got;
  const double elapsed = seconds() - begin;
  const char *decrypts = who(BIO_get_ktls_recv(SSL_get_rbio(session)) ? 1 : 0);
  char encrypts[16] = "";
  int status;
  waitpid(writer, &status, 0);
  check(read(told[0], encrypts, sizeof encrypts - 1) <= 0, "read");
  if (status != 0 || received + first != bytes) {
    fprintf(stderr, "tls_copy: %lld of %lld bytes arrived\n", (long long) (received + first),
      (long long) bytes);
    return 1;
  }
  printf("%.0f %s %s\n", (double) received / elapsed, encrypts, decrypts);
  return 0;
}
