/* All results of the fastest scanner and of CRC-32C for random texts, in one number: it has to be
 * the same on all machines. The scalar scanner and the table have to agree with them. */

#include "../../src/quiver_fast/queuefile/crc32c.h"
#include "../../src/quiver_fast/records/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  LINES = 64,
  TEXT = 65536, /* the largest page */
  MARGIN = 8    /* readable bytes after the text, as LineBuffer has them */
};

static uint64_t state = 57, digest;

static uint64_t below(uint64_t limit) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % limit;
}

static void note(uint64_t result) {
  digest = (digest ^ result) * 1099511628211u;
}

static void expect_same(size_t result, size_t twin) {
  if (result != twin) abort();
  note(result);
}

/* Write lines that often repeat or count up, some with a wrong byte; return their end. */
static char *write_lines(char *out, size_t lines) {
  static const int64_t firsts[] = {0, 7, 95, 998, 99999990, 999999999999995, 9999999999999990};
  const uint64_t with_id = below(2), received = below(2);
  int64_t time = 1472344673324 + (int64_t) below(1000000), id = firsts[below(7)];
  while (lines--) {
    char *line = out;
    if (below(8) == 0) time += (int64_t) below(3);
    if (with_id && !received && below(4) == 0) *out++ = "Ss"[below(2)];
    if (with_id) out += sprintf(out, "%lld,", (long long) id);
    out += sprintf(out, "%lld", (long long) time);
    if (received) out += sprintf(out, ",%lld", (long long) time + 2);
    if (!received && !with_id) out += sprintf(out, ",0");
    *out++ = '\n';
    if (below(40) == 0) line[below((uint64_t) (out - line))] = "0,\nS/:\xb0"[below(7)];
    id += below(16) != 0;
  }
  return out;
}

static void note_rows(
  quiver_take_fn take, const quiver_scanner *scanner, quiver_text text, quiver_text end) {
  static int64_t numbers[7][LINES];
  static unsigned char sampled[LINES];
  quiver_rows rows = {numbers[0], numbers[1], numbers[2], numbers[3], 0, numbers[4], numbers[5],
    numbers[6], sampled, 0, 0, scanner->successors};
  if (take == NULL) return;
  note((uint64_t) (take(text, end, &rows) - text));
  note(rows.size + 100 * rows.settled_size + 10000 * rows.lines);
  for (size_t column = 0; column < 7; column++) {
    const size_t size = column < 4 ? rows.size : rows.settled_size;
    for (size_t row = 0; row < size; row++) note((uint64_t) numbers[column][row]);
  }
  for (size_t row = 0; row < rows.settled_size; row++) note(sampled[row]);
}

static void note_text(const quiver_scanner *scanner, quiver_text text, quiver_text end) {
  const size_t size = (size_t) (end - text);
  for (size_t width = 1; width <= 70 && width <= size; width++) {
    const size_t last = below(width), first = below(last + 1);
    expect_same(scanner->repeats(text, width, end), quiver_repeats_scalar(text, width, end));
    expect_same(scanner->successors(text, width, first, last, end),
      quiver_successors_scalar(text, width, first, last, end));
  }
  note_rows(scanner->take_ms_received, scanner, text, end);
  note_rows(scanner->take_ms_sent, scanner, text, end);
  note_rows(scanner->take_id_received, scanner, text, end);
  note_rows(scanner->take_id_sent, scanner, text, end);
  const char *bytes = (const char *) text;
  expect_same(quiver_crc(57, bytes, size), quiver_crc_plain(57, bytes, size));
}

int main(int count, char **arguments) {
  static char text[TEXT];
  const quiver_scanner scanner = quiver_scanner_at(0);
  /* After the margin there is memory that cannot be read. */
  char *limit = mmap(NULL, 2 * TEXT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (limit == MAP_FAILED || mprotect(limit += TEXT, TEXT, PROT_NONE) != 0) return 1;
  quiver_crc_prepare();
  for (long left = count > 1 ? strtol(arguments[1], NULL, 10) : 1; left > 0; left--) {
    const size_t size = (size_t) (write_lines(text, below(LINES)) - text);
    char *start = limit - MARGIN - size;
    memcpy(start, text, size);
    memset(start + size, '7', MARGIN);
    note_text(&scanner, (quiver_text) start, (quiver_text) start + size);
  }
  printf("%s %016llx\n", scanner.name, (unsigned long long) digest);
  return 0;
}
