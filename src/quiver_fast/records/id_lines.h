/* Lines with ids, of v1 and v2 in milliseconds, to rows of run-length records.
 *
 *     iii,ttttttttttttt,ttttttttttttt\n      a receiver's
 *     iii,ttttttttttttt\n                    a sender's
 *     Siii,ttttttttttttt\n                   a settlement, or s for S
 *
 * iii is a decimal of 1 to 15 digits. Neighbours have different ids, so at low rates only
 * the speed of parsing a line counts, as in ms_lines.h: id and times are parsed side by
 * side, all their digits at once, for any width of the id.
 *
 * Up to eight bytes after `end` are read, which LineBuffer keeps readable.
 */
#ifndef QUIVER_ID_LINES_H
#define QUIVER_ID_LINES_H

#include "ms_lines.h"
#include "rows.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum {
  QUIVER_ID_LOAD = 16,         /* the most bytes of an id and its comma */
  QUIVER_ID_SENT_TAIL = 15,    /* ',ttttttttttttt\n' */
  QUIVER_ID_RECEIVED_TAIL = 29 /* ',ttttttttttttt,ttttttttttttt\n' */
};

/* The 16 bytes from `digits` on move that number of digits to the end, after zeros. */
static const unsigned char quiver_right_align[2 * QUIVER_ID_LOAD] = {128, 128, 128, 128, 128, 128,
  128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
  14, 15};

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

/* Count the digits of the id at the beginning of `text`; 0 if it has another layout. */
__attribute__((target("avx2"))) static inline unsigned quiver_id_digits(__m128i text) {
  __m128i values = _mm_sub_epi8(text, _mm_set1_epi8('0'));
  unsigned decimal =
    (unsigned) _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values));
  unsigned commas = (unsigned) _mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8(',')));
  unsigned digits = (unsigned) __builtin_ctz(~decimal);
  /* An id that begins with 0 is text, except 0 itself. */
  if (!(commas >> digits & 1) || ((_mm_cvtsi128_si32(values) & 255) == 0 && digits > 1)) return 0;
  return digits;
}

/* Return the numbers of twice 16 digit values, each in the form of quiver_ms_time. */
__attribute__((target("avx2"))) static inline __m256i quiver_two_numbers(__m256i values) {
  values = _mm256_maddubs_epi16(values, _mm256_set1_epi16(10 | 1 << 8));
  values = _mm256_madd_epi16(values, _mm256_set1_epi32(100 | 1 << 16));
  return _mm256_madd_epi16(_mm256_packus_epi32(values, values), _mm256_set1_epi32(10000 | 1 << 16));
}

__attribute__((target("avx2"))) static inline int64_t quiver_low_number(__m256i numbers) {
  return quiver_ms_time(_mm_cvtsi128_si64(_mm256_castsi256_si128(numbers)));
}

__attribute__((target("avx2"))) static inline int64_t quiver_high_number(__m256i numbers) {
  return quiver_ms_time(_mm_cvtsi128_si64(_mm256_extracti128_si256(numbers, 1)));
}

/* Say whether both texts, given as values, begin with 13 digits. */
__attribute__((target("avx2"))) static inline int quiver_are_times(
  __m256i values, unsigned digits) {
  unsigned decimal = (unsigned) _mm256_movemask_epi8(
    _mm256_cmpeq_epi8(_mm256_min_epu8(values, _mm256_set1_epi8(9)), values));
  return (decimal & digits) == digits;
}

__attribute__((target("avx2"))) static quiver_text quiver_take_id_received(
  quiver_text line, quiver_text end, quiver_rows *rows) {
  const __m128i zeros = _mm_set1_epi8('0');
  const __m256i right = _mm256_setr_epi8(QUIVER_RIGHT_ALIGNED, QUIVER_RIGHT_ALIGNED);
  const unsigned times = QUIVER_DIGITS_MASK | (unsigned) QUIVER_DIGITS_MASK << 16;
  const quiver_rows at = *rows;
  size_t lines = 0;
  quiver_id_row last = quiver_last_id_row(at.ids, at.sent, at.received, at.counts, at.size);
  while (end - line > QUIVER_ID_RECEIVED_TAIL) {
    __m128i id_text = _mm_loadu_si128((const __m128i *) line);
    unsigned digits = quiver_id_digits(id_text);
    quiver_text tail = line + digits;
    if (digits == 0 || end - tail < QUIVER_ID_RECEIVED_TAIL || tail[14] != ',' || tail[28] != '\n')
      break;
    __m256i values = _mm256_sub_epi8(
      _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) (tail + 1))),
        _mm_loadu_si128((const __m128i *) (tail + 15)), 1),
      _mm256_broadcastsi128_si256(zeros));
    if (!quiver_are_times(values, times)) break;
    __m128i id_values = _mm_shuffle_epi8(_mm_sub_epi8(id_text, zeros),
      _mm_loadu_si128((const __m128i *) (quiver_right_align + digits)));
    __m256i both = quiver_two_numbers(_mm256_shuffle_epi8(values, right));
    int64_t id = quiver_low_number(quiver_two_numbers(_mm256_castsi128_si256(id_values)));
    last = quiver_next_id_row(last, id, quiver_low_number(both), quiver_high_number(both));
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

__attribute__((target("avx2"))) static quiver_text quiver_take_id_sent(
  quiver_text line, quiver_text end, quiver_rows *rows) {
  const __m128i zeros = _mm_set1_epi8('0');
  const __m128i right = _mm_setr_epi8(QUIVER_RIGHT_ALIGNED);
  const quiver_rows at = *rows;
  size_t lines = 0;
  quiver_id_row last = quiver_last_id_row(at.ids, at.sent, NULL, at.counts, at.size);
  quiver_id_row settled =
    quiver_last_id_row(at.settled_ids, at.settled_times, NULL, at.settled_counts, at.settled_size);
  if (at.settled_size > 0) settled.received = at.settled_sampled[settled.index];
  while (end - line > QUIVER_ID_SENT_TAIL + 1) {
    int sampled = line[0] == 'S', settling = sampled | (line[0] == 's');
    if (settling && at.settled_ids == NULL) break;
    __m128i id_text = _mm_loadu_si128((const __m128i *) (line + settling));
    unsigned digits = quiver_id_digits(id_text);
    quiver_text tail = line + settling + digits;
    if (digits == 0 || end - tail < QUIVER_ID_SENT_TAIL || tail[14] != '\n') break;
    __m128i time = _mm_sub_epi8(_mm_loadu_si128((const __m128i *) (tail + 1)), zeros);
    __m256i values =
      _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_sub_epi8(id_text, zeros)), time, 1);
    if (!quiver_are_times(values, (unsigned) QUIVER_DIGITS_MASK << 16)) break;
    __m256i order = _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) (quiver_right_align + digits))),
      right, 1);
    __m256i both = quiver_two_numbers(_mm256_shuffle_epi8(values, order));
    int64_t id = quiver_low_number(both), at_time = quiver_high_number(both);
    size_t first = (size_t) settling, width = first + digits + QUIVER_ID_SENT_TAIL;
    size_t more = 0;
    if (settling) {
      settled = quiver_next_id_row(settled, id, at_time, sampled);
      if (settled.count >= QUIVER_WORTH_A_SEARCH)
        more = at.successors(line, width, first, first + digits - 1, end);
      settled.count += (int64_t) more;
      at.settled_ids[settled.index] = settled.id;
      at.settled_times[settled.index] = at_time;
      at.settled_sampled[settled.index] = (unsigned char) sampled;
      at.settled_counts[settled.index] = settled.count;
    } else {
      last = quiver_next_id_row(last, id, at_time, 0);
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
