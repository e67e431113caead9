/* The physical limit of large bodies: a plain copy through loopback TCP.
 *
 *   tcp_copy BYTES
 *
 * A child process writes BYTES in 64 KiB pieces, this process reads them into a
 * 64 KiB buffer and prints the bytes per second from the first to the last read.
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
#include <time.h>
#include <unistd.h>

enum { PIECE = 64 * 1024 };

static void check(int failed, const char *what) {
  if (!failed) return;
  perror(what);
  exit(1);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static void write_all(struct sockaddr_in address, int64_t bytes) {
  static char piece[PIECE];
  memset(piece, 'x', sizeof piece);
  int out = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(out, (struct sockaddr *)&address, sizeof address), "connect");
  while (bytes > 0) {
    ssize_t written = write(out, piece, bytes < PIECE ? (size_t)bytes : PIECE);
    check(written < 0, "write");
    bytes -= written;
  }
  close(out);
}

int main(int argc, char **argv) {
  int64_t bytes = argc == 2 ? atoll(argv[1]) : 0;
  if (bytes <= PIECE) {
    fprintf(stderr, "usage: tcp_copy BYTES (more than %d)\n", PIECE);
    return 2;
  }
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  check(bind(listener, (struct sockaddr *)&address, length), "bind");
  check(listen(listener, 1), "listen");
  check(getsockname(listener, (struct sockaddr *)&address, &length), "getsockname");
  pid_t writer = fork();
  check(writer < 0, "fork");
  if (writer == 0) {
    write_all(address, bytes);
    return 0;
  }
  int in = accept(listener, NULL, NULL);
  check(in < 0, "accept");
  static char piece[PIECE];
  ssize_t first = read(in, piece, sizeof piece);
  check(first <= 0, "read");
  double start = seconds();
  int64_t received = 0;
  for (ssize_t got; (got = read(in, piece, sizeof piece)) > 0;) received += got;
  double elapsed = seconds() - start;
  int status;
  waitpid(writer, &status, 0);
  if (status != 0 || received + first != bytes) {
    fprintf(stderr, "tcp_copy: %lld of %lld bytes arrived\n", (long long)(received + first),
            (long long)bytes);
    return 1;
  }
  printf("%.0f\n", received / elapsed);
  return 0;
}
