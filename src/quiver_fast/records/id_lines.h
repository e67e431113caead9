/* Lines with ids, of v1 and v2 in milliseconds, to rows of run-length records.
 *
 *     iii,ttttttttttttt,ttttttttttttt\n      a receiver's
 *     iii,ttttttttttttt\n                    a sender's
 *     Siii,ttttttttttttt\n                   a settlement, or s for S
 *
 * iii is a decimal of 1 to 16 digits. Neighbours have different ids, so at low rates only
 * the speed of parsing a line counts, as in ms_lines.h: id and times are parsed side by
 * side, all their digits at once, for any width of the id.
 *
 * Up to eight bytes after `end` are read, which LineBuffer keeps readable.
 */
#ifndef QUIVER_ID_LINES_H
#define QUIVER_ID_LINES_H

#include "ms_lines.h"
#include "rows.h"
#include "vectors.h"

#include <stddef.h>
#include <stdint.h>

#ifdef QUIVER_VECTORS

enum {
  QUIVER_ID_SENT_TAIL = 15,    /* ',ttttttttttttt\n' */
  QUIVER_ID_RECEIVED_TAIL = 29 /* ',ttttttttttttt,ttttttttttttt\n' */
};

/* The row that the next line may add to, in registers; `id` is the first of the row. */
typedef struct {
  int64_t id, sent, received, count;
  size_t index;
} quiver_id_row;

static inline quiver_id_row quiver_last_id_row(const int64_t *ids, const int64_t *sent,
  const int64_t *received, const int64_t *counts, size_t size) {
  size_t index = size - 1;
  if (size == 0) return (quiver_id_row) {0, -1, -1, 0, index}; /* no time is negative */
  return (quiver_id_row) {
    ids[index], sent[index], received == NULL ? 0 : received[index], counts[index], index};
}

/* Without a branch, as quiver_next_row. */
static inline quiver_id_row quiver_next_id_row(
  quiver_id_row last, int64_t id, int64_t sent, int64_t received) {
  uint64_t follows = (uint64_t) id ^ ((uint64_t) last.id + (uint64_t) last.count);
  uint64_t differs =
    follows | (uint64_t) (sent ^ last.sent) | (uint64_t) (received ^ last.received);
  int64_t same = differs == 0;
  return (quiver_id_row) {id ^ ((id ^ last.id) & -same), sent, received, (last.count & -same) + 1,
    last.index + 1 - (size_t) same};
}

/* Say whether so many digits are an id: one that begins with 0 is text, except 0 itself. The next
 * line begins `digits` later, so nothing but branches may depend on the answer. Without a digit,
 * the text begins with a comma, which is below 0. */
static inline int quiver_is_id(quiver_text text, unsigned digits) {
  return text[digits] == ',' && (text[0] > '0' || digits == 1);
}

QUIVER_TARGET static quiver_text quiver_take_id_received(
  quiver_text line, quiver_text end, quiver_rows *rows) {
  const quiver_rows at = *rows;
  size_t lines = 0;
  quiver_id_row last = quiver_last_id_row(at.ids, at.sent, at.received, at.counts, at.size);
  while (end - line > QUIVER_ID_RECEIVED_TAIL) {
    quiver_16 id_values = quiver_values16(line);
    unsigned digits = quiver_count_digits(id_values);
    quiver_text tail = line + digits;
    if (!quiver_is_id(line, digits)) break;
    if (end - tail < QUIVER_ID_RECEIVED_TAIL || tail[14] != ',' || tail[28] != '\n') break;
    quiver_32 values = quiver_values32(tail + 1, tail + 15);
    if (!quiver_are_times(values, 0)) break;
    quiver_numbers times = quiver_two_numbers(values, QUIVER_TIME_DIGITS, QUIVER_TIME_DIGITS);
    last = quiver_next_id_row(last, quiver_number(id_values, digits), times.first, times.second);
    at.ids[last.index] = last.id;
    at.sent[last.index] = last.sent;
    at.received[last.index] = last.received;
    size_t width = digits + QUIVER_ID_RECEIVED_TAIL, more = 0;
    if (last.count >= QUIVER_WORTH_A_SEARCH) more = at.successors(line, width, 0, digits - 1, end);
    last.count += (int64_t) more;
    at.counts[last.index] = last.count;
    lines += 1 + more;
    line += (1 + more) * width;
  }
  rows->size = last.index + 1;
  rows->lines += lines;
  return line;
}

QUIVER_TARGET static quiver_text quiver_take_id_sent(
  quiver_text line, quiver_text end, quiver_rows *rows) {
  const quiver_rows at = *rows;
  size_t lines = 0;
  quiver_id_row last = quiver_last_id_row(at.ids, at.sent, NULL, at.counts, at.size);
  quiver_id_row settled =
    quiver_last_id_row(at.settled_ids, at.settled_times, NULL, at.settled_counts, at.settled_size);
  if (at.settled_size > 0) settled.received = at.settled_sampled[settled.index];
  while (end - line > QUIVER_ID_SENT_TAIL + 1) {
    int sampled = line[0] == 'S', settling = sampled | (line[0] == 's');
    if (settling && at.settled_ids == NULL) break;
    quiver_text id = line + settling;
    unsigned digits = quiver_count_digits(quiver_values16(id));
    quiver_text tail = id + digits;
    if (!quiver_is_id(id, digits)) break;
    if (end - tail < QUIVER_ID_SENT_TAIL || tail[14] != '\n') break;
    quiver_32 values = quiver_values32(id, tail + 1);
    if (!quiver_are_times(values, 1)) break;
    quiver_numbers both = quiver_two_numbers(values, digits, QUIVER_TIME_DIGITS);
    int64_t at_time = both.second;
    size_t first = (size_t) settling, width = first + digits + QUIVER_ID_SENT_TAIL;
    size_t more = 0;
    if (settling) {
      settled = quiver_next_id_row(settled, both.first, at_time, sampled);
      if (settled.count >= QUIVER_WORTH_A_SEARCH)
        more = at.successors(line, width, first, first + digits - 1, end);
      settled.count += (int64_t) more;
      at.settled_ids[settled.index] = settled.id;
      at.settled_times[settled.index] = at_time;
      at.settled_sampled[settled.index] = (unsigned char) sampled;
      at.settled_counts[settled.index] = settled.count;
    } else {
      last = quiver_next_id_row(last, both.first, at_time, 0);
      if (last.count >= QUIVER_WORTH_A_SEARCH)
        more = at.successors(line, width, first, first + digits - 1, end);
      last.count += (int64_t) more;
      at.ids[last.index] = last.id;
      at.sent[last.index] = at_time;
      at.counts[last.index] = last.count;
    }
    lines += 1 + more;
    line += (1 + more) * width;
  }
  rows->size = last.index + 1;
  rows->settled_size = settled.index + 1;
  rows->lines += lines;
  return line;
}
#endif

#endif
