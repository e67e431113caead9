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

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  QUIVER_MS_RECEIVED_LINE = 28,
  QUIVER_MS_SENT_LINE = 16
};

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Weights of 13 digits and the bytes after them, which have none. */
#define QUIVER_DIGITS_MASK 0x1FFF

/* Move 13 digits to the end of 16 bytes, after zeros (a set high bit makes a zero). */
#define QUIVER_RIGHT_ALIGNED -128, -128, -128, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12

/* From 8 digits in each of two 32-bit numbers: the first is the low one. */
static inline int64_t quiver_ms_time(int64_t halves) {
  return (int64_t) (uint32_t) halves * 100000000 + (int64_t) ((uint64_t) halves >> 32);
}

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

__attribute__((target("avx2"))) static quiver_text quiver_take_ms_received(
  quiver_text line, quiver_text end, quiver_rows *rows) {
  const __m256i zeros = _mm256_set1_epi8('0'), nine = _mm256_set1_epi8(9);
  const __m256i right = _mm256_setr_epi8(QUIVER_RIGHT_ALIGNED, QUIVER_RIGHT_ALIGNED);
  const __m256i tens = _mm256_set1_epi16(10 | 1 << 8);
  const __m256i hundreds = _mm256_set1_epi32(100 | 1 << 16);
  const __m256i myriads = _mm256_set1_epi32(10000 | 1 << 16);
  const unsigned digits = QUIVER_DIGITS_MASK | (unsigned) QUIVER_DIGITS_MASK << 16;
  const quiver_rows at = *rows;
  const quiver_text start = line;
  quiver_row last = quiver_last_row(&at, 1);
  for (; end - line >= QUIVER_MS_RECEIVED_LINE; line += QUIVER_MS_RECEIVED_LINE) {
    __m128i first = _mm_loadu_si128((const __m128i *) line);
    __m128i second = _mm_loadu_si128((const __m128i *) (line + 14));
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
    __m256i values = _mm256_sub_epi8(both, zeros);
    unsigned decimal =
      (unsigned) _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(values, nine), values));
    if ((decimal & digits) != digits || line[13] != ',' || line[27] != '\n') break;
    values = _mm256_shuffle_epi8(values, right);
    values = _mm256_maddubs_epi16(values, tens);
    values = _mm256_madd_epi16(values, hundreds);
    values = _mm256_madd_epi16(_mm256_packus_epi32(values, values), myriads);
    int64_t sent = quiver_ms_time(_mm_cvtsi128_si64(_mm256_castsi256_si128(values)));
    int64_t received = quiver_ms_time(_mm_cvtsi128_si64(_mm256_extracti128_si256(values, 1)));
    last = quiver_next_row(last, sent, received);
    at.sent[last.index] = sent;
    at.received[last.index] = received;
    if (last.count >= QUIVER_WORTH_A_SEARCH) {
      size_t more = quiver_repeats_avx2(line, QUIVER_MS_RECEIVED_LINE, end);
      last.count += (int64_t) more;
      line += more * QUIVER_MS_RECEIVED_LINE;
    }
    at.counts[last.index] = last.count;
  }
  rows->size = last.index + 1;
  rows->lines += (size_t) (line - start) / QUIVER_MS_RECEIVED_LINE;
  return line;
}

__attribute__((target("avx2"))) static quiver_text quiver_take_ms_sent(
  quiver_text line, quiver_text end, quiver_rows *rows) {
  const __m128i zeros = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
  const __m128i right = _mm_setr_epi8(QUIVER_RIGHT_ALIGNED);
  const __m128i tens = _mm_set1_epi16(10 | 1 << 8);
  const __m128i hundreds = _mm_set1_epi32(100 | 1 << 16);
  const __m128i myriads = _mm_set1_epi32(10000 | 1 << 16);
  const int digits = QUIVER_DIGITS_MASK;
  const quiver_rows at = *rows;
  const quiver_text start = line;
  quiver_row last = quiver_last_row(&at, 0);
  for (; end - line >= QUIVER_MS_SENT_LINE; line += QUIVER_MS_SENT_LINE) {
    __m128i values = _mm_sub_epi8(_mm_loadu_si128((const __m128i *) line), zeros);
    int decimal = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(values, nine), values));
    if ((decimal & digits) != digits || line[13] != ',' || line[14] != '0' || line[15] != '\n')
      break;
    values = _mm_shuffle_epi8(values, right);
    values = _mm_madd_epi16(_mm_maddubs_epi16(values, tens), hundreds);
    values = _mm_madd_epi16(_mm_packus_epi32(values, values), myriads);
    int64_t sent = quiver_ms_time(_mm_cvtsi128_si64(values));
    last = quiver_next_row(last, sent, 0);
    at.sent[last.index] = sent;
    if (last.count >= QUIVER_WORTH_A_SEARCH) {
      size_t more = quiver_repeats_avx2(line, QUIVER_MS_SENT_LINE, end);
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
