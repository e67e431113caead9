/* The physical limit of large bodies: a plain copy through loopback TCP.
 *
 *   tcp_copy BYTES [relay]
 *
 * A child process writes BYTES in 64 KiB pieces, this process reads them into a
 * 64 KiB buffer and prints the bytes per second from the first to the last read.
 * With a relay another process stands between them, and writes what it reads.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

enum {
  PIECE = 64 * 1024
};

static void check(int failed, const char *what) {
  if (!failed) return;
  perror(what);
  exit(1);
}

static int listen_on(struct sockaddr_in *address) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  socklen_t length = sizeof *address;
  *address = (struct sockaddr_in) {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  check(bind(listener, (struct sockaddr *) address, length), "bind");
  check(listen(listener, 1), "listen");
  check(getsockname(listener, (struct sockaddr *) address, &length), "getsockname");
  return listener;
}

static int connect_to(struct sockaddr_in address) {
  int out = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(out, (struct sockaddr *) &address, sizeof address), "connect");
  return out;
}

static void write_piece(int out, const char *piece, size_t size) {
  while (size > 0) {
    ssize_t written = write(out, piece, size);
    check(written < 0, "write");
    piece += written;
    size -= (size_t) written;
  }
}

static void write_all(int out, int64_t bytes) {
  static char piece[PIECE];
  memset(piece, 'x', sizeof piece);
  for (; bytes > PIECE; bytes -= PIECE) write_piece(out, piece, PIECE);
  write_piece(out, piece, (size_t) bytes);
}

static void relay(int in, int out) {
  static char piece[PIECE];
  for (ssize_t got; (got = read(in, piece, sizeof piece)) > 0;)
    write_piece(out, piece, (size_t) got);
}

static int accept_at(int listener) {
  int in = accept(listener, NULL, NULL);
  check(in < 0, "accept");
  close(listener);
  return in;
}

static pid_t fork_process(void) {
  pid_t child = fork();
  check(child < 0, "fork");
  return child;
}

/* Start what writes, and what relays it; returns where this process reads. */
static int start(int64_t bytes, int with_relay, int *children) {
  struct sockaddr_in address, near;
  int listener = listen_on(&address);
  *children = 1 + with_relay;
  if (with_relay) {
    int between = listen_on(&near);
    if (fork_process() == 0) {
      close(listener);
      relay(accept_at(between), connect_to(address));
      exit(0);
    }
    close(between);
  } else {
    near = address;
  }
  if (fork_process() == 0) {
    write_all(connect_to(near), bytes);
    exit(0);
  }
  return accept_at(listener);
}

int main(int argc, char **argv) {
  int64_t bytes = argc == 2 || argc == 3 ? atoll(argv[1]) : 0;
  int with_relay = argc == 3 && strcmp(argv[2], "relay") == 0;
  if (bytes <= PIECE || argc - 2 != with_relay) {
    fprintf(stderr, "usage: tcp_copy BYTES [relay] (more than %d)\n", PIECE);
    return 2;
  }
  int children;
  int in = start(bytes, with_relay, &children);
  static char piece[PIECE];
  ssize_t first = read(in, piece, sizeof piece);
  check(first <= 0, "read");
  double begin = seconds();
  int64_t received = 0;
  for (ssize_t got; (got = read(in, piece, sizeof piece)) > 0;) received += got;
  double elapsed = seconds() - begin;
  int status = 0;
  for (int one; children > 0 && wait(&one) > 0; --children) status |= one;
  if (status != 0 || received + first != bytes) {
    fprintf(stderr, "tcp_copy: %lld of %lld bytes arrived\n", (long long) (received + first),
      (long long) bytes);
    return 1;
  }
  printf("%.0f\n", (double) received / elapsed);
  return 0;
}
