/* Lines of the fixed v3 layouts in milliseconds, to rows of run-length records.
 *
 *     ttttttttttttt,ttttttttttttt\n      a receiver's, 28 bytes
 *     ttttttttttttt,0\n                  a sender's, 16 bytes
 *
 * At low rates hardly a line repeats the one before it, so the speed of parsing a line
 * counts: all its digits are parsed at once, a time in each half of a vector.
 *
 * Up to two bytes after `end` are read, which LineBuffer keeps readable.
 */
#ifndef QUIVER_MS_LINES_H
#define QUIVER_MS_LINES_H

#include "repeats.h"
#include "rows.h"
#include "vectors.h"

#include <stddef.h>
#include <stdint.h>

enum {
  QUIVER_MS_RECEIVED_LINE = 28,
  QUIVER_MS_SENT_LINE = 16
};

#ifdef QUIVER_VECTORS

/* The row that the next line may add to, in registers. */
typedef struct {
  int64_t sent, received, count;
  size_t index;
} quiver_row;

static inline quiver_row quiver_last_row(const quiver_rows *rows, int receiving) {
  size_t index = rows->size - 1;
  if (rows->size == 0) return (quiver_row) {-1, -1, 0, index}; /* no time is negative */
  return (quiver_row) {
    rows->sent[index], receiving ? rows->received[index] : 0, rows->counts[index], index};
}

/* Without a branch, because repeats may come at random. */
static inline quiver_row quiver_next_row(quiver_row last, int64_t sent, int64_t received) {
  int64_t same = (sent == last.sent) & (received == last.received);
  return (quiver_row) {sent, received, (last.count & -same) + 1, last.index + (size_t) !same};
}

/* After so many equal lines the search for the first different one begins. */
enum {
  QUIVER_WORTH_A_SEARCH = 4
};

QUIVER_TARGET static quiver_text quiver_take_ms_received(
  quiver_text line, quiver_text end, quiver_rows *rows) {
  const quiver_rows at = *rows;
  const quiver_text start = line;
  quiver_row last = quiver_last_row(&at, 1);
  for (; end - line >= QUIVER_MS_RECEIVED_LINE; line += QUIVER_MS_RECEIVED_LINE) {
    quiver_32 values = quiver_values32(line, line + 14);
    if (!quiver_are_times(values, 0) || line[13] != ',' || line[27] != '\n') break;
    quiver_numbers times = quiver_two_numbers(values, QUIVER_TIME_DIGITS, QUIVER_TIME_DIGITS);
    last = quiver_next_row(last, times.first, times.second);
    at.sent[last.index] = times.first;
    at.received[last.index] = times.second;
    if (last.count >= QUIVER_WORTH_A_SEARCH) {
      size_t more = quiver_repeats_vectors(line, QUIVER_MS_RECEIVED_LINE, end);
      last.count += (int64_t) more;
      line += more * QUIVER_MS_RECEIVED_LINE;
    }
    at.counts[last.index] = last.count;
  }
  rows->size = last.index + 1;
  rows->lines += (size_t) (line - start) / QUIVER_MS_RECEIVED_LINE;
  return line;
}

QUIVER_TARGET static quiver_text quiver_take_ms_sent(
  quiver_text line, quiver_text end, quiver_rows *rows) {
  const quiver_rows at = *rows;
  const quiver_text start = line;
  quiver_row last = quiver_last_row(&at, 0);
  for (; end - line >= QUIVER_MS_SENT_LINE; line += QUIVER_MS_SENT_LINE) {
    quiver_16 values = quiver_values16(line);
    if (!quiver_is_time(values) || line[13] != ',' || line[14] != '0' || line[15] != '\n') break;
    int64_t sent = quiver_number(values, QUIVER_TIME_DIGITS);
    last = quiver_next_row(last, sent, 0);
    at.sent[last.index] = sent;
    if (last.count >= QUIVER_WORTH_A_SEARCH) {
      size_t more = quiver_repeats_vectors(line, QUIVER_MS_SENT_LINE, end);
      last.count += (int64_t) more;
      line += more * QUIVER_MS_SENT_LINE;
    }
    at.counts[last.index] = last.count;
  }
  rows->size = last.index + 1;
  rows->lines += (size_t) (line - start) / QUIVER_MS_SENT_LINE;
  return line;
}
#endif

#endif
